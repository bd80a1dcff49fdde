//! Notices of final tasks, for threads that wait for any of several tasks and for callbacks.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use gristmill_wire::TaskId;

use crate::client::Client;
use crate::inner::Inner;

impl Client {
    /// Requests a notice of the end of a task, for the callbacks if `callbacks` is set, else for the waiters. Returns false if
    /// the task is final already.
    pub fn watch(&self, task: TaskId, callbacks: bool) -> bool {
        let mut inner = self.lock();
        inner.drain();
        if inner.is_final(task) {
            return false;
        }
        inner.listen(task, callbacks);
        self.leave(inner, false);
        true
    }

    /// Requests a callback notice of the end of a task. The notice comes at once if the task is final.
    pub fn notify(&self, task: TaskId) {
        let mut inner = self.lock();
        if inner.is_final(task) {
            inner.callback_notices.push_back(task);
            inner.callback_wake.notify_one();
            return;
        }
        inner.listen(task, true);
        self.leave(inner, false);
    }

    /// Returns the final tasks that were watched for waiters, and the number of kicks so far. Completes tasks until there is
    /// such a task, the number of kicks differs from `known`, or `limit` has passed.
    pub fn waiter_notices(&self, limit: Duration, known: u64) -> (VecDeque<TaskId>, u64) {
        let is_done = |inner: &Inner| !inner.waiter_notices.is_empty() || inner.kick_count != known;
        self.wait_until(&[], limit, is_done);
        let mut inner = self.lock();
        (std::mem::take(&mut inner.waiter_notices), inner.kick_count)
    }

    /// Returns the final tasks that were watched for callbacks. Sleeps for up to `limit` until there is one. Returns `None`
    /// once the client has ended.
    pub fn callback_notices(&self, limit: Duration) -> Option<VecDeque<TaskId>> {
        let inner = self.lock();
        let is_idle = |inner: &mut Inner| inner.callback_notices.is_empty() && !inner.has_ended;
        let woken = self.callback_wake.wait_timeout_while(inner, limit, is_idle);
        let mut inner = woken.unwrap_or_else(PoisonError::into_inner).0;
        let notices = std::mem::take(&mut inner.callback_notices);
        (!inner.has_ended || !notices.is_empty()).then_some(notices)
    }

    /// Makes all waiting threads look again.
    pub fn kick(&self) {
        let mut inner = self.lock();
        inner.kick_count += 1;
        inner.call_waiters(|_| true);
        drop(inner);
        self.kick_leader();
    }
}
