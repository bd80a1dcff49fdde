//! The state behind the client's one mutex.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar};
use std::time::Duration;

use gristmill_core::{Core, Origin, Payload, TaskOutcome};
use gristmill_lead::{Lead, NapWord};
use gristmill_shm::{Gaps, Segment};
use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_sync::barrier::BarrierMode;
use gristmill_transport::{Sleeper, Waker};
use gristmill_wire::TaskId;

use crate::blobs::BlobWork as _;
use crate::bundle::EncodedOutcome;
use crate::client_port::ClientPort;
use crate::nested::NestedTasks;
use crate::outcome::Ended;
use crate::peers::{InboundTasks, LinkWork, PeerEvent, is_inbound};
use crate::tree::Tree;
use crate::wait::Waiter;

/// The state that threads read without the mutex.
#[derive(Debug)]
pub(crate) struct LockFreeState {
    pub segment: Arc<Segment>,
    pub mode: BarrierMode,
    /// Number of times that waiting threads were asked to look again, even if the rings are empty.
    kicks: AtomicU64,
    /// Sleeper of the leader, if it waits for links too.
    pub sleeper: Option<Arc<Sleeper>>,
    /// Sleep of the leader while the workers have enough to do.
    pub nap: NapWord,
}

impl LockFreeState {
    pub fn new(segment: Arc<Segment>, mode: BarrierMode, sleeper: Option<Arc<Sleeper>>) -> Self {
        Self { segment, mode, kicks: AtomicU64::new(0), sleeper, nap: NapWord::default() }
    }

    /// Makes the pollers and the sleeper on the bell look again.
    pub fn kick(&self) {
        // PAIRS: kicks (`kicks`): the change behind the kick is under the mutex, which the woken thread takes next.
        self.kicks.fetch_add(1, Ordering::Release);
        match &self.sleeper {
            None => {
                self.segment.client_bell().ring(self.mode);
            }
            Some(sleeper) => sleeper.waker().wake(),
        }
    }

    #[inline]
    pub fn kicks(&self) -> u64 {
        self.kicks.load(Ordering::Acquire) // PAIRS: kicks (`kick`)
    }
}

/// Number of names of failed tasks below which a sweep for names of tasks that are gone is not worth its cost.
const NAMES_MIN: usize = 1024;
/// Time that a worker's full task ring is left alone before replies are tried again.
const REPLY_PAUSE: Duration = Duration::from_millis(1);

/// The kinds of listeners to the end of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Listeners {
    pub waiters: bool,
    pub callbacks: bool,
}

/// The client's state.
#[derive(Debug)]
pub(crate) struct Inner {
    pub core: Core,
    pub port: ClientPort,
    pub lead: Lead,
    /// Lengths of the times without an arrival while a thread led.
    pub gaps: Gaps,
    pub tree: Tree,
    pub nested: NestedTasks,
    pub shared: Arc<LockFreeState>,
    waiters: Vec<(u64, Waiter)>,
    next_key: u64,
    /// Number of submits, wrapping.
    pub burst: u32,
    pub watched: HashMap<TaskId, Listeners>,
    /// Final tasks for the waiters of the layer above, and for its callbacks.
    pub waiter_notices: VecDeque<TaskId>,
    pub callback_notices: VecDeque<TaskId>,
    /// Number of times that the layer above has woken the waiting threads.
    pub kick_count: u64,
    /// Notified when callback notices arrive.
    pub callback_wake: Arc<Condvar>,
    /// Names of the functions of failed tasks, until the futures of these tasks go.
    pub names: HashMap<TaskId, Box<str>>,
    /// Number of names at which the table is swept next.
    names_swept_at: usize,
    /// Tasks whose results are returned as views, until their futures go.
    pub views: HashSet<TaskId>,
    pub has_ended: bool,
    /// Tasks of peers.
    pub inbound: InboundTasks,
    /// Events of peers for the layers above.
    pub peer_events: VecDeque<PeerEvent>,
    /// Waker that is woken with each of those events.
    pub connection_manager: Option<Waker>,
}

impl Inner {
    pub fn new(
        core: Core,
        port: ClientPort,
        tree: Tree,
        shared: Arc<LockFreeState>,
        gaps: Gaps,
    ) -> Self {
        let slot_count = port.channels.len();
        Self {
            core,
            port,
            tree,
            shared,
            lead: Lead::default(),
            gaps,
            nested: NestedTasks::new(slot_count),
            waiters: Vec::new(),
            next_key: 0,
            burst: 0,
            watched: HashMap::new(),
            waiter_notices: VecDeque::new(),
            callback_notices: VecDeque::new(),
            kick_count: 0,
            callback_wake: Arc::new(Condvar::new()),
            names: HashMap::new(),
            names_swept_at: NAMES_MIN,
            views: HashSet::new(),
            has_ended: false,
            inbound: InboundTasks::default(),
            peer_events: VecDeque::new(),
            connection_manager: None,
        }
    }

