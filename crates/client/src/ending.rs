//! The end of a client: in order, at once, or because it is broken.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::blobs::BlobWork as _;
use crate::client::{ANSWER_LIMIT, Client};
use crate::inner::Inner;
use crate::peers::LinkWork;

impl Client {
    /// Gives everything up: the client itself is broken.
    pub fn poison(&self, reason: &str) {
        let mut inner = self.lock();
        let now = inner.lanes.read_clock();
        let Inner { core, lanes, .. } = &mut *inner;
        core.poison(reason, now, lanes);
        inner.settle();
        inner.has_ended = true;
        inner.call_waiters(|_| true);
        drop(inner);
        self.tell_ended();
    }

    /// Ends at once: what runs is killed, nothing is waited for. Peers are told.
    pub fn abort(&self, reason: &str) {
        let mut inner = self.lock();
        inner.drain();
        inner.give_up(reason);
        inner.end_processes();
        self.leave(inner, false);
    }

    /// Takes no more tasks; with `cancels` those that have not started are cancelled.
    pub fn begin_shutdown(&self, cancels: bool) {
        let mut inner = self.lock();
        if inner.has_ended {
            return;
        }
        inner.drain();
        inner.begin_shutdown(cancels);
        inner.bring_all_home(None);
        inner.settle();
        let now = inner.lanes.now();
        inner.flush_links(now);
        let is_recalling = cancels && inner.core.is_recalling();
        self.leave(inner, false);
        if is_recalling {
            // What has not started at peers is cancelled by their word.
            self.wait_until(&[], ANSWER_LIMIT, |inner| !inner.core.is_recalling());
        }
    }

    /// Waits until every task is final, peers know that nothing more comes, and every process is gone; false when `limit` has
    /// passed.
    pub fn wait_for_end(&self, limit: Duration) -> bool {
        let start = Instant::now();
        let is_over = |inner: &Inner| inner.has_ended || inner.tree.was_told_to_end();
        if !self.wait_until(&[], limit, is_over) {
            return false;
        }
        let left = limit.saturating_sub(start.elapsed());
        let has_left = |inner: &Inner| !inner.lanes.links.is_leaving(inner.lanes.now());
        if !self.wait_until(&[], left, has_left) {
            return false;
        }
        let left = limit.saturating_sub(start.elapsed());
        let inner = self.lock();
        let woken = self.ended.wait_timeout_while(inner, left, |inner| !inner.has_ended);
        woken.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }
}
