//! Contexts whose tasks wait for workers of this engine, in the order in which they get one.
//!
//! Contexts with equal needs share a queue, so that a decision looks only at the heads of queues: there are fewer CPU
//! slots than contexts, and if the head of a queue cannot get a worker, no context behind it can.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_wire::{ContextId, ResourceRequest};

use super::{Context, ContextTable};

/// The state of a context whose tasks wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartEligibility {
    /// In the queue of the contexts that may get a worker, by the time when they got the last one.
    Startable { served_at: u64 },
    /// No worker before this time, because starts have failed.
    Paused { until: u64 },
    /// No worker, because the context has failed.
    Failed,
}

/// The contexts with the same needs whose tasks wait.
#[derive(Debug, Default, PartialEq, Eq)]
struct StartQueue {
    startable: BTreeSet<(u64, ContextId)>,
    paused: BTreeSet<ContextId>,
}

impl StartQueue {
    fn is_empty(&self) -> bool {
        self.startable.is_empty() && self.paused.is_empty()
    }
}

/// All contexts whose tasks wait. Kept only in an engine with workers of its own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StartQueues {
    by_needs: BTreeMap<ResourceRequest, StartQueue>,
    pauses: BTreeSet<(u64, ContextId)>,
    /// The time up to which pauses are over.
    resumed_at: u64,
    failed: BTreeSet<ContextId>,
}

impl StartQueues {
    fn change(
        &mut self,
        needs: ResourceRequest,
        context: ContextId,
        place: StartEligibility,
        enters: bool,
    ) {
        let line = self.by_needs.entry(needs).or_default();
        match place {
            StartEligibility::Startable { served_at } if enters => {
                line.startable.insert((served_at, context));
            }
            StartEligibility::Startable { served_at } => {
                line.startable.remove(&(served_at, context));
            }
            StartEligibility::Paused { until } if enters => {
                line.paused.insert(context);
                self.pauses.insert((until, context));
            }
            StartEligibility::Paused { until } => {
                line.paused.remove(&context);
                self.pauses.remove(&(until, context));
            }
            StartEligibility::Failed if enters => {
                self.failed.insert(context);
            }
            StartEligibility::Failed => {
                self.failed.remove(&context);
            }
        }
        if line.is_empty() {
            self.by_needs.remove(&needs);
        }
    }

    /// Returns the first `most` contexts of each queue that may get a worker and for which `is_meant` returns true.
    pub fn heads(
        &self,
        most: usize,
        is_meant: impl Fn(ContextId) -> bool,
    ) -> impl Iterator<Item = ContextId> {
        self.by_needs.values().flat_map(move |line| {
            let startable = line.startable.iter().map(|&(_, context)| context);
            startable.filter(|&context| is_meant(context)).take(most).collect::<Vec<_>>()
        })
    }

    /// Returns the needs of each queue with a context, paused or not, for which `is_meant` returns true.
    pub fn needs(
        &self,
        is_meant: impl Fn(ContextId) -> bool,
    ) -> impl Iterator<Item = &ResourceRequest> {
        self.by_needs.iter().filter_map(move |(needs, line)| {
            let startable = line.startable.iter().map(|(_, context)| context);
            let mut all = startable.chain(&line.paused);
            all.any(|&context| is_meant(context)).then_some(needs)
        })
    }

    /// Returns the contexts whose tasks must be refused.
    pub const fn failed(&self) -> &BTreeSet<ContextId> {
        &self.failed
    }

    /// Returns when the first of the pauses ends that last beyond `now`.
    pub fn next_start(&self, now: u64) -> Option<u64> {
        let later = (now.saturating_add(1), ContextId(0));
        self.pauses.range(later..).next().map(|&(until, _)| until)
    }
}

impl Context {
    fn place(&self, resumed_at: u64) -> Option<StartEligibility> {
        let pause = self.starts.pause_after(resumed_at);
        let place = match (&self.failure, pause) {
            (Some(_), _) => StartEligibility::Failed,
            (None, Some(until)) => StartEligibility::Paused { until },
            (None, None) => StartEligibility::Startable { served_at: self.served_at },
        };
        (!self.queue.is_empty() && self.options.workers_max > 0).then_some(place)
    }
}

impl ContextTable {
    /// Updates the state of a context among those whose tasks wait.
    pub(super) fn keep_place(&mut self, context: ContextId) {
        if self.are_turns_kept {
            return; // An engine without workers has no such queues.
        }
        let Some(one) = self.table.get_mut(&context) else { return };
        let place = one.place(self.lines.resumed_at);
        let before = std::mem::replace(&mut one.place, place);
        if before == place {
            return;
        }
        let needs = one.options.demand;
        if let Some(before) = before {
            self.lines.change(needs, context, before, false);
        }
        if let Some(place) = place {
            self.lines.change(needs, context, place, true);
        }
    }

    /// Moves contexts whose pauses are over back to those that may get a worker.
    pub(super) fn resume(&mut self, now: u64) {
        self.lines.resumed_at = now;
        while let Some(&(until, context)) = self.lines.pauses.first()
            && until <= now
        {
            self.keep_place(context);
        }
    }

    /// Asserts that the queues match the waiting tasks.
    pub(super) fn audit_lines(&self) {
        let mut lines = StartQueues { resumed_at: self.lines.resumed_at, ..StartQueues::default() };
        for (&context, one) in self.table.iter().filter(|_| !self.are_turns_kept) {
            let place = one.place(lines.resumed_at);
            assert_eq!(place, one.place, "the queue position of {context}");
            if let Some(place) = place {
                lines.change(one.options.demand, context, place, true);
            }
        }
        assert_eq!(lines, self.lines, "contexts whose tasks wait for workers");
    }
}