    /// Carries out the decisions of the graph: tells listeners, starts and ends processes, wakes workers. Required after every
    /// call of the graph, before the mutex is released.
    #[inline]
    pub fn settle(&mut self) {
        if !self.port.is_quiet() {
            self.settle_slowly();
        }
        self.settle_arena();
        if self.tree.is_closing() {
            self.advance_shutdown();
        }
        self.port.ring_bells();
    }

    /// Drops the blocks of payloads that the graph has dropped, and tells workers which of their blocks are free.
    #[inline]
    pub fn settle_arena(&mut self) {
        while let Some(block) = self.core.freed_blocks().pop() {
            self.drop_bundle(block);
        }
        if self.port.has_releases() {
            self.port.tell_releases();
        }
    }

    fn encoded(&self, task: TaskId, payload: &Payload) -> EncodedOutcome {
        let views = !self.views.is_empty() && self.views.contains(&task);
        EncodedOutcome::new(payload, &self.port.bundles, views)
    }

    fn settle_slowly(&mut self) {
        // Effects and replies can make the graph decide more, so this repeats until no decision is left.
        while !self.port.is_quiet() {
            for function in std::mem::take(&mut self.port.freed_functions) {
                self.core.forget_function(function);
            }
            self.port.tell_departed();
            // Names come before the ends of tasks are reported: the errors of waiting tasks contain the names.
            for (task, name) in std::mem::take(&mut self.port.names) {
                // A failed task whose future is gone is freed when it ends.
                if self.core.outcome(task).is_some() {
                    self.keep_name(task, name);
                }
            }
            for (task, handle) in std::mem::take(&mut self.port.finished) {
                self.tell(task, handle);
            }
            for batch in std::mem::take(&mut self.port.unannounced_batches) {
                self.call_waiters(|tasks| tasks.contains(&batch));
            }
            let effects = std::mem::take(&mut self.port.effects);
            for effect in effects {
                self.apply(&effect);
            }
        }
    }

    /// Returns true if a thread or a callback waits for the end of a task.
    pub fn is_asked_for(&self, task: TaskId) -> bool {
        let is_meant = |waiter: &Waiter| waiter.tasks.contains(&task);
        self.watched.contains_key(&task) || self.waiters.iter().any(|(_, waiter)| is_meant(waiter))
    }

    /// Adds a listener to the end of a task that is not final.
    pub fn listen(&mut self, task: TaskId, callbacks: bool) {
        self.ask_for(&[task]);
        let before = self.watched.len();
        let listeners = self.watched.entry(task).or_default();
        listeners.callbacks |= callbacks;
        listeners.waiters |= !callbacks;
        self.port.listeners += self.watched.len() - before;
    }

    fn tell(&mut self, task: TaskId, handle: u64) {
        if let Some(listeners) = self.watched.remove(&task) {
            self.port.listeners -= 1;
            if listeners.waiters {
                self.waiter_notices.push_back(task);
            }
            if listeners.callbacks {
                self.callback_notices.push_back(task);
                self.callback_wake.notify_one();
            }
        }
        if is_inbound(handle) {
            self.answer_inbound(task, handle);
        } else {
            self.reply_nested(task, handle);
        }
        self.call_waiters(|tasks| tasks.is_empty() || tasks.contains(&task));
    }

    /// Wakes the waiting threads for whose tasks `concerns` returns true. Ends the nap of a leader that waits for one of them;
    /// a leader that waits for notices of any task sleeps on.
    pub fn call_waiters(&mut self, concerns: impl Fn(&[TaskId]) -> bool) {
        let (mut is_kicked, mut is_due) = (false, false);
        for (_, waiter) in &mut self.waiters {
            if !waiter.is_called && concerns(&waiter.tasks) {
                waiter.is_called = true;
                // A notification is a system call, even if no thread sleeps on the condition.
                if waiter.is_asleep {
                    waiter.wake.notify_one();
                } else {
                    is_kicked = true;
                    is_due |= !waiter.tasks.is_empty();
                }
            }
        }
        if is_kicked {
            self.shared.kick();
        }
        if is_due {
            self.shared.nap.end();
        }
    }

