//! Check of priorities across nodes: shortly after a task was sent, nothing of a lower priority begins on any node until this
//! task has begun.

use gristmill_client::LinkSizes;
use gristmill_core::{Status, TaskId, TaskLocation};
use gristmill_wire::ResourceRequest;

use super::engine::Engine;
use super::handle::Handle;
use super::network::Weather;
use super::plan::ClusterPlan;
use super::run::SimCluster;
use super::sim_port::runnable_beside;
use super::waiting::Waiting;
use crate::contexts::PLAIN;
use crate::random::{SeededRandom, pick};
use crate::world::ProgramTask;

/// Longest time until an arrived message is processed or a claimed task begins, nanoseconds: a few hundred steps.
const STEPS_NS: u64 = 200_000;

impl ClusterPlan {
    /// Makes the plan strict about priorities, if the seed says so: tasks of all priorities take longer than a one-way delay,
    /// and no faults disturb them.
    pub fn with_priorities(mut self, random: &mut SeededRandom) -> Self {
        if random.chance(75) {
            return self;
        }
        self.has_strict_priorities = true;
        (self.faults, self.extends, self.blobs) = (0, 0, None);
        self.request.duration_ns = u64::MAX;
        self.sizes = LinkSizes::default();
        let (delay_ns, jitter_ns) = pick(random, &[(10_000, 0), (100_000, 50_000)]);
        self.weather = Weather { delay_ns, jitter_ns, window_size: 1 << 20 };
        let long = (pick(random, &[50, 90]), pick(random, &[1_000_000, 3_000_000]));
        let nests = random.chance(50);
        for plan in [&mut self.base, &mut self.lease] {
            // A worker that dies takes its unstarted tasks with it, and CPU slots are not gathered while tasks wait in them.
            (plan.kills, plan.keeper, plan.exits, plan.start_failures) = (0, 0, 0, 0);
            (plan.options, plan.long) = (90, long);
            plan.nested = if nests { plan.nested } else { 0 };
            plan.demands = if nests { 0 } else { plan.demands };
        }
        self
    }

    /// Returns the time until nothing below a task begins that was sent `sent` times: one one-way delay, and a round trip more
    /// if the task went to a vacant worker that had got other work by then.
    fn way_ns(&self, sent: usize) -> u64 {
        let ways = if sent > 1 { 3 } else { 1 };
        ways * (self.weather.delay_ns + self.weather.jitter_ns) + STEPS_NS
    }
}

impl SimCluster {
    /// Asserts that priorities hold for the tasks that began in the last step.
    pub(super) fn check_precedence(&mut self) {
        let begun = std::mem::take(&mut self.shared.borrow_mut().begun);
        if !self.plan.has_strict_priorities {
            return;
        }
        let shared = self.shared.borrow();
        let before = std::mem::take(&mut self.precedence.waiting);
        let ledger = &shared.ledger;
        let waiting = ledger.iter().enumerate().filter(|(_, entry)| waits(ledger, entry));
        for (number, entry) in waiting {
            let sent = entry.placements.len();
            let known = before.get(&number).filter(|before| before.sent == sent).copied();
            let waiting = known.unwrap_or_else(|| {
                let beside = entry.placements.last().map_or(0, |last| match entry.parents[..] {
                    [] => last.beside,
                    // It was sent while its parents ran.
                    _ => 1 + runnable_beside(ledger, number, (last.by, last.link)),
                });
                Waiting { sent, since: shared.now, beside }
            });
            self.precedence.waiting.insert(number, waiting);
        }
        self.precedence.note_demanding(ledger, shared.now);
        drop(shared);
        for begun in begun {
            // A client does not know of tasks that run where they were submitted.
            let is_clients = self.shared.borrow().ledger[begun.number].is_clients();
            if !begun.is_inner && is_clients {
                self.check_begun(begun.number);
            }
        }
    }

    /// Asserts that no waiting task has a higher priority than one that has just begun.
    fn check_begun(&self, begun: usize) {
        let now = self.now();
        let priority = |number: usize| self.shared.borrow().ledger[number].priority;
        let context = |number: usize| self.shared.borrow().ledger[number].context;
        let could_be_passed = |&(&number, waiting): &(&usize, &Waiting)| {
            let is_above = priority(number) > priority(begun);
            let last = now.saturating_sub(self.plan.way_ns(waiting.sent));
            is_above && context(number) == context(begun) && waiting.since < last
        };
        for (&number, waiting) in self.precedence.waiting.iter().filter(could_be_passed) {
            let Waiting { sent, since, beside } = waiting;
            let last = now.saturating_sub(self.plan.way_ns(*sent));
            assert!(
                !self.is_held_up(number, *beside) || !self.could_begin_instead(number, begun, last),
                "task {begun} of priority {} began while task {number} of {} waited since {}, sent {sent} times",
                priority(begun),
                priority(number),
                since / 1_000
            );
        }
    }

