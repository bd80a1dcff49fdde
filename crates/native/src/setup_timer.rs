//! What ends a process whose setup takes longer than it may.
//!
//! A timer of its own, with a signal that nothing else sends: a setup may use `alarm`, `setitimer` and `SIGALRM` as it likes.
//! Forked children do not inherit it.

use std::time::Duration;

use gristmill_client::SETUP_ALARM;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// A timer that sends this process [`SETUP_ALARM`] when the time is over, until it is stopped or dropped.
#[pyclass(module = "gristmill._native")]
pub struct SetupTimer {
    timer: Option<Timer>,
}

/// The kernel's name for it.
struct Timer(libc::timer_t);

// SAFETY: the name is a number of the process, good in all of its threads.
unsafe impl Send for Timer {}
// SAFETY: nothing is done with a shared one.
unsafe impl Sync for Timer {}

#[pymethods]
impl SetupTimer {
    /// Starts it. `ValueError`: that is no length of time; `OSError`: the kernel has no timer left.
    #[new]
    fn new(seconds: f64) -> PyResult<Self> {
        let length = Duration::try_from_secs_f64(seconds)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let timer = Timer::start(length).map_err(PyOSError::new_err)?;
        Ok(Self { timer: Some(timer) })
    }

    /// Stops it; nothing if it was stopped before.
    fn stop(&mut self) {
        self.timer = None;
    }
}

impl Timer {
    fn start(length: Duration) -> std::io::Result<Self> {
        // SAFETY: zeros are a valid value of each field.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = SETUP_ALARM;
        let mut name: libc::timer_t = std::ptr::null_mut();
        // SAFETY: both are there for the call.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut name) } != 0
        {
            return Err(std::io::Error::last_os_error());
        }
        let timer = Self(name);
        // SAFETY: zeros are a valid value of each field.
        let mut when: libc::itimerspec = unsafe { std::mem::zeroed() };
        // No time at all would be no timer; longer than a machine runs is for ever.
        let length = length.max(Duration::from_nanos(1));
        when.it_value.tv_sec = length.as_secs().try_into().unwrap_or(libc::time_t::MAX);
        when.it_value.tv_nsec = length.subsec_nanos().into();
        // SAFETY: the timer is there, and so is what it is told.
        if unsafe { libc::timer_settime(name, 0, &raw const when, std::ptr::null_mut()) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(timer)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: it was made, and is deleted once. A forked child has none of that name, which is an error only.
        unsafe { libc::timer_delete(self.0) };
    }
}
