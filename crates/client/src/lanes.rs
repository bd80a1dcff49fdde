//! The rings to the workers, and what is known of the workers behind them.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use gristmill_core::{Outfit, Status};
use gristmill_keeper::WorkerKey;
use gristmill_shm::{
    BlockPart, ClientArena, ClientLane, MappedWords, RingWatch, Segment, SegmentError,
};
use gristmill_sync::barrier::BarrierMode;
use gristmill_sync::clock::{Clock, TickScale};
use gristmill_transport::Sleeper;
use gristmill_wire::{BlockRange, ContextId, Epoch, FunctionId, Kind, SlotId, TaskId};

use crate::blobs::{Giving, Homing, Taking};
use crate::bundle::Bundles;
use crate::contexts::Contexts;
use crate::functions::Functions;
use crate::peers::Links;
use crate::results::Batches;

/// What the graph decided that somebody outside of it has to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// Start a process in this slot, with this context.
    Spawn(SlotId, ContextId, Outfit),
    /// Kill the process in this slot, and its descent.
    Kill(SlotId),
    /// Make the worker look whether it is to be interrupted.
    Interrupt(SlotId),
    /// Ask the worker to leave.
    Retire(SlotId),
    /// What was set up for this context need not be kept.
    UnloadContext(ContextId),
    /// Nobody needs this context any more.
    DropContext(ContextId),
}

/// One worker's rings while it lives.
#[derive(Debug)]
pub(crate) struct Lane {
    pub ends: ClientLane,
    pub worker: WorkerKey,
    pub pid: u32,
    pub pidfd: Option<OwnedFd>,
    /// It was to be interrupted before the news of its birth had come.
    pub is_interrupt_due: bool,
    /// Written to since its bell was rung last.
    is_unrung: bool,
    /// What it wrote was damaged: nothing more is read.
    pub is_corrupt: bool,
    /// Its initializer has returned.
    pub is_ready: bool,
    /// Bytes that were taken of the results in the record at hand, which its worker had not finished.
    pub taken: u32,
    /// Blocks of its ring's records that were too large, by sequence: the worker copies them out when it reads those.
    pub spills: VecDeque<(u64, BlockPart)>,
    /// Blocks that its tasks go on using, each with how often it was said.
    kept: HashMap<u64, (BlockPart, usize)>,
    /// Blocks that it is still to be told of.
    releases: VecDeque<u64>,
}

/// All rings, and what is known of the workers behind them.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub lanes: Vec<Option<Lane>>,
    /// One past the last open one: what is beyond need not be looked at.
    end: usize,
    pub functions: Functions,
    pub contexts: Contexts,
    pub arena: ClientArena,
    pub bundles: Bundles,
    pub batches: Batches,
    pub links: Links,
    /// Blobs that tasks name which go to peers.
    pub giving: Giving,
    /// Results of tasks at peers, on their way here.
    pub homing: Homing,
    /// Blobs that tasks of peers name; none where there are no such tasks.
    pub taking: Option<Taking>,
    /// Some lane has releases that did not fit into its ring.
    has_untold: bool,
    pub mode: BarrierMode,
    pub scale: TickScale,
    /// For the processes outside, in the order decided.
    pub orders: Vec<Order>,
    /// Final tasks that somebody may want to hear of.
    pub finished: Vec<(TaskId, u64, Status)>,
    /// Batches of which something can be taken that waiting threads may not know of.
    pub news: Vec<TaskId>,
    /// Functions without users, whose estimates the graph is to forget.
    pub freed_functions: Vec<FunctionId>,
    /// What the functions of tasks are called that ended badly.
    pub names: Vec<(TaskId, Box<str>)>,
    /// How many listeners there are: without any, successful tasks are not noted.
    pub listeners: usize,
    unrung: Vec<SlotId>,
    clock: Clock,
    /// Until when workers may begin tasks, clock ticks; `u64::MAX` is for ever.
    valid_until: u64,
}

/// What is left of the time for which workers may begin tasks is extended only if that gains this part of it: each time
/// every worker's orders are written.
const EXTENSION_SHARE: u64 = 16;

/// The function's id is the low half of a task's handle; the high half is the ticket of a nested one plus 1, or 0.
pub(crate) const fn handle(function: FunctionId, ticket: u32) -> u64 {
    function.0 as u64 | ((ticket as u64) << 32)
}

/// The function and the ticket in a handle.
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
pub(crate) const fn split_handle(handle: u64) -> (FunctionId, u32) {
    (FunctionId(handle as u32), (handle >> 32) as u32)
}

