//! The end of a client: in order, at once, or because the client is broken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::blobs::BlobWork as _;
use crate::client::{ANSWER_LIMIT, Client};
use crate::inner::Inner;
use crate::peers::LinkWork;
use crate::tree::LEAVE_GRACE;

impl Client {
    /// Gives all tasks up because the client itself is broken.
    pub fn poison(&self, reason: &str) {
        let mut inner = self.lock();
        let now = inner.port.read_clock();
        let Inner { core, port, .. } = &mut *inner;
        core.poison(reason, now, port);
        inner.settle();
        inner.has_ended = true;
        inner.call_waiters(|_| true);
        drop(inner);
        self.tell_ended();
    }

    /// Ends everything after a panic, whose report is on standard error.
    pub(crate) fn give_up_after_panic(&self) {
        let reason = "a thread of the engine has panicked: the report is on standard error";
        // The graph itself may be broken, so this call may panic too.
        let _ = catch_unwind(AssertUnwindSafe(|| self.poison(reason)));
        let mut inner = self.lock();
        inner.has_ended = true;
        inner.call_waiters(|_| true);
        drop(inner);
        self.tell_ended();
    }

    /// Ends at once: kills the running tasks and tells peers. If no task runs, processes leave by themselves, because a setup
    /// may have cleanup to run.
    pub fn abort(&self, reason: &str) {
        let mut inner = self.lock();
        inner.drain();
        inner.abort(reason);
        self.leave(inner, false);
    }

    /// Cancels the tasks that have certainly not started, and then ends as [`Self::abort`] does. Peers may have started any
    /// task that they have, and are not asked: these tasks are given up.
    pub fn abandon(&self, reason: &str) {
        let mut inner = self.lock();
        inner.drain();
        inner.abandon(reason);
        self.leave(inner, false);
    }

    /// Stops accepting tasks; with `cancels`, also cancels those that have not started.
    pub fn begin_shutdown(&self, cancels: bool) {
        let mut inner = self.lock();
        if inner.has_ended {
            return;
        }
        inner.drain();
        inner.begin_shutdown(cancels);
        inner.bring_all_home(None);
        inner.settle();
        let now = inner.port.now();
        inner.flush_links(now);
        let is_recalling = cancels && inner.core.is_recalling();
        self.leave(inner, false);
        if is_recalling {
            // The answers of peers cancel the tasks that have not started there.
            self.wait_until(&[], ANSWER_LIMIT, |inner| !inner.core.is_recalling());
        }
    }

    /// Waits until every task is final, peers know that nothing more comes, and every process is gone. Returns false if `limit`
    /// has passed before that.
    pub fn wait_for_end(&self, limit: Duration) -> bool {
        let start = Instant::now();
        let is_over = |inner: &Inner| inner.has_ended || inner.tree.was_asked_to_end();
        if !self.wait_until(&[], limit, is_over) {
            return false;
        }
        let left = limit.saturating_sub(start.elapsed());
        let has_left = |inner: &Inner| !inner.port.links.is_leaving(inner.port.now());
        if !self.wait_until(&[], left, has_left) {
            return false;
        }
        let left = limit.saturating_sub(start.elapsed());
        let inner = self.lock();
        let woken = self.ended.wait_timeout_while(inner, left, |inner| !inner.has_ended);
        woken.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }

    /// Returns true if the client has ended and no peer has to be told of it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over()
    }
}

impl Inner {
    fn abort(&mut self, reason: &str) {
        let grace = if self.core.is_drained() { LEAVE_GRACE } else { Duration::ZERO };
        self.give_up(reason);
        self.end_processes(grace);
    }

    fn abandon(&mut self, reason: &str) {
        self.begin_shutdown(true);
        self.abort(reason);
    }

    /// Returns true if every process is gone, and every peer that can still be told knows that nothing more comes.
    pub fn is_over(&self) -> bool {
        self.has_ended && !self.port.links.is_leaving(self.port.now())
    }
}

#[cfg(test)]
mod tests {
    use gristmill_transport::pair;
    use gristmill_wire::peer::MessageKind;

    use super::*;
    use crate::outcome::TaskStatus;
    use crate::workerless::WorkerlessEngine;

    /// Ends an engine, whose processes are gone at once.
    fn leave(engine: &mut WorkerlessEngine) {
        engine.inner.end_links("the client has finished");
        engine.inner.has_ended = true;
        engine.turn();
    }

    #[test]
    fn an_end_lasts_until_nodes_have_closed_their_ends_or_have_taken_too_long() {
        let mut engine = WorkerlessEngine::new();
        let node = engine.join("n1", 1);
        let _silent = engine.join("n2", 1);
        leave(&mut engine);
        assert!(!engine.inner.is_over(), "the last word may be under way");
        drop(node);
        engine.until(&mut [], |inner| inner.port.links.views().len() == 1);
        assert!(!engine.inner.is_over(), "the other node may not know yet");
        engine.inner.port.links.leave_until_ns = engine.inner.port.now();
        assert!(engine.inner.is_over());
    }

    #[test]
    fn tasks_that_a_node_may_have_started_are_given_up_without_its_answer() {
        let mut engine = WorkerlessEngine::new();
        let mut node = engine.join("n1", 1);
        let sent = engine.submit_one();
        let follower = engine.submit(b"arguments", &[], &[sent], 1);
        let last = (0..1000).map(|_| engine.submit_one()).last().expect("there are some");
        node.until_sent(&mut engine);
        engine.inner.abandon("the program has ended");
        assert!(!engine.inner.core.is_recalling(), "nothing is waited for");
        assert!(engine.result(sent).is_err_and(|text| text.contains("the program has ended")));
        // The node may have started it behind its parent.
        assert_eq!(engine.inner.look(follower), TaskStatus::Failed);
        assert_eq!(engine.inner.look(last), TaskStatus::Cancelled);
    }

    #[test]
    fn a_node_whose_connection_was_broken_hears_the_last_word_over_the_next_one() {
        let mut engine = WorkerlessEngine::new();
        let mut node = engine.join("n1", 1);
        engine.inner.port.links.disconnect(node.peer);
        node.link().disconnect();
        leave(&mut engine);
        assert!(!engine.inner.is_over(), "it may come back");
        let (ours, theirs) = pair().expect("descriptors");
        let received = engine.inner.port.links.get(node.peer).expect("it is kept").received();
        node.link().resume(Box::new(theirs), received).expect("nothing was lost");
        assert!(engine.inner.reattach(node.peer, Box::new(ours), node.link().received()));
        let text = node.until_told(&mut engine, MessageKind::End);
        assert!(String::from_utf8_lossy(&text).contains("the client has finished"));
    }

    #[test]
    fn a_word_that_no_connection_took_outlives_the_one_that_breaks() {
        let mut engine = WorkerlessEngine::new();
        // The link sends nothing.
        engine.inner.port.links.sizes.session.unacknowledged_chunks_max = 0;
        let node = engine.join("n1", 1);
        leave(&mut engine);
        let peer = node.peer;
        drop(node);
        engine.until(&mut [], |inner| {
            inner.port.links.get(peer).is_some_and(|link| !link.is_connected())
        });
        assert!(!engine.inner.is_over());
    }

    #[test]
    fn a_node_that_comes_when_the_end_has_begun_is_told_at_once() {
        let mut engine = WorkerlessEngine::new();
        let _first = engine.join("n1", 1);
        leave(&mut engine);
        let mut late = engine.join("n2", 1);
        let text = late.until_told(&mut engine, MessageKind::End);
        assert!(String::from_utf8_lossy(&text).contains("the client has finished"));
    }
}
