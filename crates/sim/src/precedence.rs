//! Check of priorities: no task begins while a task with a higher priority waits for the same kind of worker.

use std::collections::BTreeMap;

use gristmill_core::{ContextId, Core, TaskId, TaskLocation};

use crate::contexts::PLAIN;
use crate::world::SimWorld;

/// Longest time until a task begins that was let through before, nanoseconds: a few hundred steps.
const STEPS_NS: u64 = 100_000;

/// Tasks that wait for a worker, each with the time since which it waits without a break.
#[derive(Debug, Default)]
pub(crate) struct Precedence(BTreeMap<TaskId, u64>);

impl Precedence {
    /// Checks the calls that began since the last check; returns a description of the first fault.
    pub fn look(&mut self, core: &Core, world: &mut SimWorld) -> Option<String> {
        let mut waiting = Vec::new();
        let before = std::mem::take(&mut self.0);
        for (number, entry) in world.ledger.iter().enumerate() {
            let Some(id) = entry.id.filter(|_| entry.status.is_none()) else { continue };
            let Some(context) = waits_for(core, world, number, id) else { continue };
            let since = before.get(&id).copied().unwrap_or(world.now);
            self.0.insert(id, since);
            waiting.push((context, entry.priority, since, number));
        }
        for begun in std::mem::take(&mut world.begun) {
            let priority = world.ledger[begun.number].priority;
            let is_passed = |&&(context, higher, since, _): &&(ContextId, i32, u64, usize)| {
                context == begun.context && higher > priority && since + STEPS_NS < begun.at
            };
            let Some((_, higher, since, number)) = waiting.iter().find(is_passed) else { continue };
            if !begun.is_inner {
                return Some(format!(
                    "task {} of priority {priority} began at {} while {number} of {higher} waited since {since}",
                    begun.number, begun.at
                ));
            }
        }
        None
    }
}

/// Returns the context whose workers a task waits for, if the task needs nothing else and has not begun.
fn waits_for(core: &Core, world: &SimWorld, number: usize, id: TaskId) -> Option<ContextId> {
    match core.location(id) {
        TaskLocation::Ready { .. } => Some(PLAIN),
        TaskLocation::InContext { context, .. } => Some(context),
        TaskLocation::Sent { slot, .. } => {
            let worker = &world.workers[usize::from(slot.0)];
            let entry = &world.ledger[number];
            let is_in_ring = worker.ring.iter().any(|record| record.task == id);
            let is_alone = entry.demand.is_none() && entry.submitter.is_none();
            (is_in_ring && is_alone && worker.stack.is_empty()).then_some(worker.context)
        }
        _ => None,
    }
}
