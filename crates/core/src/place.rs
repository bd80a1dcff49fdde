//! Placement: assigns tasks to workers.

use gristmill_wire::{ContextId, EXTENSION_WORDS, ResourceGrant, TaskExtension, TaskFlags};

use crate::contexts::PLAIN;
use crate::machine::slot_id;
use crate::outcome::TaskContent;
use crate::port::{Dispatch, ParentOutcomes, Port, Sent};
use crate::slots::Slot;
use crate::task::{State, flag};
use crate::{Core, NONE, Status};

const _: () = assert!(EXTENSION_WORDS == 4, "a field of the extension would have to be filled");

/// Deep windows in which a worker would get its share of the ready tasks.
const WINDOWS_PER_SHARE: u64 = 4;

/// Result of sending a task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// The task is in the ring, or has failed for good.
    Done,
    /// The task was not sent: the ring is full.
    Full,
}

impl Core {
    /// Places a task that was just submitted and has no parents and no options.
    #[inline]
    pub(crate) fn place_new(&mut self, index: u32, port: &mut impl Port) {
        let mut is_sent = false;
        if self.ready_count() == 0 {
            while !is_sent && let Some(slot) = self.choose_for(index, PLAIN, port) {
                is_sent = self.send(slot, index, port) == Placed::Done;
            }
        }
        // Tasks that wait in a slot's own queue do not wait for peers.
        while !is_sent
            && !self.config.shares_nested_only
            && self.ready.is_empty()
            && self.batch(index).is_none()
            && let Some(place) =
                self.choose_peer(index, port).or_else(|| self.choose_peer_for_new(index, port))
        {
            is_sent = self.delegate(place, index, port) == Placed::Done;
        }
        if !is_sent {
            self.tasks[index].state = State::Ready;
            self.ready.push_back(&mut self.tasks, 0, index);
            self.contexts.mark_changed();
        }
        // If there are contexts, children may wait for other workers than the idle ones.
        let is_doubtful = self.nested_ready > 0 && !self.contexts.is_empty();
        let has_priorities = self.priorities.is_used();
        if !is_sent
            && (self.waiting_slots > 0 || is_doubtful || has_priorities || self.is_deployment_due())
        {
            // Perhaps no worker is left that could begin the task.
            self.pump(port);
        } else if self.absent_slots > 0 {
            self.grow(port);
        }
    }

    /// Places a task in a context that was just submitted and waits for nothing, if no other task waits and a worker
    /// has room. Returns false if the task was not placed.
    #[inline]
    pub(crate) fn place_in_context(&mut self, index: u32, port: &mut impl Port) -> bool {
        let context = self.context_of(index);
        if context == PLAIN || self.has_ready() || self.nested_slot(index).is_some() {
            return false;
        }
        let Some(slot) = self.choose_for(index, context, port) else { return false };
        if self.send(slot, index, port) == Placed::Full {
            return false;
        }
        if self.deep_slots > 0 || self.waiting_slots > 0 {
            // The tasks behind others may be for missing workers, or for idle ones without the context.
            self.contexts.mark_changed();
            if self.absent_slots > 0 || self.is_deployment_due() {
                self.grow(port);
            }
        }
        true
    }

    /// Sends a task that is in no list.
    #[inline]
    pub(crate) fn send(&mut self, slot: usize, index: u32, port: &mut impl Port) -> Placed {
        let task = &self.tasks[index];
        let (extension, flags) = if task.extra == NONE {
            (None, TaskFlags::default())
        } else {
            self.extension(slot, task.extra)
        };
        let is_named = extension.is_some_and(|one| one.grant.named_places() > 0);
        let places = match is_named {
            false => Vec::new(),
            true if self.slots[slot].demand.is_none() => self.places(index),
            true => self.places_of_worker(slot),
        };
        let dispatch = Dispatch {
            id: self.tasks.id(index),
            function: task.function,
            attempt: task.attempt,
            flags,
            parents: ParentOutcomes::new(&self.tasks, &self.edges, task.first_parent),
            payload: task.payload(),
            extension,
            places: &places,
        };
        match port.send(slot_id(slot), dispatch) {
            Sent::Written(sequence) => {
                self.note_inline(index, flags);
                self.enter_slot(slot, index, sequence, port.ticks());
                Placed::Done
            }
            Sent::Full => {
                self.slots[slot].full = true;
                Placed::Full
            }
            Sent::Failed(raised) => {
                self.finish(index, Status::Failed, TaskContent::Payload(raised), port);
                Placed::Done
            }
        }
    }

