//! Recall of records, and the next placement of tasks that come back.

use crate::machine::{Phase, slot_id};
use crate::outcome::TaskContent;
use crate::port::{Port, TakeBackResult};
use crate::task::{State, flag};
use crate::{Attempt, Core, NONE, Status};

impl Core {
    /// Tries to take back tasks that are in flight in `slot`, given in ring order. Returns those taken, in order; they
    /// are in no list. The others are marked and stay. Of a batch that is claimed already, the calls behind the running
    /// one are taken.
    pub(crate) fn recall(&mut self, slot: usize, wanted: &[u32], port: &mut impl Port) -> Vec<u32> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let place = &self.slots[slot];
        self.sequences.clear();
        self.sequences
            .extend(wanted.iter().map(|&index| place.sequence(self.tasks[index].sequence)));
        let mut verdicts = std::mem::take(&mut self.taken);
        verdicts.clear();
        port.take_back(slot_id(slot), &self.sequences, &mut verdicts);
        assert!(verdicts.len() == wanted.len(), "one verdict per record");
        let mut taken = Vec::new();
        for (&index, verdict) in wanted.iter().zip(&verdicts) {
            match verdict {
                TakeBackResult::Taken => {
                    self.leave_slot(index);
                    self.slots[slot].sent -= 1;
                    taken.push(index);
                }
                TakeBackResult::Undecided => {
                    self.tasks[index].flags |= flag::RECALLED;
                    taken.append(&mut self.stop_batch(slot, index, port));
                }
            }
        }
        self.taken = verdicts;
        taken
    }

    /// Returns the tasks in flight in `slot` that its worker has not claimed and that were not recalled, in ring order.
    pub(crate) fn unclaimed(&self, slot: usize, port: &impl Port) -> Vec<u32> {
        let claimed = port.progress(slot_id(slot)).claimed;
        let place = &self.slots[slot];
        let mut unclaimed = Vec::new();
        let mut index = place.in_flight.tail;
        while index != NONE {
            let task = &self.tasks[index];
            if place.sequence(task.sequence) < claimed {
                break;
            }
            if !task.has(flag::RECALLED) {
                unclaimed.push(index);
            }
            index = task.previous;
        }
        unclaimed.reverse();
        unclaimed
    }

    /// Puts unstarted tasks that are in no list back to the front of their queues, in order.
    pub(crate) fn return_all(&mut self, tasks: &[u32], port: &mut impl Port) {
        for &index in tasks.iter().rev() {
            let _is_requeued = self.return_unstarted(index, port);
        }
    }

    /// Puts an unstarted task that is in no list back to the front of its queue, or ends it if it was cancelled
    /// meanwhile. Returns whether it will be placed again.
    pub(crate) fn return_unstarted(&mut self, index: u32, port: &mut impl Port) -> bool {
        let cancels = matches!(self.phase, Phase::Closing { cancels: true });
        if cancels || self.tasks[index].has(flag::CANCELLED) {
            self.finish(index, Status::Cancelled, TaskContent::Empty, port);
            return false;
        }
        self.begin_attempt(index);
        self.make_ready_first(index);
        true
    }

    /// Prepares a task that is in no list for another placement. Requests to the last attempt are void.
    pub(crate) fn begin_attempt(&mut self, index: u32) {
        let task = &mut self.tasks[index];
        debug_assert!(task.state == State::Loose, "a placement is over before the next begins");
        task.attempt = Attempt(task.attempt.0.wrapping_add(1));
        task.flags &= !flag::OF_ATTEMPT;
        let extra = task.extra;
        if extra != NONE {
            self.mend_batch(index);
            self.orphan_children(extra);
            self.extras[extra].check_at = u64::MAX;
            self.extras[extra].started_at = 0;
            self.arm(index);
        }
    }
}
