//! The interpreter's end: it waits for the work of every engine, also of those that nobody has any more.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use gristmill_client::Client;
use pyo3::prelude::*;

/// Clients that were started here and may not have ended, each with the generation of its process.
static STARTED: Mutex<Vec<(u32, Weak<Client>)>> = Mutex::new(Vec::new());
/// The longest wait before signals are looked at.
const SLICE: Duration = Duration::from_millis(50);

/// Remembers a client until it is gone.
pub fn remember(client: &Arc<Client>) {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    started.retain(|(_, client)| client.strong_count() > 0);
    started.push((crate::fork::generation(), Arc::downgrade(client)));
}

/// Ends every client of this process once its tasks are done.
///
/// # Errors
/// What a signal handler raises.
#[pyfunction]
pub fn finish_all(py: Python<'_>) -> PyResult<()> {
    let started = std::mem::take(&mut *STARTED.lock().unwrap_or_else(PoisonError::into_inner));
    for (generation, client) in started {
        let Some(client) = client.upgrade().filter(|_| generation == crate::fork::generation())
        else {
            continue;
        };
        py.detach(|| client.begin_shutdown(false));
        while !py.detach(|| client.wait_for_end(SLICE)) {
            py.check_signals()?;
        }
    }
    Ok(())
}