    #[inline]
    fn note_inline(&mut self, index: u32, flags: TaskFlags) {
        let extra = self.tasks[index].extra;
        if extra != NONE {
            self.extras[extra].is_inline = flags.has(TaskFlags::NESTED);
        }
    }

    pub(crate) fn extension(&self, slot: usize, extra: u32) -> (Option<TaskExtension>, TaskFlags) {
        let extra = &self.extras[extra];
        let mut flags = Self::batch_flag(extra.batch);
        let is_home = extra.parent != NONE && self.tasks[extra.parent].slot == slot_id(slot).0;
        // If the parent does not wait yet, the worker for the child is chosen again once the parent waits.
        if is_home && (self.has_earned(extra.task) || self.must_wait_there(slot, extra.task)) {
            flags |= TaskFlags::NESTED;
        }
        let set = |ns: u64| if ns == u64::MAX { 0 } else { ns.max(1) };
        // A task in a context's worker has the resources of that worker.
        let grant = match extra.claim {
            Some(claim) => claim.grant(&extra.demand),
            None => self.grant_of_worker(slot),
        };
        // A worker has one context: only peers need its id.
        let is_here = slot < self.slots.len();
        let deadline_ns = set(extra.deadline_ns);
        // A peer gets the timeout in another way.
        let timeout_ns = if is_here { set(extra.timeout_ns) } else { 0 };
        let is_plain = extra.priority == 0 && (is_here || extra.context == PLAIN);
        let is_timeless = deadline_ns == 0 && timeout_ns == 0;
        if is_timeless && is_plain && grant == ResourceGrant::NONE {
            return (None, TaskFlags(flags));
        }
        let extension = TaskExtension {
            deadline_ns,
            priority: extra.priority,
            context: extra.context,
            grant,
            timeout_ns,
            ..TaskExtension::default()
        };
        (Some(extension), TaskFlags(flags | TaskFlags::EXTENDED))
    }

    #[inline]
    fn enter_slot(&mut self, slot: usize, index: u32, sequence: u64, ticks: u64) {
        let task = &mut self.tasks[index];
        let mut cost = self.functions[task.function.0 as usize].cost();
        if task.extra != NONE
            && let Some(batch) = self.extras[task.extra].batch
        {
            cost = Self::batch_cost(cost, batch);
        }
        task.state = State::Sent;
        task.slot = slot_id(slot).0;
        task.cost = cost;
        #[expect(clippy::cast_possible_truncation, reason = "the low half is kept")]
        {
            task.sequence = sequence as u32;
        }
        if crate::HAS_TAGS {
            let waited = ticks.saturating_sub(task.submitted_ticks);
            task.written = gristmill_wire::Span::from_ticks(waited).bits();
        }
        let extra = task.extra;
        let place = &mut self.slots[slot];
        let was_deep = place.is_deep();
        place.in_flight.push_back(&mut self.tasks, index);
        place.backlog_ns += cost.ns();
        place.count_above(cost.ns());
        place.last_sequence = sequence;
        place.sent += 1;
        self.in_flight += 1;
        self.deep_slots += u32::from(place.is_deep() && !was_deep);
        let context = place.context;
        if context == PLAIN {
            self.current = slot;
        } else {
            self.contexts.set_current(context, slot);
        }
        if extra != NONE && !self.extras[extra].is_only_for_placing() {
            self.count_batch(slot, index, true);
            self.start_watch(index);
        }
    }

