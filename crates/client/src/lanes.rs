//! The rings to the workers, as the task graph sees them: its `Port`.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

use gristmill_core::{
    CallProgress, Dispatch, KillReason, Payload, PayloadRef, Port, Progress, Sent, Status, TakeBack,
};
use gristmill_keeper::WorkerKey;
use gristmill_shm::{
    BatchProgress, BeginError, BlockPart, ClientArena, ClientLane, MappedWords, RecordWriter,
    RingWatch, Segment, SegmentError, Words,
};
use gristmill_sync::barrier::BarrierMode;
use gristmill_sync::clock::{TickScale, ticks};
use gristmill_wire::{
    BlockRange, EXTENSION_WORDS, Epoch, FunctionId, Kind, PARENT_WORDS, ParentEntry, SlotId,
    TASK_WORDS, TaskFlags, TaskFrame, TaskId, padded_size,
};

use crate::bundle::Bundles;
use crate::functions::Functions;
use crate::results::Batches;

/// What the graph decided that somebody outside of it has to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// Start a process in this slot.
    Spawn(SlotId),
    /// Kill the process in this slot, and its descent.
    Kill(SlotId),
    /// Make the worker look whether it is to be interrupted.
    Interrupt(SlotId),
    /// Ask the worker to leave.
    Retire(SlotId),
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
    /// Blocks of its ring's records that were too large, by sequence: the worker copies them out when it reads those.
    spills: VecDeque<(u64, BlockPart)>,
    /// Blocks that its tasks go on using, each with how often it was said.
    kept: HashMap<u64, (BlockPart, usize)>,
    /// Blocks that it is still to be told of.
    releases: VecDeque<u64>,
}

