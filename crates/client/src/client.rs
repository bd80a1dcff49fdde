//! The client itself: what the layers above call.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gristmill_core::{
    CancelMode, CancelOutcome, Core, Origin, Payload, Stats, Submission, SubmitError, TaskOptions,
};
use gristmill_keeper::{Commands, Events, KeeperOptions, LaunchError, launch};
use gristmill_shm::{
    BlockPart, ClientArena, Event, Gaps, Segment, SegmentError, SegmentOptions, Window,
};
use gristmill_store::Spread;
use gristmill_sync::barrier::BarrierMode;
use gristmill_transport::Sleeper;
use gristmill_wire::{BlobName, FunctionId, TaskId};

use crate::blobs::{BlobOptions, Taking, names_of, with_names};
use crate::inner::{Inner, Shared};
use crate::lanes::{Lanes, handle};
use crate::options::{ClientOptions, LinkUse, StartError};
use crate::outcome::{Ended, TagTimes, TaskLook};
use crate::peers::{LinkWork, Links};
use crate::rest::LOOKS;
use crate::tree::Tree;

/// Submits in a row that share a reading of the clock: the resolution of the tag `submitted` in such a loop.
const SUBMIT_BURST: u32 = 16;

/// How long a peer's word on a task is waited for: much longer than it takes to find that the peer is lost.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// One call to be run.
#[derive(Debug)]
pub struct Call<'a> {
    /// What to call.
    pub function: FunctionId,
    /// Its encoded arguments.
    pub payload: &'a [u8],
    /// Blocks of the arena that they name by index.
    pub parts: &'a [BlockPart],
    /// Arrays in its result are to be given out as read-only views.
    pub views: bool,
    /// Tasks whose results the arguments name.
    pub parents: &'a [TaskId],
    /// What else it asks for.
    pub options: Option<&'a TaskOptions>,
}

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
    ended: Condvar,
    callback_wake: Arc<Condvar>,
}

impl Client {
    /// Makes the rings and starts the processes; does not wait for them.
    ///
    /// # Errors
    /// [`StartError`]: memory, processes or threads are not to be had.
    pub fn start(options: ClientOptions) -> Result<Arc<Self>, StartError> {
        let slot_count = options.core.slot_count();
        let segment = make_segment(&options, slot_count)?;
        let arena = ClientArena::create(u16::try_from(slot_count).unwrap_or(u16::MAX))?;
        let (mode, scale) = (segment.mode(), segment.tick_scale());
        let (commands, events) = launch(options.keeper_image, KeeperOptions::default())?;
        let mut core = options.core;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        core.ticks_per_second = scale.ticks_per_second();
        core.cores = u32::try_from(cores).unwrap_or(u32::MAX);
        let sleeper = match options.links {
            LinkUse::None => None,
            LinkUse::Outwards | LinkUse::Inwards => {
                Some(Arc::new(Sleeper::new().map_err(StartError::Sleeper)?))
            }
        };
        let event = match &sleeper {
            Some(sleeper) => clone_descriptor(&sleeper.event())?,
            None => Event::create()?,
        };
        let mut descriptors = vec![clone_descriptor(&segment)?, clone_descriptor(&arena)?, event];
        descriptors.extend(options.descriptors);
        let shape = (options.spawn_fresh, slot_count);
        let tree = Tree::new(commands, options.program, descriptors, shape);
        let spin = match options.window {
            // Links are looked at by whoever leads, and only by that one.
            Window::Fixed(window) if sleeper.is_none() => window,
            _ => Duration::ZERO,
        };
        let links = Links::new(sleeper.clone(), options.links == LinkUse::Inwards);
        let shared = Arc::new(Shared::new(Arc::new(segment), mode, sleeper.clone()));
        let mut lanes = Lanes::new(slot_count, (mode, scale), arena.clone(), links);
        let BlobOptions { spread, limits, sibling } = options.blobs;
        lanes.giving.spread = Spread::new(spread);
        if let (Some(limits), Some(sleeper)) = (limits, &sleeper) {
            lanes.taking = Some(Taking::new(arena.clone(), limits, sibling, sleeper.waker()));
        }
        let gaps = Gaps::new(options.window, LOOKS);
        let mut inner = Inner::new(Core::new(core), lanes, tree, Arc::clone(&shared), gaps);
        let now = inner.lanes.read_clock();
        inner.core.start(now, &mut inner.lanes);
        inner.settle();
        let client = Arc::new(Self {
            callback_wake: Arc::clone(&inner.callback_wake),
            inner: Mutex::new(inner),
            shared,
            arena,
            spin,
            cores,
            keeper_image: options.keeper_image,
            attendant: Condvar::new(),
            ended: Condvar::new(),
        });
        client.start_threads(events)?;
        Ok(client)
    }