    /// Takes a task out of its slot's list. The caller sets its next state.
    #[inline]
    pub(crate) fn leave_slot(&mut self, index: u32) {
        let task = &mut self.tasks[index];
        debug_assert!(task.state == State::Sent, "only a sent task is in a slot");
        task.state = State::Loose;
        let (slot, cost, extra) = (usize::from(task.slot), task.cost, task.extra);
        let sequence = task.sequence;
        if extra != NONE && !self.extras[extra].is_only_for_placing() {
            self.count_batch(slot, index, false);
            if self.slots[slot].stopped == index {
                self.slots[slot].stopped = NONE;
            }
            self.leave_places(index);
        }
        let task = &self.tasks[index];
        if task.has(flag::WAITING) {
            self.end_wait(index);
        }
        let place = &mut self.slots[slot];
        let was_deep = place.is_deep();
        place.in_flight.remove(&mut self.tasks, index);
        place.backlog_ns -= cost.ns();
        place.uncount_above(sequence, cost.ns());
        self.in_flight -= 1;
        self.deep_slots -= u32::from(was_deep && !place.is_deep());
        if place.in_flight.len == 0 {
            place.idle_since = self.now;
            self.contexts.has_vacated |= place.is_leaving;
        }
    }

    /// Returns true if a slot may get tasks without a context now.
    #[inline]
    pub(crate) fn is_usable(&self, slot: usize) -> bool {
        self.serves(slot, PLAIN)
    }

    /// Returns true if a slot may get tasks in a context now. Each waiting slot admits one spare slot.
    #[inline]
    pub(crate) fn serves(&self, slot: usize, context: ContextId) -> bool {
        slot < self.serving_end() && self.slots[slot].context == context
    }

    /// Returns the index after the last slot that may get tasks now.
    #[inline]
    fn serving_end(&self) -> usize {
        usize::from(self.config.workers) + self.waiting_slots as usize
    }

    /// Returns the slots that may get tasks now, up to the last one with a process: many idle spare ones may follow.
    fn serving_slots(&self) -> &[Slot] {
        &self.slots[..self.live_end.min(self.serving_end())]
    }

    /// Returns the slot for the next task in a context, if one has room.
    #[inline]
    pub(crate) fn choose(&self, context: ContextId, port: &impl Port) -> Option<usize> {
        let last = if context == PLAIN { self.current } else { self.contexts.current(context) };
        let current = self.slots.get(last)?;
        let clings = (current.backlog_ns < self.config.sticky_backlog_ns
            || self.has_no_core_left())
            && (current.in_flight.len > 0 || !port.is_asleep(slot_id(last)))
            && current.is_open(&self.config)
            && self.serves(last, context);
        if clings { Some(last) } else { self.choose_among_all(context, port) }
    }

    /// Returns the least loaded awake slot, or the least loaded sleeping one if every awake one is busy for longer than
    /// a wake-up takes. If every core is busy, sleeping workers are not woken until the submitting thread itself waits.
    fn choose_among_all(&self, context: ContextId, port: &impl Port) -> Option<usize> {
        let mut awake: Option<(u64, usize)> = None;
        let mut asleep: Option<(u64, usize)> = None;
        for (place, slot) in self.serving_slots().iter().enumerate() {
            if !slot.is_open(&self.config) || slot.context != context {
                continue;
            }
            let sleeps = slot.in_flight.len == 0 && port.is_asleep(slot_id(place));
            let best = if sleeps { &mut asleep } else { &mut awake };
            if best.is_none_or(|(backlog, _)| slot.backlog_ns < backlog) {
                *best = Some((slot.backlog_ns, place));
            }
        }
        match (awake, asleep) {
            (Some((backlog, _)), Some((_, place))) if backlog > self.wake_cost_ns() => Some(place),
            (Some((_, place)), _) => Some(place),
            (None, Some((_, place))) => (!self.has_no_core_left()).then_some(place),
            (None, None) => None,
        }
    }

