//! Taking in the results of batches, which are parts of records: of those that are finished, and of one that grows.

use gristmill_shm::Tail;
use gristmill_wire::{Kind, SlotId, TaskId};

use crate::bundle::Bundles;
use crate::lanes::{Lane, Lanes};

impl Lanes {
    /// Takes in about `limit` results of a batch that a worker runs; gives how many, or `None` when one is damaged.
    pub fn take_results(&mut self, slot: SlotId, batch: TaskId, limit: usize) -> Option<usize> {
        let Self { lanes, batches, bundles, arena, mode, .. } = self;
        let Lane { ends, taken, .. } = lanes[usize::from(slot.0)].as_mut()?;
        let collected = batches.get_mut(batch)?;
        let mut adopt =
            |bundles: &mut Bundles, bytes: &[u8]| bundles.receive(arena, slot, bytes).ok();
        let mut count = 0;
        while count < limit
            && let Ok(Some(record)) = ends.results.peek()
            && record.header().kind == Kind::Results
        {
            count += collected.take_in((&record, *taken), bundles, &mut adopt)?.count;
            *taken = 0;
            if ends.results.consume() == Tail::Published && ends.results.writer_waits(*mode) {
                ends.control.peer_bell().wake();
            }
        }
        if self.listeners > 0 {
            self.news.push(batch);
        }
        Some(count)
    }

    /// As [`Self::take_results`], of a record that its worker has not finished.
    pub fn take_growing(&mut self, slot: SlotId, batch: TaskId) -> Option<usize> {
        let Self { lanes, batches, bundles, arena, .. } = self;
        let lane = lanes[usize::from(slot.0)].as_mut().filter(|lane| !lane.is_corrupt);
        let Some(Lane { ends, taken, .. }) = lane else { return Some(0) };
        let written = ends.control.progress().written();
        let Ok(Some(record)) = ends.results.peek_growing(Kind::Results, written) else {
            return Some(0);
        };
        let mut adopt =
            |bundles: &mut Bundles, bytes: &[u8]| bundles.receive(arena, slot, bytes).ok();
        let intake = batches.get_mut(batch)?.take_in((&record, *taken), bundles, &mut adopt)?;
        *taken += intake.size;
        if intake.count > 0 && self.listeners > 0 {
            self.news.push(batch);
        }
        Some(intake.count)
    }
}
