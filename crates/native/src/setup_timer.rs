//! A timer that ends a process whose setup takes too long.
//!
//! It is a separate timer, with a signal that nothing else sends: a setup may freely use `alarm`, `setitimer` and
//! `SIGALRM`. Forked children do not inherit it.

use std::time::Duration;

use gristmill_client::SETUP_ALARM;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// A timer that sends this process [`SETUP_ALARM`] when the time is over, until it is stopped or dropped.
#[pyclass(module = "gristmill._native")]
pub struct SetupTimer {
    timer: Option<Timer>,
}

/// The kernel's id of the timer.
struct Timer(libc::timer_t);

// SAFETY: the id is a number of the process, valid in all of its threads.
unsafe impl Send for Timer {}
// SAFETY: no operation uses a shared reference.
unsafe impl Sync for Timer {}

#[pymethods]
impl SetupTimer {
    /// Starts the timer. Raises `ValueError` if `seconds` is not a duration, `OSError` if the kernel has no timer left.
    #[new]
    fn new(seconds: f64) -> PyResult<Self> {
        let length = Duration::try_from_secs_f64(seconds)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let timer = Timer::start(length).map_err(PyOSError::new_err)?;
        Ok(Self { timer: Some(timer) })
    }

    /// Stops the timer. Does nothing if it is stopped already.
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
        // SAFETY: both variables outlive the call.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut name) } != 0
        {
            return Err(std::io::Error::last_os_error());
        }
        let timer = Self(name);
        // SAFETY: zeros are a valid value of each field.
        let mut when: libc::itimerspec = unsafe { std::mem::zeroed() };
        // A zero time would disarm the timer; a time beyond the limit is longer than a machine runs.
        let length = length.max(Duration::from_nanos(1));
        when.it_value.tv_sec = length.as_secs().try_into().unwrap_or(libc::time_t::MAX);
        when.it_value.tv_nsec = length.subsec_nanos().into();
        // SAFETY: the timer exists, and `when` outlives the call.
        if unsafe { libc::timer_settime(name, 0, &raw const when, std::ptr::null_mut()) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(timer)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer was created, and is deleted once. A forked child has no timer of that id, which only causes
        // an error.
        unsafe { libc::timer_delete(self.0) };
    }
}
