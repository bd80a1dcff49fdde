//! The end of the interpreter, which waits for the tasks of every engine, including engines whose executor object is
//! gone.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use gristmill_client::Client;
use pyo3::prelude::*;

/// Clients that were started here and may not have ended, each with the fork generation of its process.
static STARTED: Mutex<Vec<(u32, Weak<Client>)>> = Mutex::new(Vec::new());
/// The longest wait between checks for signals.
const SLICE: Duration = Duration::from_millis(50);
/// The longest wait for processes that are killed. The keeper ends the remaining ones when the program ends.
const ABORT_LIMIT: Duration = Duration::from_secs(1);

/// Registers a client until it is gone.
pub fn remember(client: &Arc<Client>) {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    started.retain(|(_, client)| client.strong_count() > 0);
    started.push((gristmill_sync::process::generation(), Arc::downgrade(client)));
}

/// Returns the clients of this process that may not have ended.
fn started() -> Vec<Arc<Client>> {
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_ours = |generation: &u32| *generation == gristmill_sync::process::generation();
    let ours = started.iter().filter(|(generation, _)| is_ours(generation));
    ours.filter_map(|(_, client)| client.upgrade()).collect()
}

/// Ends every client of this process once its tasks are done.
///
/// # Errors
/// Any exception that a signal handler raises.
#[pyfunction]
pub fn finish_all(py: Python<'_>) -> PyResult<()> {
    for client in started() {
        py.detach(|| client.begin_shutdown(false));
        while !py.detach(|| client.wait_for_end(SLICE)) {
            py.check_signals()?;
        }
    }
    Ok(())
}

/// Ends every client of this process at once: running tasks are killed, and tasks that have not ended fail with `reason`.
#[pyfunction]
pub fn abort_all(py: Python<'_>, reason: &str) {
    let started = started();
    for client in &started {
        py.detach(|| client.abort(reason));
    }
    for client in &started {
        py.detach(|| client.wait_for_end(ABORT_LIMIT));
    }
}
