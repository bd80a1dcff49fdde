//! The client itself: what the layers above call.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gristmill_core::{CancelMode, CancelOutcome, Stats};
use gristmill_keeper::{Commands, Events, KeeperOptions, LaunchError, launch};
use gristmill_shm::{ClientArena, Window};
use gristmill_wire::{FunctionId, TaskId};

use crate::blobs::BlobWork as _;
use crate::inner::{Inner, Shared};
use crate::outcome::{Ended, TagTimes, TaskLook};
use crate::peers::LinkWork;

/// How long a peer's word on a task is waited for: much longer than it takes to find that the peer is lost.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// One program's client. Threads of its own keep it alive until it was shut down.
#[derive(Debug)]
pub struct Client {
    inner: Mutex<Inner>,
    shared: Arc<Shared>,
    arena: ClientArena,
    /// How long a waiting caller looks at rings before it sleeps.
    spin: Duration,
    /// The cores that this process may use.
    cores: usize,
    keeper_image: &'static [u8],
    attendant: Condvar,
    /// Told when every process is gone.
    pub(crate) ended: Condvar,
    pub(crate) callback_wake: Arc<Condvar>,
}

impl Client {
    /// Around what it is about; `waits`: how long a caller polls, and the cores to do it on.
    pub(crate) fn new(
        inner: Inner,
        shared: Arc<Shared>,
        arena: ClientArena,
        (window, cores): (Window, usize),
        keeper_image: &'static [u8],
    ) -> Self {
        let spin = match window {
            // Links are looked at by whoever leads, and only by that one.
            Window::Fixed(window) if shared.sleeper.is_none() => window,
            _ => Duration::ZERO,
        };
        Self {
            callback_wake: Arc::clone(&inner.callback_wake),
            inner: Mutex::new(inner),
            shared,
            arena,
            spin,
            cores,
            keeper_image,
            attendant: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    /// Takes the mutex. A panic under it has poisoned the graph's invariants at worst, which its assertions will say.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    #[inline]
    pub(crate) fn kicks(&self) -> u64 {
        self.shared.kicks()
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    pub(crate) fn spin(&self) -> Duration {
        self.spin
    }

    /// Makes whoever sleeps look anew.
    pub(crate) fn kick_leader(&self) {
        self.shared.kick();
    }

    pub(crate) fn wake_attendant(&self) {
        self.attendant.notify_one();
    }

    pub(crate) fn park_attendant(&self, inner: MutexGuard<'_, Inner>, limit: Duration) {
        let _ = self.attendant.wait_timeout(inner, limit);
    }

    /// Starts another keeper in the place of one that was killed.
    pub(crate) fn relaunch(&self) -> Result<(Commands, Events), LaunchError> {
        launch(self.keeper_image, KeeperOptions::default())
    }

    pub(crate) fn tell_ended(&self) {
        self.ended.notify_all();
        self.callback_wake.notify_all();
        self.attendant.notify_one();
    }

    /// The id of a function, which gains a use until [`Self::forget`]; `name` is for messages.
    pub fn define(&self, definition: &[u8], name: &str) -> FunctionId {
        let mut inner = self.lock();
        if !inner.nested.is_used {
            inner.nested.note_function();
            if inner.lead.summon() {
                self.wake_attendant();
            }
        }
        inner.lanes.functions.define(definition, name)
    }

    /// Gives a use of a function back.
    pub fn forget(&self, function: FunctionId) {
        let mut inner = self.lock();
        if inner.lanes.functions.release(function) {
            inner.core.forget_function(function);
        }
    }

    /// What a task is doing; completes what has arrived first.
    pub fn look(&self, task: TaskId) -> TaskLook {
        let mut inner = self.lock();
        let look = inner.look(task);
        if matches!(look, TaskLook::Waiting | TaskLook::Running) {
            inner.drain();
            inner.ask_for(&[task]);
            return inner.look(task);
        }
        look
    }

    /// The outcome of a task, if it is final; completes first what has arrived in rings. Links are for who waits then: a
    /// look at them is a system call, and is made before the sleep anyway.
    #[inline]
    pub fn try_ended(&self, task: TaskId) -> Option<Ended> {
        let mut inner = self.lock();
        if let Some(ended) = inner.ended(task) {
            inner.attend_in_passing();
            return Some(ended);
        }
        if inner.lanes.links.sleeper().is_some() {
            return None;
        }
        inner.drain();
        inner.ended(task)
    }

    /// The place of the first final task among `tasks`.
    pub fn first_final(&self, tasks: &[TaskId]) -> Option<usize> {
        let mut inner = self.lock();
        let find = |inner: &Inner| tasks.iter().position(|&task| inner.is_final(task));
        find(&inner).or_else(|| {
            inner.drain();
            find(&inner)
        })
    }

    /// Lets go of a task: it runs on, and nobody will ask for its result.
    #[inline]
    pub fn release(&self, task: TaskId) {
        self.lock().release(task);
    }

    /// The memory for large payloads.
    pub fn arena(&self) -> &ClientArena {
        &self.arena
    }

    /// Cancels a task as far as `mode` goes; whether it is, or is being, cancelled.
    pub fn cancel(&self, task: TaskId, mode: CancelMode) -> bool {
        match self.begin_cancel(task, mode) {
            CancelOutcome::Cancelled | CancelOutcome::Requested => return true,
            CancelOutcome::AlreadyRunning => return false,
            CancelOutcome::Asked => {
                // Its peer answers, or is lost, well before.
                self.wait_until(&[task], ANSWER_LIMIT, |inner| !inner.core.is_withdrawn(task));
            }
            CancelOutcome::AlreadyFinal => {}
        }
        self.lock().look(task) == TaskLook::Cancelled
    }

    /// As [`Self::cancel`], without waiting for the word of a peer that has the task.
    pub(crate) fn begin_cancel(&self, task: TaskId, mode: CancelMode) -> CancelOutcome {
        let mut inner = self.lock();
        inner.drain();
        let now = inner.lanes.read_clock();
        let Inner { core, lanes, .. } = &mut *inner;
        let outcome = core.cancel(task, mode, now, lanes);
        inner.settle();
        inner.flush_links(now);
        self.leave(inner, false);
        outcome
    }

    /// When a task crossed which border.
    pub fn tags(&self, task: TaskId) -> Option<TagTimes> {
        let inner = self.lock();
        inner.core.task(task).map(|view| TagTimes::new(view.tags, inner.lanes.scale))
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        let mut inner = self.lock();
        inner.drain();
        inner.core.stats()
    }

    /// How long tasks ran so far, together, nanoseconds.
    pub fn busy_ns(&self) -> u64 {
        let inner = self.lock();
        inner.lanes.scale.to_ns(inner.core.busy_ticks())
    }
}

impl Inner {
    pub fn look(&self, task: TaskId) -> TaskLook {
        self.core.task(task).map_or(TaskLook::Failed, |view| TaskLook::of(&view))
    }
}
