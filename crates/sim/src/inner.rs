//! Check of which nested tasks the engine sends to the worker of their waiting parent.
//!
//! Such a child runs on the parent's stack, so if it kills the worker, the parent dies too. The engine may therefore send it
//! there only if its function has ended often enough without killing its worker, or if no other worker will come for it: all
//! spare workers for nested tasks are taken, or none can be started. Plans with contexts are not checked.

use gristmill_core::{Config, Core, SlotState};

use crate::observed::Inner;
use crate::world::SimWorld;

/// Number of calls of a function that must end before others may run in the wait of their parents.
const RUNS_TO_EARN: u64 = 100;

/// Checks the children that the last call of the engine has sent; returns a description of the first fault. The engine's own
/// view of its workers counts, because it learns of a wait only when it reads the record.
pub(crate) fn look(core: &Core, world: &mut SimWorld, config: &Config) -> Option<String> {
    let sent = std::mem::take(&mut world.inner);
    let has_contexts = !world.contexts.are_none();
    if sent.is_empty() || !world.is_alone || has_contexts || core.is_start_paused() {
        return None;
    }
    for Inner { number, slot, kept } in sent {
        let entry = &world.ledger[number];
        let ends = world.ends.get(&entry.function).copied().unwrap_or(0);
        if ends < RUNS_TO_EARN && !all_spares_wait(core, config, kept) {
            return Some(format!(
                "task {number} may run in the wait of its parent on slot {slot}, which dies with it, though its function \
                 has ended only {ends} times and another worker would come for it"
            ));
        }
    }
    None
}

/// Returns whether each of the spare workers that children may have runs a waiting task, is idle, or is kept for others.
fn all_spares_wait(core: &Core, config: &Config, kept: u64) -> bool {
    let slots = core.stats().slots;
    let spares = usize::from(config.spare_max.div_ceil(2));
    let first = usize::from(config.workers);
    let waiting = slots.iter().filter(|slot| slot.waiting > 0).count();
    let is_taken = |place: usize| {
        let is_idle = slots[place].state == SlotState::Ready && slots[place].in_flight == 0;
        slots[place].waiting > 0 || is_idle || kept >> place & 1 == 1
    };
    waiting >= spares && (first..first + spares).all(is_taken)
}
