//! The rings to the workers, as the task graph sees them: its `Port`.

use std::os::fd::OwnedFd;

use gristmill_core::{
    Block, Dispatch, KillReason, Payload, PayloadRef, Port, Progress, Sent, Status, TakeBack,
};
use gristmill_keeper::WorkerKey;
use gristmill_shm::{
    BeginError, ClientLane, MappedWords, RecordWriter, RingWatch, Segment, SegmentError, Words,
};
use gristmill_sync::barrier::BarrierMode;
use gristmill_sync::clock::{TickScale, ticks};
use gristmill_wire::{
    Epoch, FunctionId, Kind, PARENT_WORDS, ParentEntry, SlotId, TASK_WORDS, TaskFrame, TaskId,
    padded_size,
};

use crate::functions::Functions;

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
    /// Written to since its bell was rung last.
    is_unrung: bool,
    /// What it wrote was damaged: nothing more is read.
    pub is_corrupt: bool,
    /// Its initializer has returned.
    pub is_ready: bool,
}

/// All rings, and what is known of the workers behind them.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub lanes: Vec<Option<Lane>>,
    pub functions: Functions,
    pub mode: BarrierMode,
    pub scale: TickScale,
    /// For the processes outside, in the order decided.
    pub orders: Vec<Order>,
    /// Final tasks that somebody may want to hear of.
    pub finished: Vec<(TaskId, u64, Status)>,
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
    pub fn new(slot_count: usize, mode: BarrierMode, scale: TickScale) -> Self {
        Self {
            lanes: (0..slot_count).map(|_| None).collect(),
            functions: Functions::default(),
            mode,
            scale,
            orders: Vec::new(),
            finished: Vec::new(),
            names: Vec::new(),
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
            is_unrung: false,
            is_corrupt: false,
            is_ready: false,
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

    /// Tells a worker what a function id stands for; false when its ring is full.
    fn define(&mut self, slot: SlotId, function: FunctionId) -> bool {
        let definition = self.functions.definition(function);
        let Some(lane) = &mut self.lanes[usize::from(slot.0)] else { return false };
        let body = 8 + definition.len();
        match lane.ends.tasks.begin(Kind::Define, 0, body) {
            Ok(mut record) => {
                let size = u32::try_from(definition.len()).unwrap_or(u32::MAX);
                record.word(0, u64::from(function.0) | (u64::from(size) << 32));
                record.bytes(8, &definition);
                record.commit();
            }
            Err(_) => return false,
        }
        self.functions.told(function, slot);
        true
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

/// The size of what a payload is in a record: its bytes, or the descriptor of its block.
fn payload_size(payload: &Payload) -> usize {
    match payload.get() {
        PayloadRef::Bytes(bytes) => bytes.len(),
        PayloadRef::Block(_) => BLOCK_SIZE,
    }
}

/// A block of the arena in a record: its offset and its size.
const BLOCK_SIZE: usize = 16;

fn write_payload<W: Words>(record: &mut RecordWriter<'_, W>, offset: u32, payload: &Payload) {
    match payload.get() {
        PayloadRef::Bytes(bytes) => record.bytes(offset, bytes),
        PayloadRef::Block(Block { offset: place, size }) => {
            record.words(offset / 8, &[place, size])
        }
    }
}

impl Port for Lanes {
    #[inline]
    fn send(&mut self, slot: SlotId, task: Dispatch<'_>) -> Sent {
        if !self.functions.is_told(task.function, slot) && !self.define(slot, task.function) {
            return Sent::Full;
        }
        let Some(lane) = &mut self.lanes[usize::from(slot.0)] else { return Sent::Full };
        let (mut parent_count, mut parents_size) = (0, 0);
        for (_, result) in task.parents.clone() {
            parent_count += 1;
            parents_size += PARENT_WORDS * 8 + padded_size(payload_size(result));
        }
        let extension = task.extension.map(|extension| extension.words());
        let fixed = (TASK_WORDS + extension.map_or(0, |words| words.len())) * 8;
        let size = payload_size(task.payload);
        let mut record = match lane.ends.tasks.begin(Kind::Task, 0, fixed + parents_size + size) {
            Ok(record) => record,
            Err(BeginError::TooLarge { .. }) => return Sent::Failed(Payload::EMPTY),
            Err(_) => return Sent::Full,
        };
        let frame = TaskFrame {
            task: task.id,
            function: task.function,
            attempt: task.attempt,
            flags: task.flags,
            parent_count,
            payload_size: u32::try_from(size).unwrap_or(u32::MAX),
            payload: task.payload.kind(),
        };
        record.words(0, &frame.words());
        if let Some(words) = extension {
            record.words(3, &words);
        }
        let mut offset = u32::try_from(fixed).unwrap_or(u32::MAX);
        for (parent, result) in task.parents {
            let size = payload_size(result);
            let flags = if result.block().is_some() { ParentEntry::ARENA } else { 0 };
            let entry =
                ParentEntry { task: parent, size: u32::try_from(size).unwrap_or(u32::MAX), flags };
            record.words(offset / 8, &entry.words());
            write_payload(&mut record, offset + 16, result);
            offset += 16 + u32::try_from(padded_size(size)).unwrap_or(u32::MAX);
        }
        write_payload(&mut record, offset, task.payload);
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

    fn progress(&self, slot: SlotId) -> Progress {
        let Some(lane) = &self.lanes[usize::from(slot.0)] else { return Progress::default() };
        let reader = lane.ends.control.progress();
        let started_at = reader.running().map_or(0, |running| running.started_ticks);
        Progress {
            claimed: reader.claimed(),
            started: reader.started(),
            ended: reader.ended(),
            started_at_ns: self.scale.to_ns(started_at),
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

/// The epoch after this one.
pub(crate) const fn next_epoch(epoch: Epoch) -> Epoch {
    Epoch(epoch.0.wrapping_add(1))
}