    /// Returns the cost of a wake-up, ns. If workers and the submitting thread use every core already, another worker
    /// takes a core from them: a wake-up pays only if the other workers' windows are full.
    pub(crate) fn wake_cost_ns(&self) -> u64 {
        if self.has_no_core_left() { self.config.window_ns } else { self.config.wake_cost_ns }
    }

    /// Returns true if busy workers and the submitting thread use every core. Returns false while that thread is about
    /// to wait: running tasks may wait for something else than a core.
    pub(crate) fn has_no_core_left(&self) -> bool {
        // Stops once enough busy slots are found: many slots of idle spare workers may follow.
        let enough = usize::try_from(self.config.cores.saturating_sub(1).max(1));
        let busy = self.live_slots().iter().filter(|slot| slot.in_flight.len > slot.waiting);
        !self.is_caller_waiting && enough.is_ok_and(|enough| busy.take(enough).count() == enough)
    }

    /// Queues a ready task that is in no list behind the others.
    pub(crate) fn make_ready(&mut self, index: u32) {
        self.queue_fresh(index, false);
    }

    /// Queues a task that was placed before in front of the others.
    pub(crate) fn make_ready_first(&mut self, index: u32) {
        self.queue_fresh(index, true);
    }

    fn queue_fresh(&mut self, index: u32, is_first: bool) {
        self.has_fresh = true;
        self.contexts.mark_changed();
        if self.is_demanding(index) {
            return self.queue_demanding(index, is_first);
        }
        let Some(slot) = self.nested_slot(index) else {
            return self.queue_ready(index, is_first);
        };
        self.tasks[index].state = State::Nested;
        self.tasks[index].slot = slot_id(slot).0;
        let priority = self.priority(index);
        let nested = &mut self.slots[slot].nested;
        if is_first {
            nested.push_first(&mut self.tasks, priority, index);
        } else {
            nested.push_back(&mut self.tasks, priority, index);
        }
        self.nested_ready += 1;
    }

    /// Puts a ready task into the queue that it belongs to, behind the others or in front.
    pub(crate) fn queue_ready(&mut self, index: u32, is_first: bool) {
        let (context, priority) = (self.context_of(index), self.priority(index));
        self.tasks[index].state = State::Ready;
        if context != PLAIN {
            self.contexts.push(&mut self.tasks, context, (priority, index), is_first);
        } else if is_first {
            self.ready.push_front(&mut self.tasks, priority, index);
        } else {
            self.ready.push_back(&mut self.tasks, priority, index);
        }
    }

    /// Sends ready tasks until no worker or peer has room, and asks for more workers if tasks are left.
    pub(crate) fn pump(&mut self, port: &mut impl Port) {
        self.has_fresh = false;
        if self.priorities.has_newcomer {
            self.renew_floors(port);
        }
        self.retire_vacated(port);
        if !self.peers.raised.is_unused() {
            self.raise_floors(port);
        }
        self.pump_workers(port);
        if self.priorities.is_used() {
            while self.settle_floors(port) {
                self.pump_workers(port);
            }
            self.tell_vacancies(port);
        }
        // If a floor is lowered, workers here may return tasks, which peers can run.
        for is_last in [false, true] {
            self.pump_peers(port);
            if is_last || !self.takes_floor_here() || !self.settle_floors_here(port) {
                break;
            }
        }
        if self.is_deployment_due()
            || self.absent_slots > 0
            || (self.waiting_count() > 0 && self.waiting_slots > 0)
        {
            self.grow(port);
            if !self.refuse_too_deep(port) && self.refuse_starved(port) {
                // One of the refused tasks may have held resources that others need. No child is left to be refused
                // again.
                self.pump(port);
            }
        }
    }