    fn start_threads(self: &Arc<Self>, events: Events) -> Result<(), StartError> {
        let attended = Arc::clone(self);
        let watched = Arc::clone(self);
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10);
            builder.spawn(body).map(drop).map_err(StartError::Thread)
        };
        spawn("gristmill-attendant", Box::new(move || crate::attendant::run(&attended)))?;
        spawn("gristmill-watcher", Box::new(move || crate::watcher::run(&watched, events)))
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

    /// Submits a call.
    ///
    /// # Errors
    /// [`SubmitError`]; only [`SubmitError::LimitReached`] is worth another try.
    #[inline]
    pub fn submit(&self, call: &Call<'_>) -> Result<TaskId, SubmitError> {
        // Whoever submits pays for the hash, and holds nobody up.
        let has_nodes = !call.parts.is_empty() && self.shared.sleeper.is_some();
        let names = if has_nodes { names_of(call.parts) } else { Vec::new() };
        let mut inner = self.lock();
        let task = inner.submit(call, names, Origin::External, 0)?;
        if call.views {
            inner.views.insert(task);
        }
        self.summon_if_needed(inner);
        Ok(task)
    }

    /// Wakes the attendant if it sleeps and something is left to do.
    #[inline]
    pub(crate) fn summon_if_needed(&self, mut inner: MutexGuard<'_, Inner>) {
        if inner.lead.is_parked() && inner.has_obligations() && inner.lead.summon() {
            // It would only wait for the mutex.
            drop(inner);
            self.wake_attendant();
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
        self.shared.kick();
    }

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

    /// Waits until every task is final and every process gone; false when `limit` has passed.
    pub fn wait_for_end(&self, limit: Duration) -> bool {
        let start = Instant::now();
        let is_over = |inner: &Inner| inner.has_ended || inner.tree.was_told_to_end();
        if !self.wait_until(&[], limit, is_over) {
            return false;
        }
        let left = limit.saturating_sub(start.elapsed());
        let inner = self.lock();
        let woken = self.ended.wait_timeout_while(inner, left, |inner| !inner.has_ended);
        woken.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }
}

impl Inner {
    /// Submits a call of some origin; a nested one has a ticket.
    #[inline]
    pub fn submit(
        &mut self,
        call: &Call<'_>,
        names: Vec<Option<BlobName>>,
        origin: Origin,
        ticket: u32,
    ) -> Result<TaskId, SubmitError> {
        let now = self.now_for_submit();
        let named;
        let (payload, options) = if call.parts.is_empty() {
            (Payload::copy_from(call.payload), call.options)
        } else {
            named = with_names(call.options, &names);
            (self.lanes.take_arguments(call, names), named.as_ref())
        };
        let submission = Submission {
            function: call.function,
            payload,
            handle: handle(call.function, ticket),
            submitted_ticks: self.lanes.now_ticks(),
            parents: call.parents,
            options,
            origin,
        };
        let task = self.accept(call.function, |core, lanes| core.submit(submission, now, lanes));
        if !call.parts.is_empty() {
            self.obey_spread();
        }
        task
    }

    /// Hands something to the graph, which uses its function from then on.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        function: FunctionId,
        submit: impl FnOnce(&mut Core, &mut Lanes) -> Result<TaskId, SubmitError>,
    ) -> Result<TaskId, SubmitError> {
        self.lanes.functions.use_again(function);
        let task = submit(&mut self.core, &mut self.lanes);
        if task.is_err() {
            self.lanes.functions.release(function);
        }
        self.settle();
        task
    }

    /// The time of a submission. A loop of submits reads the clock, and takes results in, once for several: a result's
    /// line of the ring moves between cores each time somebody looks at it.
    #[inline]
    pub(crate) fn now_for_submit(&mut self) -> u64 {
        self.burst = self.burst.wrapping_add(1);
        if self.burst.is_multiple_of(SUBMIT_BURST)
            || self.core.in_flight() == 0
            || self.core.waits_for_few()
                && self.lanes.slots().any(|slot| self.lanes.has_arrived(slot))
        {
            let now = self.lanes.read_clock();
            self.drain_little(now);
            return now;
        }
        self.lanes.now()
    }

    /// What asking for results that are there does for those that are not: workers stay busy without the attendant.
    #[inline]
    fn attend_in_passing(&mut self) {
        self.burst = self.burst.wrapping_add(1);
        if self.burst.is_multiple_of(SUBMIT_BURST) && self.core.in_flight() > 0 {
            let now = self.lanes.read_clock();
            self.drain_little(now);
            self.settle();
        }
    }

    pub fn look(&self, task: TaskId) -> TaskLook {
        self.core.task(task).map_or(TaskLook::Failed, |view| TaskLook::of(&view))
    }
}

/// Memory for the rings. Tasks that come over links come too rarely for a fence each to count, and find workers asleep; the
/// call in its place, before each sleep, would interrupt the cores of all workers that run. A program whose workers are all
/// on other nodes has nobody to interrupt.
fn make_segment(options: &ClientOptions, slot_count: usize) -> Result<Segment, SegmentError> {
    let sizes = SegmentOptions {
        slot_count: u16::try_from(slot_count.max(1)).unwrap_or(u16::MAX),
        task_ring_size: options.ring_size,
        result_ring_size: options.ring_size,
    };
    match options.links {
        LinkUse::None => Segment::create(&sizes),
        LinkUse::Outwards | LinkUse::Inwards => {
            Segment::create_with_mode(&sizes, BarrierMode::Fence)
        }
    }
}

fn clone_descriptor(memory: &impl AsFd) -> Result<std::os::fd::OwnedFd, StartError> {
    let clone = memory.as_fd().try_clone_to_owned();
    clone.map_err(|source| StartError::Segment(SegmentError::Create { source }))
}
