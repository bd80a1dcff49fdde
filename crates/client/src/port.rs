//! The operations of the task graph on the rings: records on their way to workers, and the progress of the workers.

use gristmill_core::{
    CallProgress, ContextId, Dispatch, Floor, Holders, KillReason, Payload, PayloadRef, Port,
    RemoteDispatch, RingProgress, Sent, Status, StoppedRun, TakeBackResult, WorkerGrant,
};
use gristmill_keeper::Stopped;
use gristmill_shm::{
    BatchProgress, BeginError, BlockPart, ClientArena, ClientEnds, RecordWriter, Words,
};
use gristmill_wire::peer::Control;
use gristmill_wire::{
    Attempt, BlockRange, DefinitionHead, EXTENSION_WORDS, FailureKind, FunctionId, PARENT_WORDS,
    ParentEntry, PeerId, RecordKind, SlotId, TASK_WORDS, TaskFailure, TaskFlags, TaskFrame, TaskId,
    pack_places, padded_size,
};

use crate::blobs::BlobPort as _;
use crate::bundle::Bundles;
use crate::client_port::{ClientPort, GraphEffect, WorkerChannel, handle, split_handle};
use crate::peers::{LinkPort, Sending, peer_of_pseudo_slot};

/// Reason why a record is not in its ring.
enum Unsent {
    /// The ring has no room now.
    Full,
    /// There is no memory for content that does not fit into a record; the text is a sentence.
    Memory(String),
}

impl From<Unsent> for Sent {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::Full => Self::Full,
            Unsent::Memory(text) => {
                let failure = TaskFailure::of_text(FailureKind::NoMemory, &text);
                Self::Failed(Payload::from(failure.encode()))
            }
        }
    }
}

/// Puts bytes that do not fit into a record into a block.
fn spill(
    arena: &ClientArena,
    channel: &mut WorkerChannel,
    bytes: &[u8],
    record_size: usize,
) -> Result<BlockPart, Unsent> {
    // The ring is checked first: a task that waits for room in it would be copied again and again.
    if !channel.ends.tasks.has_room(record_size) {
        return Err(Unsent::Full);
    }
    arena.store(bytes).map_err(|error| Unsent::Memory(error.to_string()))
}

/// Words in front of a task's extension, and in front of a wide task's list of slots.
#[expect(clippy::cast_possible_truncation, reason = "a handful of words")]
const HEAD: (u32, u32) = (TASK_WORDS as u32, (TASK_WORDS + EXTENSION_WORDS) as u32);

/// Returns the number of words before a task's parents: its frame, its extension, and the list of its slots.
#[inline]
fn head_words(task: &Dispatch<'_>) -> usize {
    let extension = task.extension.map_or(0, |one| EXTENSION_WORDS + one.grant.place_words());
    TASK_WORDS + extension
}

#[inline]
fn write_head<W: Words>(record: &mut RecordWriter<'_, W>, frame: &TaskFrame, task: &Dispatch<'_>) {
    record.words(0, &frame.words());
    if let Some(extension) = task.extension {
        record.words(HEAD.0, &extension.words());
        for (index, word) in (HEAD.1..).zip(pack_places(task.places)) {
            record.word(index, word);
        }
    }
}

/// Size of a definition whose function is in a block, bytes: its head, and the block's offset and size.
const DEFINITION_SIZE: usize = 24;

/// Returns the size of a payload in a record: that of its bytes, or of its descriptor.
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

impl ClientPort {
    /// Tells workers and peers which functions they need not keep because no task names these ids any more.
    #[inline]
    pub(crate) fn tell_departed(&mut self) {
        if self.functions.has_departed() || !self.unforgotten.is_empty() {
            self.tell_of_departed();
        }
    }

    #[cold]
    fn tell_of_departed(&mut self) {
        let waiting = std::mem::take(&mut self.unforgotten);
        for (slot, function) in waiting {
            self.forget(slot, function);
        }
        for (function, places) in self.functions.take_departed() {
            for place in places {
                match peer_of_pseudo_slot(place) {
                    Some(peer) => self.say(peer, &Control::ForgetFunction { function }),
                    None => self.forget(place, function),
                }
            }
        }
    }

    /// Tells a worker that a function id is not used any more, as soon as its ring has room for the record.
    fn forget(&mut self, slot: SlotId, function: FunctionId) {
        let Some(channel) = self.channels[usize::from(slot.0)].as_mut() else { return };
        let Ok(mut record) = channel.ends.tasks.begin(RecordKind::Forget, 0, 8) else {
            self.unforgotten.push((slot, function));
            return;
        };
        record.word(0, u64::from(function.0));
        record.commit();
        self.touch(slot);
    }

