//! Intake of the records that workers wrote.

use gristmill_core::{INLINE_MAX, Payload};
use gristmill_lead::Leader;
use gristmill_shm::{RingRecord, Words};
use gristmill_wire::{
    ANSWER_WORDS, AnswerFrame, FrameError, PayloadKind, RecordKind, SlotId, TaskId, Verdict,
};

use crate::blobs::BlobWork as _;
use crate::bundle::{KEPT_MIN, ReceiveError, ResultMemoryError};
use crate::client_port::{ClientPort, GraphEffect};
use crate::inner::Inner;
use crate::peers::LinkWork;

/// One record, copied out of a result ring.
pub(crate) enum ReceivedRecord {
    /// The worker does not use its rings any more.
    Left,
    Answer(AnswerFrame, Payload),
    /// An answer that is large enough to count against the memory for results.
    LargeAnswer(AnswerFrame, Vec<u8>),
    /// An answer with blocks, and its descriptor.
    ArenaAnswer(AnswerFrame, Vec<u8>),
    /// The worker goes on using these blocks.
    Keep(Vec<u64>),
    /// The worker has finished with these blocks.
    Return(Vec<u64>),
    /// The initializer returned, or raised this exception.
    Ready(Option<String>),
    /// A request of the running task, or a part of one: its header word, whose low half is the size in bytes, and the bytes.
    Request(u64, Vec<u8>),
    /// A task waits for others (true), or has stopped waiting (false).
    Wait(TaskId, bool),
    /// Results of a batch, which are still in the ring.
    Results,
}

impl Inner {
    /// Completes everything that has arrived, and does the work that is due by the clock.
    pub fn drain(&mut self) {
        self.port.links.look();
        self.drain_known();
    }

    /// Works as [`Self::drain`], but reads only the links that the last wait, or the last call of `links.look`, reported as
    /// readable. A thread calls it right before or after it sleeps.
    pub fn drain_known(&mut self) {
        let now = self.port.read_clock();
        let mut count = 0;
        for slot in self.port.slots() {
            if self.port.has_arrived(slot) {
                count += self.drain_channel(slot, usize::MAX, now);
            }
        }
        self.nested_flush();
        if self.port.links.sleeper().is_some() {
            count += self.drain_links();
            self.take_blob_events(now);
            self.port.links.has_outgoing |= count > 0 || self.port.links.waits_for_room;
        }
        if self.core.next_wake(now).is_some_and(|wake| wake <= now) {
            self.core.poll(now, &mut self.port);
        }
        if count > 0 {
            self.attended();
        }
        self.settle();
        if self.port.links.is_lease && self.port.links.is_used() {
            self.tell_surplus(now);
        }
        if self.port.links.has_outgoing {
            self.flush_links(now);
        }
    }

    /// Gives idle workers a part of the tasks that wait at others, before this thread waits itself.
    ///
    /// If it waits for results that come together, only if more tasks wait than one worker holds.
    pub fn spread(&mut self, results_come_together: bool) {
        let now = self.port.now();
        if results_come_together {
            self.core.spread_ready(now, &mut self.port);
        } else {
            self.core.spread(now, &mut self.port);
        }
        self.settle();
        if self.port.links.has_outgoing {
            self.flush_links(now);
        }
    }

    /// Completes a few results of each ring, as each submit does in passing.
    #[inline]
    pub fn drain_little(&mut self, now: u64) {
        for slot in self.port.slots() {
            if self.port.has_arrived(slot) {
                self.drain_channel(slot, SUBMIT_SHARE, now);
                self.attended();
            }
        }
        if self.port.links.is_used() {
            self.links_in_passing(now);
        }
    }

    /// Notes that records were taken in: the attendant, the client's background thread, need not hurry. Wakes the leader, the
    /// thread that sleeps on the client's bell, if there is one: it has to look at the rings again.
    pub fn attended(&mut self) {
        self.lead.note_attended();
        if self.lead.leader() != Leader::Absent {
            self.shared.kick();
        }
    }

