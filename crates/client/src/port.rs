//! What the task graph asks of the rings: records on their way to workers, and what it may know of those.

use gristmill_core::{
    CallProgress, ContextId, Dispatch, Errand, Holders, KillReason, Outfit, Payload, PayloadRef,
    Port, Progress, Sent, Status, TakeBack,
};
use gristmill_shm::{
    BatchProgress, BeginError, BlockPart, ClientArena, ClientLane, RecordWriter, Words,
};
use gristmill_wire::peer::Control;
use gristmill_wire::{
    Attempt, BlockRange, EXTENSION_WORDS, FunctionId, Kind, PARENT_WORDS, ParentEntry, PeerId,
    SlotId, TASK_WORDS, TaskFlags, TaskFrame, TaskId, pack_places, padded_size,
};

use crate::blobs::BlobPort as _;
use crate::bundle::Bundles;
use crate::lanes::{Lane, Lanes, Order, handle, split_handle};
use crate::peers::{LinkPort, Sending};

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
fn spill(
    arena: &ClientArena,
    lane: &mut Lane,
    bytes: &[u8],
    record_size: usize,
) -> Result<BlockPart, Unsent> {
    // A full ring is asked first: a task that waits for room would be copied again and again.
    if !lane.ends.tasks.has_room(record_size) {
        return Err(Unsent::Full);
    }
    arena.store(bytes).map_err(|error| Unsent::Memory(error.to_string()))
}

/// Words of what stands in front of a task's parents: its frame, its extension, and the list of its places.
#[inline]
fn head_words(task: &Dispatch<'_>) -> usize {
    let extension = task.extension.map_or(0, |one| EXTENSION_WORDS + one.equipment.place_words());
    TASK_WORDS + extension
}

#[inline]
fn write_head<W: Words>(record: &mut RecordWriter<'_, W>, frame: &TaskFrame, task: &Dispatch<'_>) {
    record.words(0, &frame.words());
    if let Some(extension) = task.extension {
        record.words(3, &extension.words());
        for (index, word) in (6..).zip(pack_places(task.places)) {
            record.word(index, word);
        }
    }
}

/// Bytes of a definition whose function is in a block: its head, and the block's offset and size.
const DEFINITION_SIZE: usize = 24;

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
    /// Tells a worker what a function id stands for.
    fn define(&mut self, slot: SlotId, function: FunctionId) -> Result<(), Unsent> {
        let definition = self.functions.definition(function);
        let lane = self.lanes[usize::from(slot.0)].as_mut().ok_or(Unsent::Full)?;
        let size = u64::from(u32::try_from(definition.len()).unwrap_or(u32::MAX));
        let head = u64::from(function.0) | (size << 32);
        if 8 + definition.len() > lane.ends.tasks.max_body() as usize {
            let block = spill(&self.arena, lane, &definition, DEFINITION_SIZE)?;
            let BlockRange { offset, size } = block.range();
            let mut record = lane
                .ends
                .tasks
                .begin(Kind::Define, 1, DEFINITION_SIZE)
                .map_err(|_| Unsent::Full)?;
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
        let fixed = head_words(task);
        let record_size = (fixed + 2) * 8;
        let block = match spill(&self.arena, lane, &bytes, record_size) {
            Ok(block) => block,
            Err(unsent) => return unsent.into(),
        };
        let Ok(mut record) = lane.ends.tasks.begin(Kind::Task, 0, record_size) else {
            return Sent::Full;
        };
        frame.flags = TaskFlags(frame.flags.0 | TaskFlags::SPILLED);
        write_head(&mut record, &frame, task);
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
        let fixed = head_words(&task) * 8;
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
        write_head(&mut record, &frame, &task);
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
        let started_at = reader.running().map(|running| running.started_ticks);
        Progress {
            claimed: reader.claimed(),
            started: reader.started(),
            ended: reader.ended(),
            started_at_ns: started_at.map_or(0, |ticks| self.ns_at(ticks)),
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

    fn spawn(&mut self, slot: SlotId, context: ContextId, outfit: Outfit) {
        self.orders.push(Order::Spawn(slot, context, outfit));
    }

    fn unload_context(&mut self, context: ContextId) {
        self.orders.push(Order::UnloadContext(context));
    }

    fn context_dropped(&mut self, context: ContextId) {
        self.orders.push(Order::DropContext(context));
    }

    fn retire(&mut self, slot: SlotId) {
        self.orders.push(Order::Retire(slot));
    }

    #[inline]
    fn send_to_peer(&mut self, peer: PeerId, errand: Errand<'_>) -> Sent {
        self.send_away(peer, &errand)
    }

    fn holders(&self, payload: &Payload, near: PeerId) -> Holders {
        self.blob_look().holders(payload, near)
    }

    fn stop_at_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt, grace_ns: u64) {
        self.say(peer, &Control::Stop { task, attempt, grace_ns });
    }

    fn withdraw_from_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt) {
        self.say(peer, &Control::Withdraw { task, attempt });
    }

    fn recall_from_peer(&mut self, peer: PeerId, count: u32) {
        self.say(peer, &Control::Recall { count });
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
        self.now_ticks()
    }
}

/// A batch's progress with the whole of its sequence: the last one below `claimed` with that low half.
pub(crate) fn call_progress(batch: BatchProgress, claimed: u64) -> CallProgress {
    #[expect(clippy::cast_possible_truncation, reason = "the low halves are compared")]
    let back = (claimed as u32).wrapping_sub(batch.sequence);
    CallProgress { sequence: claimed.wrapping_sub(u64::from(back)), started: batch.started }
}