    /// Wakes one thread that sleeps on its own condition, so that it leads.
    pub fn call_one_sleeper(&mut self) {
        let sleeper = self.waiters.iter_mut().find(|(_, one)| one.is_asleep && !one.is_called);
        if let Some((_, waiter)) = sleeper {
            waiter.is_called = true;
            waiter.wake.notify_one();
        }
    }

    pub fn add_waiter(&mut self, tasks: &[TaskId]) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        self.port.listeners += 1;
        let wake = Arc::new(Condvar::new());
        let waiter = Waiter { tasks: tasks.to_vec(), wake, is_called: false, is_asleep: false };
        self.waiters.push((key, waiter));
        key
    }

    pub fn waiter(&mut self, key: u64) -> &mut Waiter {
        let place = self.waiters.iter().position(|(one, _)| *one == key);
        &mut self.waiters[place.expect("a waiter removes itself only")].1
    }

    pub fn remove_waiter(&mut self, key: u64) {
        self.waiters.retain(|(one, _)| *one != key);
        self.port.listeners -= 1;
    }

    /// Returns true if a task is final or unknown.
    pub fn is_final(&self, task: TaskId) -> bool {
        self.core.is_final(task)
    }

    /// Returns true if a task from outside would be accepted.
    pub fn has_room(&self) -> bool {
        !self.core.admit(&Origin::External).is_err_and(|error| error.is_retryable())
    }

    /// Returns true if there is work that a thread has to do even if no caller does anything.
    pub fn has_obligations(&self) -> bool {
        self.core.has_obligations()
            || !self.watched.is_empty()
            || !self.waiters.is_empty()
            || self.nested.has_backlog()
            || (self.nested.is_used && !self.core.is_drained())
            || self.tree.is_closing()
            || self.port.links.is_used()
    }

    /// Returns true if a running task may be the first to submit a task.
    pub fn listens_for_first_request(&self) -> bool {
        !self.nested.is_used && (!self.core.is_drained() || self.nested.is_new_function_due())
    }

    /// Returns the time until work is due, or `None` if no work is scheduled.
    pub fn next_wake(&mut self) -> Option<Duration> {
        let now = self.port.read_clock();
        let link_wake = self.next_link_wake();
        let wake = self.core.next_wake(now).into_iter().chain(link_wake).min();
        let wake = wake.map(|at| Duration::from_nanos(at.saturating_sub(now)));
        if !self.nested.has_backlog() {
            return wake;
        }
        Some(wake.map_or(REPLY_PAUSE, |wake| wake.min(REPLY_PAUSE)))
    }

    /// Returns a copy of the outcome of a final task.
    #[inline]
    pub fn ended(&self, task: TaskId) -> Option<Ended> {
        match self.core.outcome(task)? {
            TaskOutcome::Returned(payload) => Some(Ended::Value(self.encoded(task, payload))),
            other => {
                let name = self.names.get(&task).map_or("?", |name| name);
                let encoded = |payload: &Payload| self.encoded(task, payload);
                let root = |root| (self.ended(root), self.called(root));
                Some(Ended::of(task, name, &other, encoded, root))
            }
        }
    }

    /// Keeps the name of a task that did not succeed. Removes the names of tasks that are gone each time the table has doubled.
    fn keep_name(&mut self, task: TaskId, name: Box<str>) {
        if self.names.len() >= self.names_swept_at {
            let core = &self.core;
            self.names.retain(|&known, _| core.outcome(known).is_some());
            self.names_swept_at = (2 * self.names.len()).max(NAMES_MIN);
        }
        self.names.insert(task, name);
    }

    /// Returns a task's id with the name of its function, if that name is still known.
    fn called(&self, task: TaskId) -> String {
        self.names.get(&task).map_or_else(|| task.to_string(), |name| format!("{task} ({name})"))
    }

    /// Returns the outcome of a final task and releases the task.
    #[inline]
    pub fn take_ended(&mut self, task: TaskId) -> Option<Ended> {
        let ended = self.ended(task)?;
        self.release(task);
        Some(ended)
    }

    /// Releases a task.
    #[inline]
    pub fn release(&mut self, task: TaskId) {
        if !self.views.is_empty() {
            self.views.remove(&task);
        }
        if !self.port.batches.is_empty() {
            let is_final = self.core.is_final(task);
            for single in self.port.batches.release(task, is_final) {
                self.core.release(single);
            }
        }
        self.core.release(task);
        // The name of a task is needed while other tasks report it as the reason why they were not run.
        if !self.names.is_empty() && self.core.outcome(task).is_none() {
            self.names.remove(&task);
        }
        self.settle_arena();
    }
}
