//! A wait for all tasks that were outstanding at one moment.

use std::time::{Duration, Instant};

use gristmill_wire::TaskId;

use crate::client::Client;

/// The tasks that were not final when [`Client::outstanding`] was called, less those that a wait found to be final.
#[derive(Debug)]
pub struct Outstanding {
    tasks: Vec<TaskId>,
    /// Time of that call, clock ticks, if there were batches. Tasks that batches became in the meantime are looked up once the
    /// batches are final.
    batches_before: Option<u64>,
}

impl Client {
    /// Returns the tasks that are not final, including nested ones and those without a future.
    pub fn outstanding(&self) -> Outstanding {
        let mut inner = self.lock();
        inner.drain();
        // The clock is read again, so that tasks submitted from now on are not older than this reading.
        inner.port.read_clock();
        let batches_before = inner.core.has_batches().then(|| inner.port.now_ticks());
        Outstanding { tasks: inner.core.outstanding(None), batches_before }
    }

    /// Waits until all of them are final. Returns false if `limit` has passed or a signal has arrived before that; another call
    /// then continues the wait.
    pub fn wait_all(&self, outstanding: &mut Outstanding, limit: Duration) -> bool {
        let start = Instant::now();
        loop {
            // The last tasks are mostly the last to end, so one wait covers many tasks.
            while let Some(task) = self.last_pending(&mut outstanding.tasks) {
                if !self.wait(task, limit.saturating_sub(start.elapsed())) {
                    return false;
                }
            }
            let Some(before) = outstanding.batches_before.take() else { return true };
            let inner = self.lock();
            outstanding.tasks = inner.core.outstanding(Some(before));
            let has_more = inner.core.has_batches() && !outstanding.tasks.is_empty();
            outstanding.batches_before = has_more.then_some(before);
        }
    }

    /// Removes final tasks from the end of `tasks`, and returns the last one that is not final.
    fn last_pending(&self, tasks: &mut Vec<TaskId>) -> Option<TaskId> {
        let inner = self.lock();
        while let Some(&task) = tasks.last() {
            if !inner.is_final(task) {
                return Some(task);
            }
            tasks.pop();
        }
        None
    }
}