    /// Completes up to `limit` records of one ring, and returns their number.
    pub fn drain_channel(&mut self, slot: SlotId, limit: usize, now: u64) -> usize {
        let mut count = 0;
        while count < limit {
            let Some(arrival) = self.next_arrival(slot) else { break };
            count += usize::from(!matches!(arrival, ReceivedRecord::Results));
            match arrival {
                ReceivedRecord::Results => count += self.take_results(slot, limit - count),
                ReceivedRecord::Answer(frame, payload) => {
                    self.port.note_read(slot, frame.sequence);
                    let _ = self.core.answered(slot, &frame, payload, now, &mut self.port);
                }
                ReceivedRecord::LargeAnswer(frame, bytes) => {
                    let kept = self.port.bundles.keep(bytes, Vec::new());
                    self.answered(slot, frame, kept, now);
                }
                ReceivedRecord::ArenaAnswer(frame, descriptor) => {
                    let ClientPort { bundles, arena, .. } = &mut self.port;
                    let kept = match bundles.receive(arena, slot, &descriptor) {
                        Ok(payload) => Ok(payload),
                        Err(ReceiveError::Unkept(unkept)) => Err(unkept),
                        Err(ReceiveError::Frame(_) | ReceiveError::Arena(_)) => {
                            self.give_up(slot);
                            break;
                        }
                    };
                    self.answered(slot, frame, kept, now);
                }
                ReceivedRecord::Keep(offsets) => {
                    if !self.port.keep(slot, &offsets) {
                        self.give_up(slot);
                        break;
                    }
                }
                ReceivedRecord::Return(offsets) => self.port.unkeep(slot, &offsets),
                ReceivedRecord::Left => self.port.effects.push(GraphEffect::Left(slot)),
                ReceivedRecord::Ready(failure) => self.worker_ready(slot, failure, now),
                ReceivedRecord::Request(word, part) => {
                    if self.nested_request(slot, word, &part, now).is_err() {
                        self.give_up(slot);
                    }
                }
                ReceivedRecord::Wait(task, is_on) => {
                    self.nested.is_used = true;
                    self.core.waiting(slot, task, is_on, now, &mut self.port);
                }
            }
        }
        count
    }

    /// Completes a task with its payload, or with a `MemoryError` if there was no room for the payload.
    #[cold]
    fn answered(
        &mut self,
        slot: SlotId,
        mut frame: AnswerFrame,
        kept: Result<Payload, ResultMemoryError>,
        now: u64,
    ) {
        self.port.note_read(slot, frame.sequence);
        let payload = kept.unwrap_or_else(|unkept| {
            frame.verdict = Verdict::Raised;
            unkept.raised()
        });
        let _ = self.core.answered(slot, &frame, payload, now, &mut self.port);
    }

    /// Takes in about `limit` results of the batch that a worker runs, and returns their number.
    fn take_results(&mut self, slot: SlotId, limit: usize) -> usize {
        let batch = self.core.open_batch(slot);
        let taken = batch.and_then(|batch| self.port.take_results(slot, batch, limit));
        if taken.is_none() {
            self.give_up(slot);
        }
        taken.unwrap_or_default()
    }

    /// Takes in the written part of an unfinished record of results. All records before it must have been taken in.
    pub fn take_growing(&mut self, slot: SlotId) {
        if let Some(batch) = self.core.open_batch(slot)
            && self.port.take_growing(slot, batch).is_none()
        {
            self.give_up(slot);
        }
    }

    /// Calls [`Self::take_growing`] for every worker.
    #[cold]
    pub fn drain_growing(&mut self) {
        if self.port.batches.is_empty() {
            return;
        }
        for slot in self.port.slots() {
            self.take_growing(slot);
        }
        self.settle();
    }

    /// Stops reading a damaged ring, and has its worker killed. The effects in `effects` act on workers, and code outside of
    /// the graph carries them out.
    #[cold]
    fn give_up(&mut self, slot: SlotId) {
        if let Some(channel) = self.port.channel(slot) {
            channel.is_corrupt = true;
        }
        self.port.effects.push(GraphEffect::Kill(slot));
    }

