//! Use of huge pages for the memory of a process that will fork many times.
//!
//! A fork copies a page table entry for each page, and each process releases each page when it ends. With 300 MB in
//! small pages that takes 12 ms and 14 ms; in huge ones it takes 1 ms each. A process that writes into a shared huge
//! page gets a small page of its own, as before.
//!
//! This must run before the first fork: shared pages would be copied for this process alone. It does nothing if the
//! machine's owner has disabled huge pages, or the kernel has no such call (before 6.1).

use std::fs::{File, read_to_string};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::zygote::PyZygote;

/// Bytes of a huge page, and of a small one. If the kernel was built with other sizes, the call below fails.
const HUGE: usize = 2 << 20;
const SMALL: usize = 4 << 10;
/// Minimum small pages present in the range of a huge one for it to be worth its memory.
const PRESENT_MIN: usize = HUGE / SMALL / 8 * 7;
/// Bytes of the kernel's entry for a small page; its top bit is set if the page is present.
const ENTRY: usize = 8;
/// `MADV_COLLAPSE`, which the C library may not define.
const COLLAPSE: i32 = 25;

#[pymethods]
impl PyZygote {
    /// Moves this process's own memory into huge pages where it fills them, for at most `longest_s` seconds. Returns
    /// the number of huge pages; each takes a millisecond or more. Raises `ValueError` if `longest_s` is not a
    /// duration.
    #[staticmethod]
    fn use_huge_pages(longest_s: f64) -> PyResult<usize> {
        let longest = Duration::try_from_secs_f64(longest_s)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let ends_at = Instant::now().checked_add(longest);
        let ends_at =
            ends_at.ok_or_else(|| PyValueError::new_err("longest_s is too long for the clock"))?;
        Ok(collapse_all(ends_at).unwrap_or(0))
    }
}

fn collapse_all(deadline: Instant) -> Option<usize> {
    let setting = read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    // SAFETY: the call only reads a setting.
    let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    if setting.contains("[never]") || usize::try_from(page_size) != Ok(SMALL) {
        return None;
    }
    let maps = read_to_string("/proc/self/maps").ok()?;
    let pages = File::open("/proc/self/pagemap").ok()?;
    let mut count = 0;
    for (start, end) in maps.lines().filter_map(own_memory) {
        let mut place = start.next_multiple_of(HUGE);
        while place + HUGE <= end && Instant::now() < deadline {
            if is_full(&pages, place)? {
                // SAFETY: the range is this process's own memory and keeps its contents; if it was unmapped since it
                // was listed, the call only returns an error.
                let refused = unsafe { libc::madvise(place as *mut libc::c_void, HUGE, COLLAPSE) };
                if refused != 0 {
                    // The kernel has no huge page left, or does not know the call: a further call would fail too.
                    return Some(count);
                }
                count += 1;
            }
            place += HUGE;
        }
    }
    Some(count)
}

/// Returns the range of a line of the list of mappings, if it is private writable memory without a file.
fn own_memory(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, rights, name) = (fields.next()?, fields.next()?, fields.nth(3).unwrap_or(""));
    let is_own = name.is_empty() || name == "[heap]" || name.starts_with("[anon:");
    if !is_own || rights != "rw-p" {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

/// Returns whether enough small pages are present in the range of a huge one.
fn is_full(pages: &File, place: usize) -> Option<bool> {
    let mut entries = [0; HUGE / SMALL * ENTRY];
    let at = u64::try_from(place / SMALL * ENTRY).ok()?;
    pages.read_exact_at(&mut entries, at).ok()?;
    let present = entries.chunks_exact(ENTRY).filter(|entry| entry[ENTRY - 1] & 0x80 != 0).count();
    Some(present >= PRESENT_MIN)
}

#[cfg(test)]
mod tests {
    use super::own_memory;

    #[test]
    fn only_memory_that_is_no_file_and_not_shared_is_meant() {
        let line = |rest: &str| own_memory(&format!("7f00-7f80 {rest}"));
        assert_eq!(line("rw-p 00000000 00:00 0 "), Some((0x7f00, 0x7f80)));
        assert_eq!(line("rw-p 00000000 00:00 0    [heap]"), Some((0x7f00, 0x7f80)));
        assert_eq!(line("rw-p 00000000 00:00 0    [anon:model weights]"), Some((0x7f00, 0x7f80)));
        for other in [
            "rw-s 00000000 00:05 7    /memfd:rings (deleted)",
            "rw-p 00001000 fe:00 9    /usr/lib/libc.so.6",
            "r--p 00000000 00:00 0 ",
            "rw-p 00000000 00:00 0    [stack]",
        ] {
            assert_eq!(line(other), None, "{other}");
        }
        assert_eq!(own_memory("nonsense"), None);
    }
}