    /// Adjusts the floors of this engine's workers to the tasks that wait at peers now. Returns whether a floor
    /// changed.
    #[cold]
    fn settle_floors_here(&mut self, port: &mut impl Port) -> bool {
        let mut has_changed = false;
        while self.settle_floors(port) {
            self.pump_workers(port);
            has_changed = true;
        }
        has_changed
    }

    /// Sends ready tasks to workers until none has room.
    fn pump_workers(&mut self, port: &mut impl Port) {
        if self.demands.len() > 0 {
            self.pump_demanding(port);
        }
        if self.nested_ready > 0 {
            self.pump_nested(port);
        }
        while let Some(first) = self.ready.first(&self.tasks) {
            let Some(slot) = self.choose_for(first, PLAIN, port) else { break };
            self.send_first(slot, port);
        }
        if self.contexts.waiting() > 0 && self.config.workers > 0 {
            self.pump_contexts(port);
        }
    }

    /// Fills one slot up after it has run down.
    #[inline]
    pub(crate) fn refill(&mut self, slot: usize, port: &mut impl Port) {
        let context = self.slots[slot].context;
        if self.priorities.is_used() {
            return; // All slots were looked at.
        }
        let window_ns = self.window_ns(context);
        if !self.slots[slot].is_low(&self.config, window_ns) || !self.serves(slot, context) {
            return;
        }
        while self.has_ready_in(context) && self.slots[slot].is_open_within(&self.config, window_ns)
        {
            self.send_first(slot, port);
        }
    }

    /// Returns the work that a worker with a context may have queued now, ns. The first ready task stands for all of
    /// them: tasks of one program are mostly calls of one function.
    #[inline]
    fn window_ns(&self, context: ContextId) -> u64 {
        let usual_ns = self.config.window_ns;
        let queue = if context == PLAIN { Some(&self.ready) } else { self.contexts.queue(context) };
        let first = queue.and_then(|queue| Some((queue, queue.first(&self.tasks)?)));
        let Some((queue, first)) = first else { return usual_ns };
        let estimate = &self.functions[self.tasks[first].function.0 as usize];
        if !estimate.is_seen() {
            return usual_ns;
        }
        let ready_ns = u64::from(queue.len()).saturating_mul(estimate.cost().ns());
        let share_ns = ready_ns / (WINDOWS_PER_SHARE * u64::from(self.config.workers).max(1));
        share_ns.clamp(usual_ns, self.config.deep_window_ns.max(usual_ns))
    }

    /// Returns true if tasks wait in the queue of a context.
    #[inline]
    pub(crate) fn has_ready_in(&self, context: ContextId) -> bool {
        if context == PLAIN { !self.ready.is_empty() } else { self.contexts.waits(context) }
    }

    /// Sends the first task that waits for workers with a slot's context.
    #[inline]
    pub(crate) fn send_first(&mut self, slot: usize, port: &mut impl Port) {
        let context = self.slots[slot].context;
        let index = self.pop_ready(context);
        if self.send(slot, index, port) == Placed::Full {
            self.queue_ready(index, true);
        }
    }

    /// Takes the first task that waits in a context, or in none, out of its queue.
    ///
    /// # Panics
    /// If no such task waits.
    #[inline]
    pub(crate) fn pop_ready(&mut self, context: ContextId) -> u32 {
        let first = if context == PLAIN {
            self.ready.pop_front(&mut self.tasks)
        } else {
            self.contexts.pop(&mut self.tasks, context)
        };
        let index = first.expect("the queue is not empty");
        self.tasks[index].state = State::Loose;
        index
    }

    pub(crate) fn has_idle_worker(&self, context: ContextId) -> bool {
        let mut slots = self.serving_slots().iter().filter(|slot| slot.context == context);
        slots.any(|slot| slot.is_idle() && slot.is_open_above_floor(&self.config))
    }

    /// Returns the index of a slot whose process may send reports.
    pub(crate) fn live_slot(&self, slot: gristmill_wire::SlotId) -> Option<usize> {
        let place = usize::from(slot.0);
        self.slots.get(place)?.has_process().then_some(place)
    }
}