    /// Tells a worker the definition of a function id, and what the function needs before it.
    fn define(&mut self, slot: SlotId, function: FunctionId) -> Result<(), Unsent> {
        if self.functions.has_departed() || !self.unforgotten.is_empty() {
            // The worker has to forget the former functions of the ids first.
            self.tell_departed();
        }
        for dependency in self.functions.unknown_needs(function, slot) {
            self.write_definition(slot, dependency)?;
        }
        self.write_definition(slot, function)
    }

    fn write_definition(&mut self, slot: SlotId, function: FunctionId) -> Result<(), Unsent> {
        self.unforgotten.retain(|&late| late != (slot, function));
        let definition = self.functions.definition(function);
        let channel = self.channels[usize::from(slot.0)].as_mut().ok_or(Unsent::Full)?;
        let size = u64::from(u32::try_from(definition.len()).unwrap_or(u32::MAX));
        let head = u64::from(function.0) | (size << 32);
        // Dependencies are in blocks: several of them must fit into an empty ring, together with their function and its task.
        let is_dependency =
            matches!(DefinitionHead::read(&definition), DefinitionHead::Dependency { .. });
        if is_dependency || 8 + definition.len() > channel.ends.tasks.max_body() as usize {
            let block = match self.functions.block(function) {
                // Another worker reads the same block.
                Some(block) => block,
                None => spill(&self.arena, channel, &definition, DEFINITION_SIZE)?,
            };
            let BlockRange { offset, size } = block.range();
            let mut record = channel
                .ends
                .tasks
                .begin(RecordKind::Define, 1, DEFINITION_SIZE)
                .map_err(|_| Unsent::Full)?;
            record.words(0, &[head, offset, size]);
            let sequence = record.commit();
            self.functions.note_block(function, &block);
            channel.spills.push_back((sequence, block));
        } else {
            let body = 8 + definition.len();
            let record = channel.ends.tasks.begin(RecordKind::Define, 0, body);
            let mut record = record.map_err(|_| Unsent::Full)?;
            record.word(0, head);
            record.bytes(8, &definition);
            record.commit();
        }
        self.functions.record_known(function, slot);
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
            let text = format!(
                "the small values among the arguments of one task take {} bytes, which is too much",
                bytes.len()
            );
            return Unsent::Memory(text).into();
        }
        let Some(channel) = &mut self.channels[usize::from(slot.0)] else { return Sent::Full };
        let fixed = head_words(task);
        let record_size = (fixed + 2) * 8;
        let block = match spill(&self.arena, channel, &bytes, record_size) {
            Ok(block) => block,
            Err(unsent) => return unsent.into(),
        };
        let Ok(mut record) = channel.ends.tasks.begin(RecordKind::Task, 0, record_size) else {
            return Sent::Full;
        };
        frame.flags = TaskFlags(frame.flags.0 | TaskFlags::SPILLED);
        write_head(&mut record, &frame, task);
        let BlockRange { offset, size } = block.range();
        record.words(u32::try_from(fixed).unwrap_or(u32::MAX), &[offset, size]);
        let sequence = record.commit();
        channel.spills.push_back((sequence, block));
        self.touch(slot);
        Sent::Written(sequence)
    }
}

