//! Notices of tasks that are final, for threads that wait for any of them and for callbacks.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use gristmill_wire::TaskId;

use crate::client::Client;
use crate::inner::Inner;

impl Client {
    /// Asks for a notice when a task is final: false when it is so already.
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

    /// Has whoever takes callback notices get one for a task, at once if it is final.
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

    /// Final tasks that were watched for waiters; completes tasks until there is one or `limit` has passed.
    pub fn waiter_notices(&self, limit: Duration) -> VecDeque<TaskId> {
        self.wait_until(&[], limit, |inner| !inner.waiter_notices.is_empty());
        std::mem::take(&mut self.lock().waiter_notices)
    }

    /// Final tasks that were watched for callbacks, slept for up to `limit`; `None` once the client has ended.
    pub fn callback_notices(&self, limit: Duration) -> Option<VecDeque<TaskId>> {
        let inner = self.lock();
        let is_idle = |inner: &mut Inner| inner.callback_notices.is_empty() && !inner.has_ended;
        let woken = self.callback_wake.wait_timeout_while(inner, limit, is_idle);
        let mut inner = woken.unwrap_or_else(PoisonError::into_inner).0;
        let notices = std::mem::take(&mut inner.callback_notices);
        (!inner.has_ended || !notices.is_empty()).then_some(notices)
    }

    /// Makes whoever waits look anew.
    pub fn kick(&self) {
        self.lock().call_waiters(|_| true);
        self.kick_leader();
    }
}
