//! Placement: which task goes to which worker, and when.

use gristmill_wire::{ContextId, EXTENSION_WORDS, Equipment, TaskExtension, TaskFlags};

use crate::contexts::PLAIN;
use crate::machine::slot_id;
use crate::outcome::Content;
use crate::port::{Dispatch, Parents, Port, Sent};
use crate::task::{State, flag};
use crate::{Core, NONE, Status};

const _: () = assert!(EXTENSION_WORDS == 3, "a field of the extension would have to be filled");

/// What became of a task that was to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// In the ring, or failed for good.
    Done,
    /// Nowhere: the ring is full.
    Full,
}

impl Core {
    /// Places a task that was just submitted and needs nothing.
    #[inline]
    pub(crate) fn place_new(&mut self, index: u32, port: &mut impl Port) {
        let mut is_sent = false;
        if self.ready_count() == 0 {
            while !is_sent && let Some(slot) = self.choose(PLAIN, port) {
                is_sent = self.send(slot, index, port) == Placed::Done;
            }
        }
        // Tasks that wait in a slot's own queue do not wait for peers.
        while !is_sent
            && !self.config.shares_nested_only
            && self.ready.is_empty()
            && self.batch(index).is_none()
            && let Some(place) = self.choose_peer(index, port)
        {
            is_sent = self.send_away(place, index, port) == Placed::Done;
        }
        if !is_sent {
            self.tasks[index].state = State::Ready;
            self.ready.push_back(&mut self.tasks, 0, index);
            self.contexts.note_news();
        }
        // Where there are contexts, children may wait for other workers than those that idle.
        let is_doubtful = self.nested_ready > 0 && !self.contexts.is_empty();
        if !is_sent && (self.waiting_slots > 0 || is_doubtful || self.is_deployment_due()) {
            // Perhaps no worker is left that could begin it.
            self.pump(port);
        } else if self.absent_slots > 0 {
            self.grow(port);
        }
    }

    /// Places a task in a context that was just submitted and needs nothing, where nobody waits for anything and a worker
    /// has room; false: it is where it was.
    #[inline]
    pub(crate) fn place_in_context(&mut self, index: u32, port: &mut impl Port) -> bool {
        let context = self.context_of(index);
        if context == PLAIN || self.has_ready() || self.nested_slot(index).is_some() {
            return false;
        }
        let Some(slot) = self.choose(context, port) else { return false };
        if self.send(slot, index, port) == Placed::Full {
            return false;
        }
        if self.deep_slots > 0 || self.waiting_slots > 0 {
            // What is behind others may be for workers that are missing, or that idle without its context.
            self.contexts.note_news();
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
        let is_named = extension.is_some_and(|one| one.equipment.named_places() > 0);
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
            parents: Parents::new(&self.tasks, &self.edges, task.first_parent),
            payload: task.payload(),
            extension,
            places: &places,
        };
        match port.send(slot_id(slot), dispatch) {
            Sent::Written(sequence) => {
                self.enter_slot(slot, index, sequence, port.ticks());
                Placed::Done
            }
            Sent::Full => {
                self.slots[slot].full = true;
                Placed::Full
            }
            Sent::Failed(raised) => {
                self.finish(index, Status::Failed, Content::Payload(raised), port);
                Placed::Done
            }
        }
    }