    /// Returns whether a task waits for a worker: at the client, or in the queue of a node that had no worker for it when it
    /// was sent there.
    fn is_held_up(&self, number: usize, beside: usize) -> bool {
        let shared = self.shared.borrow();
        let entry = &shared.ledger[number];
        let (id, context) = (entry.id.expect("it was accepted"), entry.context);
        let last = entry.placements.last().cloned();
        drop(shared);
        if context != PLAIN && self.plan.base.config.workers > 0 {
            // A client with workers of its own sends tasks of a context to other nodes only to follow their parents.
            return false;
        }
        let Some(last) = last else {
            return self.client.handle.with(|engine| waits_for_worker(engine, id));
        };
        let of_engine = |handle: &Handle| {
            let is_there = last.link.is_some_and(|link| handle.lines().contains(&link));
            let is_late = is_there && beside > handle.workers;
            is_late && handle.with(|engine| queues(engine, id))
        };
        // A task that a node has returned has crossed the tasks that were sent there meanwhile.
        let engines = self.nodes.iter().flat_map(|node| node.engines.borrow().clone());
        engines.into_iter().any(|handle| of_engine(&handle))
    }
}

impl SimCluster {
    /// Returns whether, to the knowledge of its client, a task could have had the resources that it needs since `since` where
    /// the task `begun` has begun.
    fn could_begin_instead(&self, number: usize, begun: usize, since: u64) -> bool {
        let last = self.shared.borrow().ledger[begun].placements.last().cloned();
        let link = last.and_then(|last| last.link);
        let has_link = |handle: &Handle| link.is_some_and(|link| handle.lines().contains(&link));
        let node = self.nodes.iter().position(|node| node.engines.borrow().iter().any(has_link));
        let shared = self.shared.borrow();
        let (ledger, wanted) = (&shared.ledger, &shared.ledger[number]);
        let Some(demand) = wanted.demand_there() else { return true };
        let (Some(link), Some(node)) = (link, node) else { return false };
        let capacity = self.plan.nodes[node];
        let own = wanted.placements.last().and_then(|last| last.link);
        if own.is_none_or(|own| own == link) || demand.places() > 1 || demand.gpus > 0 {
            // All nodes that could run it have other tasks of at least its priority; or its node holds it and orders its own
            // queue; or contexts and shares of GPUs there may leave it no room.
            return false;
        }
        let (there, changed) = self.precedence.demanding.get(&link).cloned().unwrap_or_default();
        let sum = |of: fn(&ResourceRequest) -> u64, above: bool| -> u64 {
            let others = there.iter().map(|&one| &ledger[one]);
            let counted = others.filter(|one| !above || one.priority >= wanted.priority);
            counted.map(|one| of(&one.demand)).sum::<u64>() + of(&demand)
        };
        changed < since
            && sum(|one| one.places().into(), true) <= u64::from(capacity.workers)
            && sum(|one| one.memory, false) <= capacity.memory
    }
}

/// Returns whether a task waits in an engine for a worker.
fn waits_for_worker(engine: &Engine, id: TaskId) -> bool {
    matches!(
        engine.core.location(id),
        TaskLocation::Ready { .. }
            | TaskLocation::InContext { .. }
            | TaskLocation::Demanding { .. }
    )
}

/// Returns whether a client's task waits in the engine of a lease for a worker.
fn queues(engine: &Engine, theirs: TaskId) -> bool {
    let is_it = |&id: &TaskId| {
        let task = engine.core.task(id);
        let named = task.and_then(|task| engine.inbound.named(task.handle));
        named.is_some_and(|(_, named, _)| named == theirs)
    };
    let found = engine.core.outstanding(None).into_iter().find(is_it);
    found.is_some_and(|id| waits_for_worker(engine, id))
}

/// Returns whether a task of the program has not begun and could begin in any worker.
fn waits(ledger: &[ProgramTask], entry: &ProgramTask) -> bool {
    let has_ended = |&parent: &usize| ledger[parent].status == Some(Status::Succeeded);
    let has_begun = entry.placements.last().is_some_and(|last| last.starts > 0);
    entry.id.is_some()
        && entry.is_clients()
        && entry.depth == 0
        && entry.status.is_none()
        && !entry.may_cancel
        && !entry.is_unsendable
        && !has_begun
        && entry.parents.iter().all(has_ended)
}
