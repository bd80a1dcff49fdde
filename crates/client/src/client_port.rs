//! The rings to the workers, and the client's state of each worker.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use gristmill_core::WorkerGrant;
use gristmill_keeper::{Stopped, WorkerKey};
use gristmill_shm::{
    BlockPart, ClientArena, ClientEnds, MappedWords, RingWatch, Segment, SegmentError,
};
use gristmill_sync::barrier::BarrierMode;
use gristmill_sync::clock::{Clock, TickScale};
use gristmill_transport::Sleeper;
use gristmill_wire::{BlockRange, ContextId, Epoch, FunctionId, RecordKind, SlotId, TaskId};

use crate::blobs::{BlobProvider, BlobReceiver, InboundResults};
use crate::bundle::Bundles;
use crate::contexts::ContextRegistry;
use crate::functions::Functions;
use crate::peers::Links;
use crate::results::Batches;

/// A decision of the graph that code outside of it carries out.
#[derive(Debug)]
pub(crate) enum GraphEffect {
    /// Start a process in this slot, with this context.
    Spawn(SlotId, ContextId, WorkerGrant),
    /// Kill the process in this slot and its descendants.
    Kill(SlotId),
    /// End the programs that a stopped task started on the worker in this slot.
    EndStarted(SlotId, Stopped),
    /// Make the worker check whether it has to interrupt its task.
    Interrupt(SlotId),
    /// Ask the worker to leave.
    Retire(SlotId),
    /// The worker has left its rings: the slot is free for another one.
    Left(SlotId),
    /// The processes that have this context set up are not needed any more.
    UnloadContext(ContextId),
    /// This context is not needed any more.
    DropContext(ContextId),
}

/// One worker's rings while it lives.
#[derive(Debug)]
pub(crate) struct WorkerChannel {
    pub ends: ClientEnds,
    pub worker: WorkerKey,
    pub pid: u32,
    pub pidfd: Option<OwnedFd>,
    /// True if the worker has to be interrupted once the keeper reports its start.
    pub is_interrupt_due: bool,
    /// True if the ring was written to since the worker's bell was last rung.
    is_unrung: bool,
    /// True if the worker wrote damaged data: nothing more is read from its ring.
    pub is_corrupt: bool,
    /// True if the worker's initializer has returned.
    pub is_ready: bool,
    /// True if the worker was asked to leave.
    pub is_leaving: bool,
    /// Bytes already taken of the record of results at the front of the ring, which the worker had not finished.
    pub taken: u32,
    /// Blocks with the bodies of records that were too large for the ring, by sequence. The worker copies a block when it reads
    /// its record.
    pub spills: VecDeque<(u64, BlockPart)>,
    /// Blocks that the worker's tasks go on using, each with the number of times that the worker reported it.
    kept: HashMap<u64, (BlockPart, usize)>,
    /// Offsets of released blocks that the worker does not know of yet.
    releases: VecDeque<u64>,
}

/// All rings, and the client's state of each worker.
#[derive(Debug)]
pub(crate) struct ClientPort {
    pub channels: Vec<Option<WorkerChannel>>,
    /// One past the last open slot: slots beyond it need no look.
    end: usize,
    pub functions: Functions,
    pub contexts: ContextRegistry,
    pub arena: ClientArena,
    pub bundles: Bundles,
    pub batches: Batches,
    pub links: Links,
    /// Blobs that tasks name and that go to peers.
    pub provider: BlobProvider,
    /// Results of tasks at peers, on their way to this client.
    pub inbound_results: InboundResults,
    /// Blobs that tasks of peers name; none where there are no such tasks.
    pub receiver: Option<BlobReceiver>,
    /// True if releases of a worker did not fit into its ring.
    has_untold: bool,
    pub mode: BarrierMode,
    pub scale: TickScale,
    /// Effects for the processes outside, in the order in which the graph decided them.
    pub effects: Vec<GraphEffect>,
    /// Final tasks for which there may be listeners.
    pub finished: Vec<(TaskId, u64)>,
    /// Batches with new results that waiting threads may not know of.
    pub unannounced_batches: Vec<TaskId>,
    /// Functions without users, whose estimates the graph has to forget.
    pub freed_functions: Vec<FunctionId>,
    /// Workers and the functions that they need not keep, whose rings had no room for that message.
    pub unforgotten: Vec<(SlotId, FunctionId)>,
    /// Names of the functions of tasks that did not succeed.
    pub names: Vec<(TaskId, Box<str>)>,
    /// Number of listeners: without any, successful tasks are not noted.
    pub listeners: usize,
    unrung: Vec<SlotId>,
    clock: Clock,
    /// Time until which workers may begin tasks, clock ticks; `u64::MAX` means for ever.
    valid_until: u64,
}