    pub(crate) fn extension(&self, slot: usize, extra: u32) -> (Option<TaskExtension>, TaskFlags) {
        let extra = &self.extras[extra];
        let mut flags = Self::batch_flag(extra.batch);
        if extra.parent != NONE && self.tasks[extra.parent].slot == slot_id(slot).0 {
            flags |= TaskFlags::NESTED;
        }
        let deadline_ns = if extra.deadline_ns == u64::MAX { 0 } else { extra.deadline_ns.max(1) };
        // Whatever runs in a context's worker has what that was given.
        let equipment = match extra.claim {
            Some(claim) => claim.equipment(&extra.demand),
            None => self.equipment_of_worker(slot),
        };
        // A worker has one context, and takes what comes first: only peers have to be told.
        let is_here = slot < self.slots.len();
        let is_plain = is_here || (extra.priority == 0 && extra.context == PLAIN);
        if deadline_ns == 0 && is_plain && equipment == Equipment::NONE {
            return (None, TaskFlags(flags));
        }
        let extension = TaskExtension {
            deadline_ns,
            priority: extra.priority,
            context: extra.context,
            equipment,
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

    /// Takes a task out of its slot's list; the caller says what it is next.
    #[inline]
    pub(crate) fn leave_slot(&mut self, index: u32) {
        let task = &mut self.tasks[index];
        debug_assert!(task.state == State::Sent, "only a sent task is in a slot");
        task.state = State::Loose;
        let (slot, cost, extra) = (usize::from(task.slot), task.cost, task.extra);
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
        self.in_flight -= 1;
        self.deep_slots -= u32::from(was_deep && !place.is_deep());
        if place.in_flight.len == 0 {
            place.idle_since = self.now;
            self.contexts.has_vacated |= place.is_leaving;
        }
    }

    /// Whether a slot is for ordinary tasks now.
    #[inline]
    pub(crate) fn is_usable(&self, slot: usize) -> bool {
        self.serves(slot, PLAIN)
    }

    /// Whether a slot is for tasks in a context now: a spare one only as far as others wait.
    #[inline]
    pub(crate) fn serves(&self, slot: usize, context: ContextId) -> bool {
        let workers = usize::from(self.config.workers);
        let is_in_use = slot < workers || slot - workers < self.waiting_slots as usize;
        is_in_use && self.slots[slot].context == context
    }

    /// The slot for the next task in a context, if any has room.
    #[inline]
    pub(crate) fn choose(&self, context: ContextId, port: &impl Port) -> Option<usize> {
        let last = if context == PLAIN { self.current } else { self.contexts.current(context) };
        let current = self.slots.get(last)?;
        let clings = (current.backlog_ns < self.config.cling_ns || self.has_no_core_left())
            && (current.in_flight.len > 0 || !port.is_asleep(slot_id(last)))
            && current.is_open(&self.config)
            && self.serves(last, context);
        if clings { Some(last) } else { self.choose_among_all(context, port) }
    }

    /// The least loaded awake slot; the least loaded sleeping one if every awake one is busy for
    /// longer than a wake-up. Where no core is left a sleeping one is left asleep until whoever submits waits.
    fn choose_among_all(&self, context: ContextId, port: &impl Port) -> Option<usize> {
        let mut awake: Option<(u64, usize)> = None;
        let mut asleep: Option<(u64, usize)> = None;
        for (place, slot) in self.live_slots().iter().enumerate() {
            if !slot.is_open(&self.config) || !self.serves(place, context) {
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

    /// What a wake-up costs. Where workers and whoever submits have every core already, one more takes a core from them:
    /// only a worker that has as much as it may have queued is worth it.
    pub(crate) fn wake_cost_ns(&self) -> u64 {
        if self.has_no_core_left() { self.config.window_ns } else { self.config.wake_cost_ns }
    }

    /// Whether busy workers and whoever submits have every core. Once that one is about to wait nobody holds back: what
    /// runs may wait for something else than a core.
    pub(crate) fn has_no_core_left(&self) -> bool {
        let busy =
            self.live_slots().iter().filter(|slot| slot.in_flight.len > slot.waiting).count();
        let busy = u32::try_from(busy).unwrap_or(u32::MAX);
        !self.is_caller_waiting && busy > 0 && busy >= self.config.cores.saturating_sub(1)
    }

    /// Puts a task that is in no list and needs nothing behind the others.
    pub(crate) fn make_ready(&mut self, index: u32) {
        self.queue_fresh(index, false);
    }

    /// Puts a task that was placed before in front of the others.
    pub(crate) fn make_ready_first(&mut self, index: u32) {
        self.queue_fresh(index, true);
    }

    fn queue_fresh(&mut self, index: u32, is_first: bool) {
        self.has_fresh = true;
        self.contexts.note_news();
        if self.is_demanding(index) {
            return self.queue_demanding(index, is_first);
        }
        let Some(slot) = self.nested_slot(index) else {
            return self.queue_ready(index, is_first);
        };
        self.tasks[index].state = State::Nested;
        self.tasks[index].slot = slot_id(slot).0;
        let nested = &mut self.slots[slot].nested;
        if is_first {
            nested.push_front(&mut self.tasks, index);
        } else {
            nested.push_back(&mut self.tasks, index);
        }
        self.nested_ready += 1;
    }

    /// Puts a ready task into the queue that it belongs to, behind the others or in front.
    fn queue_ready(&mut self, index: u32, is_first: bool) {
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

    /// Sends what is ready as far as there is room, and asks for workers if it is not enough.
    pub(crate) fn pump(&mut self, port: &mut impl Port) {
        self.has_fresh = false;
        self.retire_vacated(port);
        if self.demands.len() > 0 {
            self.pump_demanding(port);
        }
        if self.nested_ready > 0 {
            self.pump_nested(port);
        }
        while !self.ready.is_empty() {
            let Some(slot) = self.choose(PLAIN, port) else { break };
            self.send_first(slot, port);
        }
        if self.contexts.waiting() > 0 {
            self.pump_contexts(port);
        }
        self.pump_peers(port);
        if self.is_deployment_due()
            || self.absent_slots > 0
            || (self.waiting_count() > 0 && self.waiting_slots > 0)
        {
            self.grow(port);
            if !self.refuse_too_deep(port) && self.refuse_starved(port) {
                // One of them may have gathered what others need. No child is left to be refused another time.
                self.pump(port);
            }
        }
    }

    /// Fills one slot up after it has run down.
    #[inline]
    pub(crate) fn refill(&mut self, slot: usize, port: &mut impl Port) {
        let context = self.slots[slot].context;
        if !self.slots[slot].is_low(&self.config) || !self.serves(slot, context) {
            return;
        }
        while self.has_ready_in(context) && self.slots[slot].is_open(&self.config) {
            self.send_first(slot, port);
        }
    }

    /// Whether tasks wait in the queue of a context.
    #[inline]
    pub(crate) fn has_ready_in(&self, context: ContextId) -> bool {
        if context == PLAIN { !self.ready.is_empty() } else { self.contexts.waits(context) }
    }

    /// Sends the first of the tasks that wait for workers with a slot's context.
    #[inline]
    pub(crate) fn send_first(&mut self, slot: usize, port: &mut impl Port) {
        let context = self.slots[slot].context;
        let first = if context == PLAIN {
            self.ready.pop_front(&mut self.tasks)
        } else {
            self.contexts.pop(&mut self.tasks, context)
        };
        let index = first.expect("the queue is not empty");
        self.tasks[index].state = State::Loose;
        if self.send(slot, index, port) == Placed::Full {
            self.queue_ready(index, true);
        }
    }

    pub(crate) fn has_idle_worker(&self, context: ContextId) -> bool {
        let idle = |place: usize| self.slots[place].is_idle() && self.serves(place, context);
        (0..self.live_end).any(|place| idle(place) && self.slots[place].is_open(&self.config))
    }

    /// The valid place of a slot whose process may speak.
    pub(crate) fn live_slot(&self, slot: gristmill_wire::SlotId) -> Option<usize> {
        let place = usize::from(slot.0);
        self.slots.get(place)?.has_process().then_some(place)
    }
}
