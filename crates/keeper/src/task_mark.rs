//! The mark that distinguishes the processes that a task started from all others.
//!
//! Each zygote and each spawned interpreter begins with a variable of fixed width in its environment. A worker
//! overwrites it in place: with its own key once, and with the number of the task before each task, which is one store.
//! The kernel shows those bytes of a forked child as they were at the fork, and a program inherits them at its exec. So
//! a process has the mark of the task that started it, even if it has lost its parents and has left the session. A
//! program with an environment of its own has no mark.

use std::ffi::{CStr, CString};

use crate::message::WorkerKey;
use crate::token::TASK_VARIABLE;

/// Length of a value, bytes: a slot, an epoch and a sequence, each in digits of four bits, with points between them.
const WIDTH: usize = 4 + 1 + 8 + 1 + SEQUENCE_WIDTH;
const SEQUENCE_WIDTH: usize = 8;
/// Offset of the sequence in a value.
const SEQUENCE_AT: usize = WIDTH - SEQUENCE_WIDTH;
/// The value in a process that is not a worker.
const NOBODY: &str = "----.--------.--------";

/// Returns the variable that a zygote or an interpreter begins with, as `NAME=value`.
pub(crate) fn variable() -> String {
    format!("{TASK_VARIABLE}={NOBODY}")
}

/// The parsed mark of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) worker: WorkerKey,
    /// The low half of the sequence of the task's record.
    pub(crate) sequence: u32,
}

impl Origin {
    /// Parses a mark. Returns `None` if the value is no mark, or the mark of a process that is not a worker.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let value: &[u8; WIDTH] = value.try_into().ok()?;
        let slot = u16::try_from(number(&value[..4])?).ok()?;
        let epoch = number(&value[5..13])?;
        let sequence = number(&value[SEQUENCE_AT..])?;
        (value[4] == b'.' && value[13] == b'.')
            .then_some(Self { worker: WorkerKey::new(slot, epoch), sequence })
    }
}

/// Returns a number as digits `0` to `?`, which are consecutive in ASCII: letters would need a test of each digit.
const fn digits(number: u32) -> [u8; 8] {
    // Each step moves the upper half of each part away from the lower half, until each digit has a byte.
    let mut word = number as u64;
    word = (word | word << 16) & 0x0000_ffff_0000_ffff;
    word = (word | word << 8) & 0x00ff_00ff_00ff_00ff;
    word = (word | word << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    (word + 0x3030_3030_3030_3030).to_be_bytes()
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 16)?;
        Some(number << 4 | u32::from(digit))
    })
}

/// The mark of this process, which is a worker: the bytes of its environment that its children inherit.
#[derive(Debug)]
pub struct TaskMark {
    /// Addresses of the sequence: in the block that the kernel shows, and in Python's copy of it.
    places: [*mut [u8; SEQUENCE_WIDTH]; 2],
}

impl TaskMark {
    /// Writes the worker's key into the mark of this process. `copy` is another copy of the variable's value, if there
    /// is one.
    ///
    /// Returns `None` if the process did not begin with the variable.
    ///
    /// # Safety
    /// No other thread uses the environment meanwhile. `copy` is valid for reads and writes for as long as the mark is.
    #[must_use]
    pub unsafe fn take(worker: WorkerKey, copy: Option<&mut [u8]>) -> Option<Self> {
        let name = CString::new(TASK_VARIABLE).ok()?;
        // SAFETY: the name is a C string; nothing changes the environment meanwhile, as the caller promised.
        let value = unsafe { libc::getenv(name.as_ptr()) };
        if value.is_null() {
            return None;
        }
        // SAFETY: `getenv` returns a C string.
        if unsafe { CStr::from_ptr(value) }.to_bytes().len() != WIDTH {
            return None;
        }
        let mut text = [b'.'; WIDTH];
        text[..4].copy_from_slice(&digits(worker.slot.0.into())[4..]);
        text[5..13].copy_from_slice(&digits(worker.epoch.0));
        // The sequence of no task, for processes that are started outside tasks.
        text[SEQUENCE_AT..].copy_from_slice(&digits(u32::MAX));
        let value = value.cast::<u8>();
        let copy = copy.filter(|copy| copy.len() == WIDTH).map_or(value, <[u8]>::as_mut_ptr);
        let places = [value, copy].map(|place| {
            // SAFETY: `WIDTH` bytes are there; the block of the environment is this process's own memory for good.
            unsafe {
                place.copy_from_nonoverlapping(text.as_ptr(), WIDTH);
                place.add(SEQUENCE_AT).cast()
            }
        });
        Some(Self { places })
    }

    /// Marks processes that are started from now on with the task of this sequence. Returns the former mark, for
    /// [`Self::restore`].
    #[inline]
    pub fn set(&self, sequence: u32) -> [u8; SEQUENCE_WIDTH] {
        // SAFETY: the address is valid as long as the mark is. Bytes need no alignment; other threads read them only in
        // the kernel.
        let outer = unsafe { self.places[0].read() };
        self.restore(digits(sequence));
        outer
    }

    /// Restores the mark of a task that was interrupted by another one.
    #[inline]
    pub fn restore(&self, outer: [u8; SEQUENCE_WIDTH]) {
        // SAFETY: as in `set`.
        unsafe {
            self.places[0].write(outer);
            self.places[1].write(outer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_the_environment() {
        for (slot, epoch, sequence) in
            [(0, 0, 0), (7, 0xdead_beef, 0x0123_4567), (u16::MAX, 1, u32::MAX)]
        {
            let mut text = [b'.'; WIDTH];
            text[..4].copy_from_slice(&digits(slot.into())[4..]);
            text[5..13].copy_from_slice(&digits(epoch));
            text[SEQUENCE_AT..].copy_from_slice(&digits(sequence));
            assert!(!text.contains(&0));
            let origin = Origin { worker: WorkerKey::new(slot, epoch), sequence };
            assert_eq!(Origin::parse(&text), Some(origin));
        }
    }

    #[test]
    fn what_is_no_mark_is_refused() {
        assert_eq!(NOBODY.len(), WIDTH);
        let foreign = [
            NOBODY,
            "",
            "0000.00000000.0000000",
            "0000x00000000.00000000",
            "000@.00000000.00000000",
        ];
        for text in foreign {
            assert_eq!(Origin::parse(text.as_bytes()), None, "{text}");
        }
    }
}
