//! Everything behind the client's one mutex.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar};
use std::time::Duration;

use gristmill_core::{Core, Origin, Outcome, Payload, Status};
use gristmill_shm::{Gaps, Segment};
use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_sync::barrier::BarrierMode;
use gristmill_transport::{Sleeper, Waker};
use gristmill_wire::TaskId;

use crate::blobs::BlobWork as _;
use crate::bundle::Encoded;
use crate::lanes::Lanes;
use crate::lead::Lead;
use crate::nested::Nested;
use crate::outcome::Ended;
use crate::peers::{Guests, LinkWork, PeerNews, is_guest};
use crate::tree::Tree;
use crate::wait::Waiter;

/// What threads look at without the mutex.
#[derive(Debug)]
pub(crate) struct Shared {
    pub segment: Arc<Segment>,
    pub mode: BarrierMode,
    /// Counts up when waiting threads should look anew, whatever the rings say.
    kicks: AtomicU64,
    /// What the leader sleeps on, where it waits for links too.
    pub sleeper: Option<Arc<Sleeper>>,
}

impl Shared {
    pub fn new(segment: Arc<Segment>, mode: BarrierMode, sleeper: Option<Arc<Sleeper>>) -> Self {
        Self { segment, mode, kicks: AtomicU64::new(0), sleeper }
    }

    /// Makes pollers and the sleeper on the bell look anew.
    pub fn kick(&self) {
        // PAIRS: kicks (`kicks`): what the kicker changed is under the mutex, which the kicked one takes next.
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

/// How long a worker's full task ring is left alone before replies are tried again.
const REPLY_PAUSE: Duration = Duration::from_millis(1);

/// Who is to hear of a final task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Listeners {
    pub waiters: bool,
    pub callbacks: bool,
}

/// The client's state.
#[derive(Debug)]
pub(crate) struct Inner {
    pub core: Core,
    pub lanes: Lanes,
    pub lead: Lead,
    /// For how long nothing came while somebody led.
    pub gaps: Gaps,
    pub tree: Tree,
    pub nested: Nested,
    pub shared: Arc<Shared>,
    waiters: Vec<(u64, Waiter)>,
    next_key: u64,
    /// Counts submits.
    pub burst: u32,
    pub watched: HashMap<TaskId, Listeners>,
    /// Final tasks for the waiters of the layer above, and for its callbacks.
    pub waiter_notices: VecDeque<TaskId>,
    pub callback_notices: VecDeque<TaskId>,
    /// Told when callback notices come in.
    pub callback_wake: Arc<Condvar>,
    /// What the functions of failed tasks were called, until their futures go.
    pub names: HashMap<TaskId, Box<str>>,
    /// Tasks whose results are to be given out as views, until their futures go.
    pub views: HashSet<TaskId>,
    pub has_ended: bool,
    /// Tasks of peers.
    pub guests: Guests,
    /// What the layers above should know of peers.
    pub news: VecDeque<PeerNews>,
    /// Woken with each of those.
    pub door: Option<Waker>,
}

impl Inner {
    pub fn new(core: Core, lanes: Lanes, tree: Tree, shared: Arc<Shared>, gaps: Gaps) -> Self {
        let slot_count = lanes.lanes.len();
        Self {
            core,
            lanes,
            tree,
            shared,
            lead: Lead::default(),
            gaps,
            nested: Nested::new(slot_count),
            waiters: Vec::new(),
            next_key: 0,
            burst: 0,
            watched: HashMap::new(),
            waiter_notices: VecDeque::new(),
            callback_notices: VecDeque::new(),
            callback_wake: Arc::new(Condvar::new()),
            names: HashMap::new(),
            views: HashSet::new(),
            has_ended: false,
            guests: Guests::default(),
            news: VecDeque::new(),
            door: None,
        }
    }

    /// Does what the graph decided: tells who listens, gives orders to processes, wakes workers. Due after every call of
    /// the graph, before the mutex is given up.
    #[inline]
    pub fn settle(&mut self) {
        if !self.lanes.is_quiet() {
            self.settle_slowly();
        }
        self.settle_arena();
        if self.tree.is_closing() {
            self.advance_shutdown();
        }
        self.lanes.ring_bells();
    }

    /// Drops the blocks of payloads that the graph has dropped, and tells workers of those that are theirs.
    #[inline]
    pub fn settle_arena(&mut self) {
        while let Some(block) = self.core.freed_blocks().pop() {
            self.drop_bundle(block);
        }
        if self.lanes.has_releases() {
            self.lanes.tell_releases();
        }
    }

    fn encoded(&self, task: TaskId, payload: &Payload) -> Encoded {
        let views = !self.views.is_empty() && self.views.contains(&task);
        Encoded::new(payload, &self.lanes.bundles, views)
    }

    fn settle_slowly(&mut self) {
        // Orders and replies can make the graph decide more: until there is nothing left.
        while !self.lanes.is_quiet() {
            for function in std::mem::take(&mut self.lanes.freed_functions) {
                self.core.forget_function(function);
            }
            for (task, handle, status) in std::mem::take(&mut self.lanes.finished) {
                self.tell(task, handle, status);
            }
            for (task, name) in std::mem::take(&mut self.lanes.names) {
                // A task whose future is gone already is freed with its end.
                if self.core.outcome(task).is_some() {
                    self.names.insert(task, name);
                }
            }
            for batch in std::mem::take(&mut self.lanes.news) {
                self.call_waiters(|tasks| tasks.contains(&batch));
            }
            let orders = std::mem::take(&mut self.lanes.orders);
            for order in orders {
                self.obey(&order);
            }
        }
    }