/// The time until which workers may begin tasks is extended only if it grows by more than 1/16 of the time that is left: each
/// extension writes to the control page of every worker.
const EXTENSION_SHARE: u64 = 16;

/// Returns the handle of a task: its low half is the function's id, its high half the ticket of a nested task plus 1, or 0.
pub(crate) const fn handle(function: FunctionId, ticket: u32) -> u64 {
    function.0 as u64 | ((ticket as u64) << 32)
}

/// Returns the function and the ticket in a handle.
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
pub(crate) const fn split_handle(handle: u64) -> (FunctionId, u32) {
    (FunctionId(handle as u32), (handle >> 32) as u32)
}

impl ClientPort {
    pub fn new(
        slot_count: usize,
        (mode, scale): (BarrierMode, TickScale),
        arena: ClientArena,
        links: Links,
    ) -> Self {
        Self {
            channels: (0..slot_count).map(|_| None).collect(),
            end: 0,
            functions: Functions::default(),
            contexts: ContextRegistry::default(),
            bundles: Bundles::within(arena.clone()),
            arena,
            batches: Batches::default(),
            links,
            provider: BlobProvider::default(),
            inbound_results: InboundResults::default(),
            receiver: None,
            has_untold: false,
            mode,
            scale,
            effects: Vec::new(),
            finished: Vec::new(),
            names: Vec::new(),
            unannounced_batches: Vec::new(),
            freed_functions: Vec::new(),
            unforgotten: Vec::new(),
            listeners: 0,
            unrung: Vec::new(),
            clock: Clock::new(scale),
            valid_until: u64::MAX,
        }
    }