impl Lanes {
    pub fn new(
        slot_count: usize,
        (mode, scale): (BarrierMode, TickScale),
        arena: ClientArena,
        links: Links,
    ) -> Self {
        Self {
            lanes: (0..slot_count).map(|_| None).collect(),
            end: 0,
            functions: Functions::default(),
            contexts: Contexts::default(),
            arena,
            bundles: Bundles::default(),
            batches: Batches::default(),
            links,
            giving: Giving::default(),
            homing: Homing::default(),
            taking: None,
            has_untold: false,
            mode,
            scale,
            orders: Vec::new(),
            finished: Vec::new(),
            names: Vec::new(),
            news: Vec::new(),
            freed_functions: Vec::new(),
            listeners: 0,
            unrung: Vec::new(),
            clock: Clock::new(scale),
            valid_until: u64::MAX,
        }
    }

    /// Whether the graph decided nothing that waits to be done.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.finished.is_empty()
            && self.orders.is_empty()
            && self.freed_functions.is_empty()
            && self.names.is_empty()
            && self.news.is_empty()
    }

    /// Reads the clock once for all that follows; gives nanoseconds.
    #[inline]
    pub fn read_clock(&mut self) -> u64 {
        self.clock.read()
    }

    /// The clock as it was read last, nanoseconds.
    #[inline]
    pub const fn now(&self) -> u64 {
        self.clock.ns()
    }

    /// Lets all workers begin tasks until then, monotonic nanoseconds, and not after it.
    pub fn extend_workers(&mut self, until_ns: u64) {
        let left = self.scale.from_ns(until_ns.saturating_sub(self.now()));
        let until = self.now_ticks().saturating_add(left);
        let is_first = self.valid_until == u64::MAX && until != u64::MAX;
        if is_first || until > self.valid_until.saturating_add(left / EXTENSION_SHARE) {
            self.valid_until = until;
            for lane in self.lanes.iter().flatten() {
                lane.ends.control.set_valid_until(until);
            }
        }
    }

    /// A new worker sits in a slot.
    ///
    /// # Errors
    /// No such slot.
    pub fn open(&mut self, segment: &Segment, worker: WorkerKey) -> Result<(), SegmentError> {
        self.functions.forget_slot(worker.slot);
        let ends = segment.client_lane(worker.slot)?;
        ends.control.set_valid_until(self.valid_until);
        self.lanes[usize::from(worker.slot.0)] = Some(Lane {
            ends,
            worker,
            pid: 0,
            pidfd: None,
            is_interrupt_due: false,
            is_unrung: false,
            is_corrupt: false,
            is_ready: false,
            taken: 0,
            spills: VecDeque::new(),
            kept: HashMap::new(),
            releases: VecDeque::new(),
        });
        self.end = self.end.max(usize::from(worker.slot.0) + 1);
        Ok(())
    }

    /// Nobody sits in a slot any more.
    pub fn close(&mut self, slot: SlotId) {
        self.lanes[usize::from(slot.0)] = None;
        while self.end > 0 && self.lanes[self.end - 1].is_none() {
            self.end -= 1;
        }
    }

    /// The slots among which all open ones are.
    pub fn slots(&self) -> impl Iterator<Item = SlotId> + use<> {
        (0..self.end).map(|slot| SlotId(u16::try_from(slot).unwrap_or(u16::MAX)))
    }

    /// Whether a worker has written something that was not read.
    #[inline]
    pub fn has_arrived(&self, slot: SlotId) -> bool {
        let lane = self.lanes[usize::from(slot.0)].as_ref();
        lane.is_some_and(|lane| lane.ends.results.has_record() && !lane.is_corrupt)
    }

    /// The clock as it was read last, ticks.
    #[inline]
    pub const fn now_ticks(&self) -> u64 {
        self.clock.ticks()
    }

    pub fn lane(&mut self, slot: SlotId) -> Option<&mut Lane> {
        self.lanes.get_mut(usize::from(slot.0))?.as_mut()
    }

    /// Wakes the workers that were written to and sleep. Due before control goes back to a caller.
    #[inline]
    pub fn ring_bells(&mut self) {
        while let Some(slot) = self.unrung.pop() {
            if let Some(lane) = &mut self.lanes[usize::from(slot.0)] {
                lane.is_unrung = false;
                lane.ends.control.peer_bell().ring(self.mode);
            }
        }
    }

    /// What a poller and a sleeper look at: every result ring, from where it was read.
    pub fn watch(&self) -> Watch {
        let watch = |lane: &Lane| lane.ends.results.watch();
        let lanes = self.lanes[..self.end].iter().flatten();
        let rings = lanes.filter(|lane| !lane.is_corrupt).map(watch).collect();
        Watch { rings, sleeper: self.links.sleeper().cloned() }
    }

    /// Whether a worker is to be told of blocks.
    #[inline]
    pub fn has_releases(&self) -> bool {
        self.has_untold || self.arena.has_releases()
    }

    /// Tells workers which of their blocks are free, as far as their rings have room. Nobody is woken for it.
    #[cold]
    pub fn tell_releases(&mut self) {
        for (slot, offset) in self.arena.take_releases() {
            if let Some(lane) = &mut self.lanes[usize::from(slot.0)] {
                lane.releases.push_back(offset);
            }
        }
        self.has_untold = false;
        for lane in self.lanes[..self.end].iter_mut().flatten() {
            while !lane.releases.is_empty() {
                let count = lane.releases.len().min(RELEASES_MAX);
                let Ok(mut record) = lane.ends.tasks.begin(Kind::Release, 0, (count + 1) * 8)
                else {
                    self.has_untold = true;
                    break;
                };
                record.word(0, count as u64);
                for (place, offset) in (1..).zip(lane.releases.drain(..count)) {
                    record.word(place, offset);
                }
                record.commit();
            }
        }
    }

    /// The worker has answered a record: it has read all before it.
    #[inline]
    pub fn note_read(&mut self, slot: SlotId, sequence: u32) {
        if let Some(lane) = &mut self.lanes[usize::from(slot.0)] {
            while let Some(&(written, _)) = lane.spills.front() {
                #[expect(clippy::cast_possible_truncation, reason = "the low halves are compared")]
                let ahead = (written as u32).wrapping_sub(sequence);
                if ahead != 0 && ahead < u32::MAX / 2 {
                    break;
                }
                lane.spills.pop_front();
            }
        }
    }

    /// The worker goes on using blocks of a task; false when it has no right to one.
    pub fn keep(&mut self, slot: SlotId, offsets: &[u64]) -> bool {
        let Some(lane) = &mut self.lanes[usize::from(slot.0)] else { return false };
        for &offset in offsets {
            if let Some((_, count)) = lane.kept.get_mut(&offset) {
                *count += 1;
                continue;
            }
            let Ok(part) = self.arena.adopt(slot, BlockRange { offset, size: 1 }) else {
                return false;
            };
            lane.kept.insert(offset, (part, 1));
        }
        true
    }

    /// The worker has finished with kept blocks.
    pub fn unkeep(&mut self, slot: SlotId, offsets: &[u64]) {
        let Some(lane) = &mut self.lanes[usize::from(slot.0)] else { return };
        for offset in offsets {
            if let Some((_, count)) = lane.kept.get_mut(offset) {
                *count -= 1;
                if *count == 0 {
                    lane.kept.remove(offset);
                }
            }
        }
    }

    /// Writes a control record; false when the ring is full or gone.
    pub fn write_control(&mut self, slot: SlotId, kind: Kind, words: &[u64], bytes: &[u8]) -> bool {
        let Some(lane) = &mut self.lanes[usize::from(slot.0)] else { return false };
        let Ok(mut record) = lane.ends.tasks.begin(kind, 0, words.len() * 8 + bytes.len()) else {
            return false;
        };
        record.words(0, words);
        record.bytes(u32::try_from(words.len() * 8).unwrap_or(u32::MAX), bytes);
        record.commit();
        self.touch(slot);
        true
    }

    /// Bytes of a worker's task ring that are free, and of the whole ring's largest record.
    pub fn task_room(&mut self, slot: SlotId) -> (u32, u32) {
        let Some(lane) = self.lane(slot) else { return (0, 0) };
        (lane.ends.tasks.free_bytes(), lane.ends.tasks.max_body())
    }

    #[inline]
    pub fn touch(&mut self, slot: SlotId) {
        if let Some(lane) = &mut self.lanes[usize::from(slot.0)]
            && !lane.is_unrung
        {
            lane.is_unrung = true;
            self.unrung.push(slot);
        }
    }
}

/// Where the next answers will appear.
#[derive(Debug)]
pub(crate) struct Watch {
    rings: Vec<RingWatch<MappedWords>>,
    /// Links, for whoever completes tasks of other nodes.
    sleeper: Option<Arc<Sleeper>>,
}

impl Watch {
    /// Whether a worker has written something, by a load or two per ring.
    #[inline]
    pub fn has_record(&self) -> bool {
        self.rings.iter().any(RingWatch::has_record)
    }

    /// Whether anything is there.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        self.has_record() || self.sleeper.as_ref().is_some_and(|sleeper| sleeper.is_ready())
    }
}

/// Offsets in one release record.
const RELEASES_MAX: usize = 512;

/// The epoch after this one.
pub(crate) const fn next_epoch(epoch: Epoch) -> Epoch {
    Epoch(epoch.0.wrapping_add(1))
}