/// All rings, and what is known of the workers behind them.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub lanes: Vec<Option<Lane>>,
    pub functions: Functions,
    pub arena: ClientArena,
    pub bundles: Bundles,
    pub batches: Batches,
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
    now_ticks: u64,
    now_ns: u64,
}

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
    pub fn new(slot_count: usize, mode: BarrierMode, scale: TickScale, arena: ClientArena) -> Self {
        Self {
            lanes: (0..slot_count).map(|_| None).collect(),
            functions: Functions::default(),
            arena,
            bundles: Bundles::default(),
            batches: Batches::default(),
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
            now_ticks: 0,
            now_ns: 0,
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
        self.now_ticks = ticks();
        self.now_ns = self.scale.to_ns(self.now_ticks);
        self.now_ns
    }

    /// The clock as it was read last, nanoseconds.
    #[inline]
    pub const fn now(&self) -> u64 {
        self.now_ns
    }

    /// A new worker sits in a slot.
    ///
    /// # Errors
    /// No such slot.
    pub fn open(&mut self, segment: &Segment, worker: WorkerKey) -> Result<(), SegmentError> {
        self.functions.forget_slot(worker.slot);
        self.lanes[usize::from(worker.slot.0)] = Some(Lane {
            ends: segment.client_lane(worker.slot)?,
            worker,
            pid: 0,
            pidfd: None,
            is_interrupt_due: false,
            is_unrung: false,
            is_corrupt: false,
            is_ready: false,
            spills: VecDeque::new(),
            kept: HashMap::new(),
            releases: VecDeque::new(),
        });
        Ok(())
    }

    /// The clock as it was read last, ticks.
    #[inline]
    pub const fn now_ticks(&self) -> u64 {
        self.now_ticks
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
        Watch(self.lanes.iter().flatten().filter(|lane| !lane.is_corrupt).map(watch).collect())
    }

    /// Tells a worker what a function id stands for.
    fn define(&mut self, slot: SlotId, function: FunctionId) -> Result<(), Unsent> {
        let definition = self.functions.definition(function);
        let lane = self.lanes[usize::from(slot.0)].as_mut().ok_or(Unsent::Full)?;
        let size = u64::from(u32::try_from(definition.len()).unwrap_or(u32::MAX));
        let head = u64::from(function.0) | (size << 32);
        if 8 + definition.len() > lane.ends.tasks.max_body() as usize {
            let block = spill(&self.arena, lane, &definition)?;
            let BlockRange { offset, size } = block.range();
            let mut record =
                lane.ends.tasks.begin(Kind::Define, 1, 24).map_err(|_| Unsent::Full)?;
            record.words(0, &[head, offset, size]);
            let sequence = record.commit();
            lane.spills.push_back((sequence, block));
        } else {
            let body = 8 + definition.len();
            let record = lane.ends.tasks.begin(Kind::Define, 0, body);
            let mut record = record.map_err(|_| Unsent::Full)?;
            record.word(0, head);
            record.bytes(8, &definition);
            record.commit();
        }
        self.functions.told(function, slot);
        Ok(())
    }

    /// Whether a worker is to be told of blocks.
    #[inline]
    pub fn has_releases(&self) -> bool {
        self.has_untold || self.arena.has_releases()
    }

    /// Takes in up to `limit` results of a batch that a worker runs; gives how many, or `None` when one is damaged.
    pub fn take_results(&mut self, slot: SlotId, batch: TaskId, limit: usize) -> Option<usize> {
        let Self { lanes, batches, bundles, arena, mode, .. } = self;
        let lane = lanes[usize::from(slot.0)].as_mut()?;
        let collected = batches.get_mut(batch)?;
        let results = &mut lane.ends.results;
        let mut count = 0;
        while count < limit
            && let Ok(Some(record)) = results.peek()
            && record.header().kind == Kind::Result
        {
            let adopt = |bundles: &mut Bundles, descriptor: &[u8]| {
                bundles.receive(arena, slot, descriptor).ok()
            };
            if !collected.take_in(&record, bundles, adopt) {
                return None;
            }
            count += 1;
            if results.consume() == gristmill_shm::Tail::Published && results.writer_waits(*mode) {
                lane.ends.control.peer_bell().wake();
            }
        }
        if self.listeners > 0 {
            self.news.push(batch);
        }
        Some(count)
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
        for lane in self.lanes.iter_mut().flatten() {
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
    fn touch(&mut self, slot: SlotId) {
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
pub(crate) struct Watch(Vec<RingWatch<MappedWords>>);

impl Watch {
    /// Whether something is there, by a load or two per ring.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        self.0.iter().any(RingWatch::has_record)
    }
}

/// Offsets in one release record.
const RELEASES_MAX: usize = 512;

/// Why a record is not in its ring.
enum Unsent {
    /// No room now.
    Full,
    /// No memory for what does not fit into a record; a sentence.
    Memory(String),
}

impl From<Unsent> for Sent {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::Full => Self::Full,
            // No pickle begins with a zero: the layer above knows it for a sentence.
            Unsent::Memory(text) => Self::Failed(Payload::from(format!("\0{text}").into_bytes())),
        }
    }
}

/// Puts what does not fit into a record into a block.
fn spill(arena: &ClientArena, lane: &mut Lane, bytes: &[u8]) -> Result<BlockPart, Unsent> {
    // A full ring is asked first: a task that waits for room would be copied again and again.
    if !lane.ends.tasks.has_room(SPILL_RECORD_MAX) {
        return Err(Unsent::Full);
    }
    arena.store(bytes).map_err(|error| Unsent::Memory(error.to_string()))
}

/// The largest record of a spilled task: frame, extension, and the block's offset and size.
const SPILL_RECORD_MAX: usize = (TASK_WORDS + EXTENSION_WORDS + 2) * 8;

/// The size of what a payload is in a record: its bytes, or its descriptor.
#[inline]
fn payload_size(payload: &Payload, bundles: &Bundles) -> usize {
    match payload.get() {
        PayloadRef::Bytes(bytes) => bytes.len(),
        PayloadRef::Block(block) => bundles.get(block).descriptor_size(),
    }
}

#[inline]
fn write_payload<W: Words>(
    record: &mut RecordWriter<'_, W>,
    offset: u32,
    payload: &Payload,
    bundles: &Bundles,
) {
    match payload.get() {
        PayloadRef::Bytes(bytes) => record.bytes(offset, bytes),
        PayloadRef::Block(block) => {
            let mut descriptor = Vec::new();
            bundles.get(block).append_to(&mut descriptor);
            record.bytes(offset, &descriptor);
        }
    }
}

fn append_payload(payload: &Payload, bundles: &Bundles, out: &mut Vec<u8>) {
    match payload.get() {
        PayloadRef::Bytes(bytes) => out.extend_from_slice(bytes),
        PayloadRef::Block(block) => bundles.get(block).append_to(out),
    }
}

fn parent_entry(parent: TaskId, result: &Payload, size: usize) -> ParentEntry {
    let flags = if result.block().is_some() { ParentEntry::ARENA } else { 0 };
    ParentEntry { task: parent, size: u32::try_from(size).unwrap_or(u32::MAX), flags }
}

impl Lanes {
    /// Sends a task whose parents and payload do not fit into a record.
    #[cold]
    fn send_spilled(&mut self, slot: SlotId, task: &Dispatch<'_>, mut frame: TaskFrame) -> Sent {
        let mut bytes = Vec::new();
        for (parent, result) in task.parents.clone() {
            let size = payload_size(result, &self.bundles);
            for word in parent_entry(parent, result, size).words() {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            append_payload(result, &self.bundles, &mut bytes);
            bytes.resize(padded_size(bytes.len()), 0);
        }
        append_payload(task.payload, &self.bundles, &mut bytes);
        if u32::try_from(bytes.len()).is_err() {
            let text = format!("{} bytes of small values are too many for one task", bytes.len());
            return Unsent::Memory(text).into();
        }
        let Some(lane) = &mut self.lanes[usize::from(slot.0)] else { return Sent::Full };
        let block = match spill(&self.arena, lane, &bytes) {
            Ok(block) => block,
            Err(unsent) => return unsent.into(),
        };
        let extension = task.extension.map(|extension| extension.words());
        let fixed = TASK_WORDS + extension.map_or(0, |words| words.len());
        let Ok(mut record) = lane.ends.tasks.begin(Kind::Task, 0, (fixed + 2) * 8) else {
            return Sent::Full;
        };
        frame.flags = TaskFlags(frame.flags.0 | TaskFlags::SPILLED);
        record.words(0, &frame.words());
        if let Some(words) = extension {
            record.words(3, &words);
        }
        let BlockRange { offset, size } = block.range();
        record.words(u32::try_from(fixed).unwrap_or(u32::MAX), &[offset, size]);
        let sequence = record.commit();
        lane.spills.push_back((sequence, block));
        self.touch(slot);
        Sent::Written(sequence)
    }
}

impl Port for Lanes {
    #[inline]
    fn send(&mut self, slot: SlotId, task: Dispatch<'_>) -> Sent {
        if !self.functions.is_told(task.function, slot)
            && let Err(unsent) = self.define(slot, task.function)
        {
            return unsent.into();
        }
        let Some(lane) = &mut self.lanes[usize::from(slot.0)] else { return Sent::Full };
        let bundles = &self.bundles;
        let (mut parent_count, mut parents_size) = (0, 0);
        for (_, result) in task.parents.clone() {
            parent_count += 1;
            parents_size += PARENT_WORDS * 8 + padded_size(payload_size(result, bundles));
        }
        let extension = task.extension.map(|extension| extension.words());
        let fixed = (TASK_WORDS + extension.map_or(0, |words| words.len())) * 8;
        let size = payload_size(task.payload, bundles);
        let frame = TaskFrame {
            task: task.id,
            function: task.function,
            attempt: task.attempt,
            flags: task.flags,
            parent_count,
            payload_size: u32::try_from(size).unwrap_or(u32::MAX),
            payload: task.payload.kind(),
        };
        let mut record = match lane.ends.tasks.begin(Kind::Task, 0, fixed + parents_size + size) {
            Ok(record) => record,
            Err(BeginError::TooLarge { .. }) => return self.send_spilled(slot, &task, frame),
            Err(_) => return Sent::Full,
        };
        record.words(0, &frame.words());
        if let Some(words) = extension {
            record.words(3, &words);
        }
        let mut offset = u32::try_from(fixed).unwrap_or(u32::MAX);
        for (parent, result) in task.parents {
            let size = payload_size(result, bundles);
            record.words(offset / 8, &parent_entry(parent, result, size).words());
            write_payload(&mut record, offset + 16, result, bundles);
            offset += 16 + u32::try_from(padded_size(size)).unwrap_or(u32::MAX);
        }
        write_payload(&mut record, offset, task.payload, bundles);
        let sequence = record.commit();
        self.touch(slot);
        Sent::Written(sequence)
    }

    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBack>) {
        taken.clear();
        let Some(lane) = &mut self.lanes[usize::from(slot.0)] else {
            taken.resize(sequences.len(), TakeBack::Undecided);
            return;
        };
        let ClientLane { tasks, control, .. } = &mut lane.ends;
        let answers = tasks.take_back(sequences, control.progress(), self.mode);
        taken.extend(answers.into_iter().map(|(_, answer)| match answer {
            gristmill_shm::TakeBack::Taken => TakeBack::Taken,
            gristmill_shm::TakeBack::Undecided => TakeBack::Undecided,
        }));
    }

    fn stop_batch(&mut self, slot: SlotId, sequence: u64) -> Option<u32> {
        let control = &self.lanes[usize::from(slot.0)].as_ref()?.ends.control;
        if control.progress().claimed() <= sequence {
            // It could not be taken back for want of a barrier: then the rule of one batch at a time says nothing.
            return None;
        }
        let found = control.stop_batch(sequence)?;
        #[expect(clippy::cast_possible_truncation, reason = "the low half tells batches apart")]
        (found.sequence == sequence as u32).then_some(found.claimed)
    }

    fn results(&self, batch: TaskId) -> u32 {
        self.batches.count(batch)
    }

    fn split(&mut self, batch: TaskId, rest: &[TaskId]) -> u64 {
        if self.listeners > 0 {
            self.news.push(batch);
        }
        let function = self.batches.split(batch, rest);
        rest.iter().for_each(|_| self.functions.use_again(function));
        handle(function, 0)
    }

    fn progress(&self, slot: SlotId) -> Progress {
        let Some(lane) = &self.lanes[usize::from(slot.0)] else { return Progress::default() };
        let reader = lane.ends.control.progress();
        let started_at = reader.running().map_or(0, |running| running.started_ticks);
        Progress {
            claimed: reader.claimed(),
            started: reader.started(),
            ended: reader.ended(),
            started_at_ns: self.scale.to_ns(started_at),
            calls: reader.batch().map(|batch| call_progress(batch, reader.claimed())),
        }
    }

    fn interrupt(&mut self, slot: SlotId, sequence: u64) {
        if let Some(lane) = &self.lanes[usize::from(slot.0)] {
            lane.ends.control.interrupt(Some(sequence));
            self.orders.push(Order::Interrupt(slot));
        }
    }

    fn kill(&mut self, slot: SlotId, _why: KillReason) {
        self.orders.push(Order::Kill(slot));
    }

    fn spawn(&mut self, slot: SlotId) {
        self.orders.push(Order::Spawn(slot));
    }

    fn retire(&mut self, slot: SlotId) {
        self.orders.push(Order::Retire(slot));
    }

    #[inline]
    fn finished(&mut self, task: TaskId, handle: u64, status: Status) {
        let (function, ticket) = split_handle(handle);
        if !matches!(status, Status::Succeeded | Status::Failed) {
            self.names.push((task, self.functions.name(function).into()));
        }
        if !self.batches.is_empty() {
            self.batches.finished(task);
        }
        if self.functions.release(function) {
            self.freed_functions.push(function);
        }
        if self.listeners > 0 || ticket != 0 {
            self.finished.push((task, handle, status));
        }
    }

    #[inline]
    fn is_asleep(&self, slot: SlotId) -> bool {
        self.lanes[usize::from(slot.0)]
            .as_ref()
            .is_some_and(|lane| lane.ends.control.peer_bell().is_asleep())
    }

    #[inline]
    fn ticks(&self) -> u64 {
        self.now_ticks
    }
}

/// A batch's progress with the whole of its sequence: the last one below `claimed` with that low half.
pub(crate) fn call_progress(batch: BatchProgress, claimed: u64) -> CallProgress {
    #[expect(clippy::cast_possible_truncation, reason = "the low halves are compared")]
    let back = (claimed as u32).wrapping_sub(batch.sequence);
    CallProgress { sequence: claimed.wrapping_sub(u64::from(back)), started: batch.started }
}

/// The epoch after this one.
pub(crate) const fn next_epoch(epoch: Epoch) -> Epoch {
    Epoch(epoch.0.wrapping_add(1))
}