    /// Copies the next record out of a ring and consumes it. A record of results stays in the ring. Gives a damaged ring up.
    #[inline]
    fn next_arrival(&mut self, slot: SlotId) -> Option<ReceivedRecord> {
        let channel = self.port.channels[usize::from(slot.0)]
            .as_mut()
            .filter(|channel| !channel.is_corrupt)?;
        let results = &mut channel.ends.results;
        let read = match results.peek() {
            Ok(None) => return None,
            Ok(Some(record)) => read_arrival(&record).ok(),
            Err(_) => None,
        };
        if read.is_none() {
            self.give_up(slot);
            return None;
        }
        if matches!(read, Some(ReceivedRecord::Results)) {
            return read;
        }
        if results.consume() == gristmill_shm::Tail::Published
            && results.writer_waits(self.port.mode)
        {
            channel.ends.control.peer_bell().wake();
        }
        read
    }
}

/// Maximum number of answers of each ring that a submit completes, once in `SUBMIT_BURST` submits: larger than
/// `SUBMIT_BURST`, so that a loop of submits keeps up.
const SUBMIT_SHARE: usize = 64;

#[inline]
pub(crate) fn read_arrival<W: Words>(
    record: &RingRecord<'_, W>,
) -> Result<ReceivedRecord, FrameError> {
    match record.header().kind {
        RecordKind::Answer => read_answer(record),
        RecordKind::Ready => {
            let mut text = Vec::new();
            record.append_to(8, size_of_bytes(record)?, &mut text)?;
            let failure =
                (record.header().flags != 0).then(|| String::from_utf8_lossy(&text).into());
            Ok(ReceivedRecord::Ready(failure))
        }
        kind @ (RecordKind::Keep | RecordKind::Return) => {
            let offsets = record.counted_words()?;
            let is_keep = kind == RecordKind::Keep;
            Ok(if is_keep {
                ReceivedRecord::Keep(offsets)
            } else {
                ReceivedRecord::Return(offsets)
            })
        }
        RecordKind::Request => {
            let word = record.word(0)?;
            let mut part = Vec::new();
            #[expect(clippy::cast_possible_truncation, reason = "the size is in the low half")]
            record.append_to(8, word as u32, &mut part)?;
            Ok(ReceivedRecord::Request(word, part))
        }
        RecordKind::Results => Ok(ReceivedRecord::Results),
        RecordKind::Left => Ok(ReceivedRecord::Left),
        RecordKind::Wait => {
            Ok(ReceivedRecord::Wait(TaskId::from_word(record.word(0)?), record.word(1)? != 0))
        }
        other => Err(FrameError::UnknownKind(other as u8)),
    }
}

/// Reads the first word of a body that consists of a size and bytes.
fn size_of_bytes<W: Words>(record: &RingRecord<'_, W>) -> Result<u32, FrameError> {
    let size = record.word(0)?;
    u32::try_from(size)
        .map_err(|_| FrameError::BadSize { size: u32::MAX, limit: record.body_size() })
}

#[inline]
fn read_answer<W: Words>(record: &RingRecord<'_, W>) -> Result<ReceivedRecord, FrameError> {
    #[expect(clippy::cast_possible_truncation, reason = "a handful")]
    const FRAME_SIZE: u32 = ANSWER_WORDS as u32 * 8;
    let frame = AnswerFrame::from_words(record.words(0)?)?;
    let needed = FRAME_SIZE.saturating_add(frame.payload_size);
    if needed > record.body_size() {
        let (needed, found) = (needed as usize, record.body_size() as usize);
        return Err(FrameError::Truncated { needed, found });
    }
    let payload = match frame.payload {
        PayloadKind::Inline if frame.payload_size as usize > INLINE_MAX => {
            let mut bytes = Vec::new();
            record.append_to(FRAME_SIZE, frame.payload_size, &mut bytes)?;
            if bytes.len() >= KEPT_MIN {
                return Ok(ReceivedRecord::LargeAnswer(frame, bytes));
            }
            Payload::from(bytes)
        }
        PayloadKind::Inline => {
            let mut outcome = Ok(());
            let payload = Payload::fill_with(frame.payload_size as usize, |space| {
                outcome = record.read(FRAME_SIZE, space);
            });
            outcome?;
            payload
        }
        PayloadKind::Arena => {
            let mut descriptor = Vec::new();
            record.append_to(FRAME_SIZE, frame.payload_size, &mut descriptor)?;
            return Ok(ReceivedRecord::ArenaAnswer(frame, descriptor));
        }
        other @ PayloadKind::Hash => return Err(FrameError::UnknownPayload(other as u8)),
    };
    Ok(ReceivedRecord::Answer(frame, payload))
}