    /// Whether somebody waits for a task's end.
    pub fn is_asked_for(&self, task: TaskId) -> bool {
        let is_meant = |waiter: &Waiter| waiter.tasks.contains(&task);
        self.watched.contains_key(&task) || self.waiters.iter().any(|(_, waiter)| is_meant(waiter))
    }

    /// Takes a wish to learn of a task's end, which has not come.
    pub fn listen(&mut self, task: TaskId, callbacks: bool) {
        self.ask_for(&[task]);
        let before = self.watched.len();
        let listeners = self.watched.entry(task).or_default();
        listeners.callbacks |= callbacks;
        listeners.waiters |= !callbacks;
        self.lanes.listeners += self.watched.len() - before;
    }

    fn tell(&mut self, task: TaskId, handle: u64, status: Status) {
        let _ = status;
        if let Some(listeners) = self.watched.remove(&task) {
            self.lanes.listeners -= 1;
            if listeners.waiters {
                self.waiter_notices.push_back(task);
            }
            if listeners.callbacks {
                self.callback_notices.push_back(task);
                self.callback_wake.notify_one();
            }
        }
        if is_guest(handle) {
            self.answer_guest(task, handle);
        } else {
            self.reply_nested(task, handle);
        }
        self.call_waiters(|tasks| tasks.is_empty() || tasks.contains(&task));
    }

    /// Wakes the waiting threads whose tasks `concerns` says yes to.
    pub fn call_waiters(&mut self, concerns: impl Fn(&[TaskId]) -> bool) {
        let mut is_kicked = false;
        for (_, waiter) in &mut self.waiters {
            if !waiter.is_called && concerns(&waiter.tasks) {
                waiter.is_called = true;
                // A notice is a system call, whether or not somebody sleeps on the condition.
                if waiter.is_asleep {
                    waiter.wake.notify_one();
                } else {
                    is_kicked = true;
                }
            }
        }
        if is_kicked {
            self.shared.kick();
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
        self.lanes.listeners += 1;
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
        self.lanes.listeners -= 1;
    }

    /// Whether a task has its final state; unknown ones have.
    pub fn is_final(&self, task: TaskId) -> bool {
        self.core.is_final(task)
    }

    /// Whether a task from outside would be accepted.
    pub fn has_room(&self) -> bool {
        !matches!(
            self.core.admit(&Origin::External),
            Err(gristmill_core::SubmitError::LimitReached { .. })
        )
    }

    /// Whether somebody has to act even if no caller does.
    pub fn has_obligations(&self) -> bool {
        self.core.has_obligations()
            || !self.watched.is_empty()
            || !self.waiters.is_empty()
            || self.nested.has_backlog()
            || (self.nested.is_used && !self.core.is_drained())
            || self.tree.is_closing()
            || self.lanes.links.is_used()
    }

    /// Whether a task that runs may be the first to submit one.
    pub fn listens_for_first_request(&self) -> bool {
        !self.nested.is_used && (!self.core.is_drained() || self.nested.is_new_function_due())
    }

    /// How long nothing is due.
    pub fn next_wake(&mut self) -> Option<Duration> {
        let now = self.lanes.read_clock();
        let link_wake = self.next_link_wake();
        let wake = self.core.next_wake(now).into_iter().chain(link_wake).min();
        let wake = wake.map(|at| Duration::from_nanos(at.saturating_sub(now)));
        if !self.nested.has_backlog() {
            return wake;
        }
        Some(wake.map_or(REPLY_PAUSE, |wake| wake.min(REPLY_PAUSE)))
    }

    /// The outcome of a final task, copied out.
    #[inline]
    pub fn ended(&self, task: TaskId) -> Option<Ended> {
        match self.core.outcome(task)? {
            Outcome::Returned(payload) => Some(Ended::Value(self.encoded(task, payload))),
            other => {
                let name = self.names.get(&task).map_or("?", |name| name);
                let encoded = |payload: &Payload| self.encoded(task, payload);
                Some(Ended::of(task, name, &other, encoded, |root| self.ended(root)))
            }
        }
    }

    /// The outcome of a final task that nobody will ask for again.
    #[inline]
    pub fn take_ended(&mut self, task: TaskId) -> Option<Ended> {
        let ended = self.ended(task)?;
        self.release(task);
        Some(ended)
    }

    /// Lets go of a task.
    #[inline]
    pub fn release(&mut self, task: TaskId) {
        if !self.names.is_empty() {
            self.names.remove(&task);
        }
        if !self.views.is_empty() {
            self.views.remove(&task);
        }
        if !self.lanes.batches.is_empty() {
            let is_final = self.core.is_final(task);
            for single in self.lanes.batches.release(task, is_final) {
                self.core.release(single);
            }
        }
        self.core.release(task);
        self.settle_arena();
    }
}
