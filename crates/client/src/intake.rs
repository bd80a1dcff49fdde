//! Intake of the results of batches, which are parts of records: of finished records, and of one that grows.

use gristmill_shm::Tail;
use gristmill_wire::{RecordKind, SlotId, TaskId};

use crate::bundle::Bundles;
use crate::client_port::{ClientPort, WorkerChannel};

impl ClientPort {
    /// Takes in about `limit` results of a batch that a worker runs. Returns their number, or `None` if one is damaged.
    pub fn take_results(&mut self, slot: SlotId, batch: TaskId, limit: usize) -> Option<usize> {
        let Self { channels, batches, bundles, arena, mode, .. } = self;
        let WorkerChannel { ends, taken, .. } = channels[usize::from(slot.0)].as_mut()?;
        let collected = batches.get_mut(batch)?;
        let mut adopt =
            |bundles: &mut Bundles, bytes: &[u8]| bundles.receive(arena, slot, bytes).ok();
        let mut count = 0;
        while count < limit
            && let Ok(Some(record)) = ends.results.peek()
            && record.header().kind == RecordKind::Results
        {
            count += collected.take_in((&record, *taken), bundles, &mut adopt)?.count;
            *taken = 0;
            if ends.results.consume() == Tail::Published && ends.results.writer_waits(*mode) {
                ends.control.peer_bell().wake();
            }
        }
        if self.listeners > 0 {
            self.unannounced_batches.push(batch);
        }
        Some(count)
    }

    /// Takes in the results of a record that its worker has not finished. Returns as [`Self::take_results`].
    pub fn take_growing(&mut self, slot: SlotId, batch: TaskId) -> Option<usize> {
        let Self { channels, batches, bundles, arena, .. } = self;
        let channel = channels[usize::from(slot.0)].as_mut().filter(|channel| !channel.is_corrupt);
        let Some(WorkerChannel { ends, taken, .. }) = channel else { return Some(0) };
        let written = ends.control.progress().written();
        let Ok(Some(record)) = ends.results.peek_growing(RecordKind::Results, written) else {
            return Some(0);
        };
        let mut adopt =
            |bundles: &mut Bundles, bytes: &[u8]| bundles.receive(arena, slot, bytes).ok();
        let intake = batches.get_mut(batch)?.take_in((&record, *taken), bundles, &mut adopt)?;
        *taken += intake.size;
        if intake.count > 0 && self.listeners > 0 {
            self.unannounced_batches.push(batch);
        }
        Some(intake.count)
    }
}