impl Port for ClientPort {
    #[inline]
    fn send(&mut self, slot: SlotId, task: Dispatch<'_>) -> Sent {
        if !self.functions.is_known(task.function, slot)
            && let Err(unsent) = self.define(slot, task.function)
        {
            return unsent.into();
        }
        let Some(channel) = &mut self.channels[usize::from(slot.0)] else { return Sent::Full };
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
        let mut record =
            match channel.ends.tasks.begin(RecordKind::Task, 0, fixed + parents_size + size) {
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

    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBackResult>) {
        taken.clear();
        let Some(channel) = &mut self.channels[usize::from(slot.0)] else {
            taken.resize(sequences.len(), TakeBackResult::Undecided);
            return;
        };
        let ClientEnds { tasks, control, .. } = &mut channel.ends;
        let answers = tasks.take_back(sequences, control.progress(), self.mode);
        taken.extend(answers.into_iter().map(|(_, answer)| match answer {
            gristmill_shm::TakeBack::Taken => TakeBackResult::Taken,
            gristmill_shm::TakeBack::Undecided => TakeBackResult::Undecided,
        }));
    }

    fn stop_batch(&mut self, slot: SlotId, sequence: u64) -> Option<u32> {
        let control = &self.channels[usize::from(slot.0)].as_ref()?.ends.control;
        if control.progress().claimed() <= sequence {
            // The missing barrier prevented the take-back. Then the rule of one batch at a time does not apply.
            return None;
        }
        let found = control.stop_batch(sequence)?;
        #[expect(clippy::cast_possible_truncation, reason = "the low half distinguishes batches")]
        (found.sequence == sequence as u32).then_some(found.claimed)
    }

    fn results(&self, batch: TaskId) -> u32 {
        self.batches.count(batch)
    }

    fn split(&mut self, batch: TaskId, rest: &[TaskId]) -> u64 {
        if self.listeners > 0 {
            self.unannounced_batches.push(batch);
        }
        let function = self.batches.split(batch, rest);
        rest.iter().for_each(|_| self.functions.use_again(function));
        handle(function, 0)
    }

    fn set_floor(&mut self, slot: SlotId, priority: i32) {
        if let Some(channel) = self.channel(slot) {
            channel.ends.control.set_floor(priority);
        }
    }

    fn progress(&self, slot: SlotId) -> RingProgress {
        let Some(channel) = &self.channels[usize::from(slot.0)] else {
            return RingProgress::default();
        };
        let reader = channel.ends.control.progress();
        let started_at = reader.running().map(|running| running.started_ticks);
        RingProgress {
            claimed: reader.claimed(),
            started: reader.started(),
            ended: reader.ended(),
            started_at_ns: started_at.map_or(0, |ticks| self.ns_at(ticks)),
            calls: reader.batch().map(|batch| call_progress(batch, reader.claimed())),
        }
    }

    fn interrupt(&mut self, slot: SlotId, sequence: u64) {
        if let Some(channel) = &self.channels[usize::from(slot.0)] {
            channel.ends.control.interrupt(Some(sequence));
            self.effects.push(GraphEffect::Interrupt(slot));
        }
    }

    fn end_started(&mut self, slot: SlotId, by: StoppedRun) {
        let StoppedRun { sequence, began_ticks, ended_ticks } = by;
        let (began_ns, ended_ns) = (self.ns_at(began_ticks), self.ns_at(ended_ticks));
        self.effects.push(GraphEffect::EndStarted(slot, Stopped { sequence, began_ns, ended_ns }));
    }

    fn kill(&mut self, slot: SlotId, _why: KillReason) {
        self.effects.push(GraphEffect::Kill(slot));
    }

    fn spawn(&mut self, slot: SlotId, context: ContextId, grant: WorkerGrant) {
        self.effects.push(GraphEffect::Spawn(slot, context, grant));
    }

    fn unload_context(&mut self, context: ContextId) {
        self.effects.push(GraphEffect::UnloadContext(context));
    }

    fn context_dropped(&mut self, context: ContextId) {
        self.effects.push(GraphEffect::DropContext(context));
    }

    fn retire(&mut self, slot: SlotId) {
        self.effects.push(GraphEffect::Retire(slot));
    }

    #[inline]
    fn send_to_peer(&mut self, peer: PeerId, dispatch: RemoteDispatch<'_>) -> Sent {
        self.delegate(peer, &dispatch)
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

    fn floor_at_peer(&mut self, peer: PeerId, context: ContextId, floor: (Floor, u32)) {
        self.say_floor(peer, context, floor);
    }

    fn tell_vacant(&mut self, peer: PeerId, context: ContextId, word: (u32, u32)) {
        self.say_vacant(peer, context, word);
    }

    #[inline]
    fn finished(&mut self, task: TaskId, handle: u64, status: Status) {
        let (function, ticket) = split_handle(handle);
        if status != Status::Succeeded {
            self.names.push((task, self.functions.name(function).into()));
        }
        if !self.batches.is_empty() {
            self.batches.finished(task);
        }
        if self.functions.release(function) {
            self.freed_functions.push(function);
        }
        if self.listeners > 0 || ticket != 0 {
            self.finished.push((task, handle));
        }
    }

    #[inline]
    fn is_asleep(&self, slot: SlotId) -> bool {
        self.channels[usize::from(slot.0)]
            .as_ref()
            .is_some_and(|channel| channel.ends.control.peer_bell().is_asleep())
    }

    #[inline]
    fn ticks(&self) -> u64 {
        self.now_ticks()
    }
}

/// Returns a batch's progress with its full sequence: the last one up to `claimed` with that low half.
pub(crate) fn call_progress(batch: BatchProgress, claimed: u64) -> CallProgress {
    #[expect(clippy::cast_possible_truncation, reason = "the low halves are compared")]
    let back = (claimed as u32).wrapping_sub(batch.sequence);
    CallProgress { sequence: claimed.wrapping_sub(u64::from(back)), started: batch.started }
}
