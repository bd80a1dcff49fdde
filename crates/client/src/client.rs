//! The client: the methods that the layers above call.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gristmill_core::{CancelMode, CancelOutcome, Stats};
use gristmill_keeper::{Commands, Events, KeeperOptions, LaunchError, launch};
use gristmill_shm::{ClientArena, Window};
use gristmill_wire::{FunctionId, TaskId};

use crate::blobs::BlobWork as _;
use crate::functions::CheckedDefinition;
use crate::inner::{Inner, LockFreeState};
use crate::outcome::{Ended, TaskStatus, TaskTimings};
use crate::peers::LinkWork;

/// Time limit of a wait for a peer's answer about a task: much longer than the detection of a lost peer takes.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// The client of one program. Its own threads keep it alive until it was shut down.
#[derive(Debug)]
pub struct Client {
    inner: Mutex<Inner>,
    shared: Arc<LockFreeState>,
    arena: ClientArena,
    /// Time that a waiting caller polls the rings before it sleeps.
    spin: Duration,
    /// Number of cores that this process may use.
    cores: usize,
    keeper_image: &'static [u8],
    attendant: Condvar,
    /// Notified when every process is gone.
    pub(crate) ended: Condvar,
    pub(crate) callback_wake: Arc<Condvar>,
}

impl Client {
    /// Creates a client. `window` is the time that a caller polls, and `cores` the number of cores to do it on.
    pub(crate) fn new(
        inner: Inner,
        shared: Arc<LockFreeState>,
        arena: ClientArena,
        (window, cores): (Window, usize),
        keeper_image: &'static [u8],
    ) -> Self {
        let spin = match window {
            // Only the leader looks at links.
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

    /// Locks the mutex. A panic under it can only have broken invariants of the graph, which the graph asserts.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn shared(&self) -> &LockFreeState {
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

    /// Makes the sleeping leader and the pollers look again; ends a nap.
    pub(crate) fn kick_leader(&self) {
        self.shared.kick();
        self.shared.nap.end();
    }

    pub(crate) fn wake_attendant(&self) {
        self.attendant.notify_one();
    }

    pub(crate) fn park_attendant(&self, inner: MutexGuard<'_, Inner>, limit: Duration) {
        let _ = self.attendant.wait_timeout(inner, limit);
    }

    /// Starts another keeper in place of one that was killed.
    pub(crate) fn relaunch(&self) -> Result<(Commands, Events), LaunchError> {
        launch(self.keeper_image, KeeperOptions::default())
    }

    pub(crate) fn tell_ended(&self) {
        self.ended.notify_all();
        self.callback_wake.notify_all();
        self.attendant.notify_one();
    }

    /// Returns the id of a function and adds a use, which [`Self::forget`] removes; `name` is for messages.
    pub fn define(&self, definition: &[u8], name: &str) -> FunctionId {
        // A library is hashed while other threads go on.
        let checked = CheckedDefinition::of(definition);
        let mut inner = self.lock();
        if !inner.nested.is_used {
            inner.nested.note_function();
            if inner.lead.summon() {
                self.wake_attendant();
            }
        }
        inner.port.functions.define_checked(&checked, name)
    }

    /// Removes a use of a function.
    pub fn forget(&self, function: FunctionId) {
        let mut inner = self.lock();
        if inner.port.functions.release(function) {
            inner.port.freed_functions.push(function);
            inner.settle();
        }
    }

    /// Adds a use of a function, which [`Self::forget`] removes.
    pub fn use_function(&self, function: FunctionId) {
        self.lock().port.functions.use_again(function);
    }

    /// Returns the status of a task. Completes the tasks that have arrived first if the task is not final.
    pub fn look(&self, task: TaskId) -> TaskStatus {
        let mut inner = self.lock();
        let look = inner.look(task);
        if matches!(look, TaskStatus::Waiting | TaskStatus::Running) {
            inner.drain();
            inner.ask_for(&[task]);
            return inner.look(task);
        }
        look
    }

    /// Returns the outcome of a task if it is final. Completes the tasks that have arrived in rings first. Does not look at
    /// links: that is a system call, which a caller that then waits makes before its sleep anyway.
    #[inline]
    pub fn try_ended(&self, task: TaskId) -> Option<Ended> {
        let mut inner = self.lock();
        if let Some(ended) = inner.ended(task) {
            inner.attend_in_passing();
            return Some(ended);
        }
        if inner.port.links.sleeper().is_some() {
            return None;
        }
        inner.drain();
        inner.ended(task)
    }

    /// Returns the index of the first final task among `tasks`.
    pub fn first_final(&self, tasks: &[TaskId]) -> Option<usize> {
        let mut inner = self.lock();
        let find = |inner: &Inner| tasks.iter().position(|&task| inner.is_final(task));
        find(&inner).or_else(|| {
            inner.drain();
            find(&inner)
        })
    }

    /// Releases a task: it runs on, and its result is dropped.
    #[inline]
    pub fn release(&self, task: TaskId) {
        self.lock().release(task);
    }

    /// Returns the memory for large payloads.
    pub fn arena(&self) -> &ClientArena {
        &self.arena
    }

    /// Cancels a task within the limits of `mode`. Returns true if the task is cancelled or its cancellation has begun.
    pub fn cancel(&self, task: TaskId, mode: CancelMode) -> bool {
        match self.begin_cancel(task, mode) {
            CancelOutcome::Cancelled | CancelOutcome::Requested => return true,
            CancelOutcome::AlreadyRunning => return false,
            CancelOutcome::Asked => {
                // The peer answers, or is found to be lost, well before the limit.
                self.wait_until(&[task], ANSWER_LIMIT, |inner| !inner.core.is_withdrawn(task));
            }
            CancelOutcome::AlreadyFinal => {}
        }
        self.lock().look(task) == TaskStatus::Cancelled
    }

    /// Works as [`Self::cancel`], but does not wait for the answer of a peer that has the task.
    pub(crate) fn begin_cancel(&self, task: TaskId, mode: CancelMode) -> CancelOutcome {
        let mut inner = self.lock();
        inner.drain();
        let now = inner.port.read_clock();
        let Inner { core, port, .. } = &mut *inner;
        let outcome = core.cancel(task, mode, now, port);
        inner.settle();
        inner.flush_links(now);
        self.leave(inner, false);
        outcome
    }

    /// Returns the timings of a task.
    pub fn timings(&self, task: TaskId) -> Option<TaskTimings> {
        let inner = self.lock();
        inner.core.task(task).map(|view| TaskTimings::new(view.timings, inner.port.scale))
    }

    /// Returns counts since the start.
    pub fn stats(&self) -> Stats {
        let mut inner = self.lock();
        inner.drain();
        inner.core.stats()
    }

    /// Returns the number of workers of connected nodes.
    pub fn node_workers(&self) -> u32 {
        self.lock().core.peer_workers()
    }

    /// Returns the total run time of all tasks so far, nanoseconds.
    pub fn busy_ns(&self) -> u64 {
        let inner = self.lock();
        inner.port.scale.to_ns(inner.core.busy_ticks())
    }
}

impl Inner {
    pub fn look(&self, task: TaskId) -> TaskStatus {
        self.core.task(task).map_or(TaskStatus::Failed, |view| TaskStatus::of(&view))
    }
}
