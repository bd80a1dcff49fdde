//! Waiting for everything that was outstanding at one moment.

use std::time::{Duration, Instant};

use gristmill_wire::TaskId;

use crate::client::Client;

/// The tasks that had no final state when [`Client::outstanding`] was called, less those that were waited for.
#[derive(Debug)]
pub struct Outstanding {
    tasks: Vec<TaskId>,
    /// When it was, if there were batches: what became of them in the meantime is looked for once they are final.
    batches_before: Option<u64>,
}

impl Client {
    /// The tasks without a final state, nested ones and those without a future included.
    pub fn outstanding(&self) -> Outstanding {
        let mut inner = self.lock();
        inner.drain();
        // Read anew: what is submitted from now on is not older than that.
        inner.lanes.read_clock();
        let batches_before = inner.core.has_batches().then(|| inner.lanes.now_ticks());
        Outstanding { tasks: inner.core.outstanding(None), batches_before }
    }

    /// Waits until all of them are final; false when `limit` has passed or a signal arrived. Then another call goes on.
    pub fn wait_all(&self, outstanding: &mut Outstanding, limit: Duration) -> bool {
        let start = Instant::now();
        loop {
            // The last are mostly final last: one wait for many tasks.
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

    /// Removes final tasks from the end; gives the last that is not.
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