    /// Returns true if no decision of the graph waits to be carried out.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.finished.is_empty()
            && self.effects.is_empty()
            && self.freed_functions.is_empty()
            && self.names.is_empty()
            && self.unannounced_batches.is_empty()
    }

    /// Reads the clock for all that follows, and returns nanoseconds.
    #[inline]
    pub fn read_clock(&mut self) -> u64 {
        self.clock.read()
    }

    /// Returns the last reading of the clock, nanoseconds.
    #[inline]
    pub const fn now(&self) -> u64 {
        self.clock.ns()
    }

    /// Lets all workers begin tasks until `until_ns`, monotonic nanoseconds, and no later.
    pub fn extend_workers(&mut self, until_ns: u64) {
        let left = self.scale.from_ns(until_ns.saturating_sub(self.now()));
        let until = self.now_ticks().saturating_add(left);
        let is_first = self.valid_until == u64::MAX && until != u64::MAX;
        if is_first || until > self.valid_until.saturating_add(left / EXTENSION_SHARE) {
            self.valid_until = until;
            for channel in self.channels.iter().flatten() {
                channel.ends.control.set_valid_until(until);
            }
        }
    }

    /// Opens the rings of a new worker in a slot.
    ///
    /// # Errors
    /// There is no such slot.
    pub fn open(&mut self, segment: &Segment, worker: WorkerKey) -> Result<(), SegmentError> {
        self.functions.forget_slot(worker.slot);
        self.unforgotten.retain(|&(slot, _)| slot != worker.slot);
        let ends = segment.client_ends(worker.slot)?;
        ends.control.set_valid_until(self.valid_until);
        self.channels[usize::from(worker.slot.0)] = Some(WorkerChannel {
            ends,
            worker,
            pid: 0,
            pidfd: None,
            is_interrupt_due: false,
            is_unrung: false,
            is_corrupt: false,
            is_ready: false,
            is_leaving: false,
            taken: 0,
            spills: VecDeque::new(),
            kept: HashMap::new(),
            releases: VecDeque::new(),
        });
        self.end = self.end.max(usize::from(worker.slot.0) + 1);
        Ok(())
    }

    /// Closes the rings of a slot whose worker is gone.
    pub fn close(&mut self, slot: SlotId) {
        self.channels[usize::from(slot.0)] = None;
        while self.end > 0 && self.channels[self.end - 1].is_none() {
            self.end -= 1;
        }
    }

    /// Returns a range of slots that contains all open ones.
    pub fn slots(&self) -> impl Iterator<Item = SlotId> + use<> {
        (0..self.end).map(|slot| SlotId(u16::try_from(slot).unwrap_or(u16::MAX)))
    }

    /// Returns true if a worker has written a record that was not read.
    #[inline]
    pub fn has_arrived(&self, slot: SlotId) -> bool {
        let channel = self.channels[usize::from(slot.0)].as_ref();
        channel.is_some_and(|channel| channel.ends.results.has_record() && !channel.is_corrupt)
    }

    /// Returns true if a worker runs or polls.
    pub fn is_awake(&self, slot: SlotId) -> bool {
        let channel = self.channels[usize::from(slot.0)].as_ref();
        channel.is_some_and(|channel| !channel.ends.control.peer_bell().is_asleep())
    }

    /// Returns the last reading of the clock, ticks.
    #[inline]
    pub const fn now_ticks(&self) -> u64 {
        self.clock.ticks()
    }

    pub fn channel(&mut self, slot: SlotId) -> Option<&mut WorkerChannel> {
        self.channels.get_mut(usize::from(slot.0))?.as_mut()
    }

    /// Returns the channel of a worker, unless its slot has another worker by now.
    pub fn channel_of(&mut self, worker: WorkerKey) -> Option<&mut WorkerChannel> {
        self.channel(worker.slot).filter(|channel| channel.worker == worker)
    }

    /// Wakes the workers that sleep and were written to. Required before control returns to a caller.
    #[inline]
    pub fn ring_bells(&mut self) {
        while let Some(slot) = self.unrung.pop() {
            if let Some(channel) = &mut self.channels[usize::from(slot.0)] {
                channel.is_unrung = false;
                channel.ends.control.peer_bell().ring(self.mode);
            }
        }
    }

    /// Returns a watch of every result ring, from its read position on, for a poller and a sleeper.
    pub fn watch(&self) -> ResultWatch {
        let watch = |channel: &WorkerChannel| channel.ends.results.watch();
        let channels = self.channels[..self.end].iter().flatten();
        let rings = channels.filter(|channel| !channel.is_corrupt).map(watch).collect();
        ResultWatch { rings, sleeper: self.links.sleeper().cloned() }
    }

    /// Returns true if there are released blocks that a worker does not know of.
    #[inline]
    pub fn has_releases(&self) -> bool {
        self.has_untold || self.arena.has_releases()
    }

    /// Tells workers which of their blocks are free, while their rings have room. Wakes no worker for it.
    #[cold]
    pub fn tell_releases(&mut self) {
        for (slot, offset) in self.arena.take_releases() {
            if let Some(channel) = &mut self.channels[usize::from(slot.0)] {
                channel.releases.push_back(offset);
            }
        }
        self.has_untold = false;
        for channel in self.channels[..self.end].iter_mut().flatten() {
            while !channel.releases.is_empty() {
                let count = channel.releases.len().min(RELEASES_MAX);
                let Ok(mut record) =
                    channel.ends.tasks.begin(RecordKind::Release, 0, (count + 1) * 8)
                else {
                    self.has_untold = true;
                    break;
                };
                record.word(0, count as u64);
                for (place, offset) in (1..).zip(channel.releases.drain(..count)) {
                    record.word(place, offset);
                }
                record.commit();
            }
        }
    }

    /// Notes that the worker has answered a record, and so has read all records before it: drops their blocks.
    #[inline]
    pub fn note_read(&mut self, slot: SlotId, sequence: u32) {
        if let Some(channel) = &mut self.channels[usize::from(slot.0)] {
            while let Some(&(written, _)) = channel.spills.front() {
                #[expect(clippy::cast_possible_truncation, reason = "the low halves are compared")]
                let ahead = (written as u32).wrapping_sub(sequence);
                if ahead != 0 && ahead < u32::MAX / 2 {
                    break;
                }
                channel.spills.pop_front();
            }
        }
    }

    /// Records that the worker goes on using blocks of a task. Returns false if the worker has no right to one.
    pub fn keep(&mut self, slot: SlotId, offsets: &[u64]) -> bool {
        let Some(channel) = &mut self.channels[usize::from(slot.0)] else { return false };
        for &offset in offsets {
            if let Some((_, count)) = channel.kept.get_mut(&offset) {
                *count += 1;
                continue;
            }
            let Ok(part) = self.arena.adopt(slot, BlockRange { offset, size: 1 }) else {
                return false;
            };
            channel.kept.insert(offset, (part, 1));
        }
        true
    }

    /// Returns true if the worker goes on using no block.
    pub fn keeps_nothing(&self, slot: SlotId) -> bool {
        self.channels[usize::from(slot.0)].as_ref().is_some_and(|channel| channel.kept.is_empty())
    }

    /// Records that the worker has finished with kept blocks.
    pub fn unkeep(&mut self, slot: SlotId, offsets: &[u64]) {
        let Some(channel) = &mut self.channels[usize::from(slot.0)] else { return };
        for offset in offsets {
            if let Some((_, count)) = channel.kept.get_mut(offset) {
                *count -= 1;
                if *count == 0 {
                    channel.kept.remove(offset);
                }
            }
        }
    }

    /// Writes a control record. Returns false if the ring is full or the worker is gone.
    pub fn write_control(
        &mut self,
        slot: SlotId,
        kind: RecordKind,
        words: &[u64],
        bytes: &[u8],
    ) -> bool {
        let Some(channel) = &mut self.channels[usize::from(slot.0)] else { return false };
        let Ok(mut record) = channel.ends.tasks.begin(kind, 0, words.len() * 8 + bytes.len())
        else {
            return false;
        };
        record.words(0, words);
        record.bytes(u32::try_from(words.len() * 8).unwrap_or(u32::MAX), bytes);
        record.commit();
        self.touch(slot);
        true
    }

    /// Returns the free bytes of a worker's task ring, and the size of the largest record body that the ring takes.
    pub fn task_room(&mut self, slot: SlotId) -> (u32, u32) {
        let Some(channel) = self.channel(slot) else { return (0, 0) };
        (channel.ends.tasks.free_bytes(), channel.ends.tasks.max_body())
    }

    #[inline]
    pub fn touch(&mut self, slot: SlotId) {
        if let Some(channel) = &mut self.channels[usize::from(slot.0)]
            && !channel.is_unrung
        {
            channel.is_unrung = true;
            self.unrung.push(slot);
        }
    }
}

/// The places at which the next answers will appear.
#[derive(Debug)]
pub(crate) struct ResultWatch {
    rings: Vec<RingWatch<MappedWords>>,
    /// Sleeper on the links, for a leader that completes tasks of other nodes.
    sleeper: Option<Arc<Sleeper>>,
}

impl ResultWatch {
    /// Returns true if a worker has written a record; takes a load or two per ring.
    #[inline]
    pub fn has_record(&self) -> bool {
        self.rings.iter().any(RingWatch::has_record)
    }

    /// Returns true if a worker has written a record or a link is ready.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        self.has_record() || self.sleeper.as_ref().is_some_and(|sleeper| sleeper.is_ready())
    }
}

/// Offsets in one release record.
const RELEASES_MAX: usize = 512;

/// Returns the epoch after this one.
pub(crate) const fn next_epoch(epoch: Epoch) -> Epoch {
    Epoch(epoch.0.wrapping_add(1))
}
