//! The running task, as an interrupt handler and a native function see it.

use std::cell::Cell;
use std::rc::Rc;

use gristmill_shm::WorkerControl;

/// The innermost running task, for the interrupt handler and for native functions.
#[derive(Debug, Clone)]
pub struct CurrentTask {
    control: WorkerControl,
    /// Sequence + 1 of the innermost running task; 0 if there is none.
    current: Rc<Cell<u64>>,
    /// Sequence + 1 of the task that was interrupted last.
    interrupted: Rc<Cell<u64>>,
    /// Time at which the time of the innermost running task is over, monotonic nanoseconds; `u64::MAX` if it has no limit.
    deadline_ns: Rc<Cell<u64>>,
}

impl CurrentTask {
    pub(crate) fn new(control: WorkerControl) -> Self {
        Self {
            control,
            current: Rc::default(),
            interrupted: Rc::default(),
            deadline_ns: Rc::new(Cell::new(u64::MAX)),
        }
    }

    /// Sets the innermost task to `current` (its sequence + 1, or 0) and returns the previous one.
    #[inline]
    pub(crate) fn replace(&self, current: u64) -> u64 {
        self.current.replace(current)
    }

    /// Sets the deadline of the innermost task, as [`Self::deadline_ns`] returns it, and returns the previous one.
    #[inline]
    pub(crate) fn replace_deadline(&self, deadline_ns: u64) -> u64 {
        self.deadline_ns.replace(deadline_ns)
    }

    /// Returns the time at which the time of the running task is over, monotonic nanoseconds; `u64::MAX` if it has no
    /// limit, or if no task runs.
    #[must_use]
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns.get()
    }

    /// Returns whether an interrupt of the running task is requested and has not been taken.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        let current = self.current.get();
        current != 0
            && current != self.interrupted.get()
            && self.control.interrupt_requested() == Some(current - 1)
    }

    /// Does the same as [`Self::is_interrupted`], but returns true only once for a task: the caller interrupts it.
    #[must_use]
    pub fn take_interrupt(&self) -> bool {
        let is_interrupted = self.is_interrupted();
        if is_interrupted {
            self.interrupted.set(self.current.get());
        }
        is_interrupted
    }
}
