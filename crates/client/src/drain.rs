//! Taking in what workers wrote.

use gristmill_core::Payload;
use gristmill_shm::{Record, Words};
use gristmill_wire::{ANSWER_WORDS, AnswerFrame, FrameError, Kind, PayloadKind, SlotId, TaskId};

use crate::blobs::BlobWork as _;
use crate::inner::Inner;
use crate::lanes::{Lanes, Order};
use crate::lead::Leader;
use crate::peers::LinkWork;

/// One record, copied out of a result ring.
pub(crate) enum Arrival {
    Answer(AnswerFrame, Payload),
    /// An answer with blocks; its descriptor.
    ArenaAnswer(AnswerFrame, Vec<u8>),
    /// The worker goes on using these blocks.
    Keep(Vec<u64>),
    /// It has finished with them.
    Return(Vec<u64>),
    /// The initializer returned, or raised this.
    Ready(Option<String>),
    /// The running task asks for something, or a part of that; the word in front of it.
    Request(u64, Vec<u8>),
    /// A task waits for others, or has ceased to.
    Wait(TaskId, bool),
    /// Results of a batch, which are still in the ring.
    Results,
}

impl Inner {
    /// Completes everything that has arrived, and does what is due by the clock.
    pub fn drain(&mut self) {
        self.lanes.links.look();
        self.drain_known();
    }

    /// As [`Self::drain`], but reads links only where a sleep or a look has told of something: for those who sleep next, or
    /// have just slept.
    pub fn drain_known(&mut self) {
        let now = self.lanes.read_clock();
        let mut count = 0;
        for slot in self.lanes.slots() {
            if self.lanes.has_arrived(slot) {
                count += self.drain_lane(slot, usize::MAX, now);
            }
        }
        self.nested_flush();
        if self.lanes.links.sleeper().is_some() {
            count += self.drain_links();
            self.take_blob_news(now);
            self.lanes.links.has_outgoing |= count > 0 || self.lanes.links.waits_for_room;
        }
        if self.core.next_wake(now).is_some_and(|wake| wake <= now) {
            self.core.poll(now, &mut self.lanes);
        }
        if count > 0 {
            self.attended();
        }
        self.settle();
        if self.lanes.links.is_lease && self.lanes.links.is_used() {
            self.tell_surplus(now);
        }
        if self.lanes.links.has_outgoing {
            self.flush_links(now);
        }
    }

    /// Lets idle workers have a part of what waits elsewhere, before this thread waits itself.
    pub fn spread(&mut self) {
        let now = self.lanes.now();
        self.core.spread(now, &mut self.lanes);
        self.settle();
        if self.lanes.links.has_outgoing {
            self.flush_links(now);
        }
    }

    /// Completes a few results of each ring: what a submit does in passing.
    #[inline]
    pub fn drain_little(&mut self, now: u64) {
        for slot in self.lanes.slots() {
            if self.lanes.has_arrived(slot) {
                self.drain_lane(slot, SUBMIT_SHARE, now);
                self.attended();
            }
        }
        if self.lanes.links.is_used() {
            self.links_in_passing(now);
        }
    }

    /// Records were taken in: the attendant need not hurry, and whoever watches the rings has to look anew.
    pub fn attended(&mut self) {
        self.lead.note_attended();
        if self.lead.leader() != Leader::Nobody {
            self.shared.kick();
        }
    }

    /// Completes up to `limit` records of one ring; gives how many.
    pub fn drain_lane(&mut self, slot: SlotId, limit: usize, now: u64) -> usize {
        let mut count = 0;
        while count < limit {
            let Some(arrival) = self.next_arrival(slot) else { break };
            count += usize::from(!matches!(arrival, Arrival::Results));
            match arrival {
                Arrival::Results => count += self.take_results(slot, limit - count),
                Arrival::Answer(frame, payload) => {
                    self.lanes.note_read(slot, frame.sequence);
                    let _ = self.core.answered(slot, &frame, payload, now, &mut self.lanes);
                }
                Arrival::ArenaAnswer(frame, descriptor) => {
                    self.lanes.note_read(slot, frame.sequence);
                    let Lanes { bundles, arena, .. } = &mut self.lanes;
                    let Ok(payload) = bundles.receive(arena, slot, &descriptor) else {
                        self.give_up(slot);
                        break;
                    };
                    let _ = self.core.answered(slot, &frame, payload, now, &mut self.lanes);
                }
                Arrival::Keep(offsets) => {
                    if !self.lanes.keep(slot, &offsets) {
                        self.give_up(slot);
                        break;
                    }
                }
                Arrival::Return(offsets) => self.lanes.unkeep(slot, &offsets),
                Arrival::Ready(failure) => self.worker_ready(slot, failure, now),
                Arrival::Request(word, part) => {
                    if self.nested_request(slot, word, &part, now).is_err() {
                        self.give_up(slot);
                    }
                }
                Arrival::Wait(task, is_on) => {
                    self.nested.is_used = true;
                    self.core.waiting(slot, task, is_on, now, &mut self.lanes);
                }
            }
        }
        count
    }

    /// Takes in about `limit` results of the batch that a worker runs; gives how many.
    fn take_results(&mut self, slot: SlotId, limit: usize) -> usize {
        let batch = self.core.open_batch(slot);
        let taken = batch.and_then(|batch| self.lanes.take_results(slot, batch, limit));
        if taken.is_none() {
            self.give_up(slot);
        }
        taken.unwrap_or_default()
    }

    /// Takes in what a worker has written of a record of results that is not finished, once all before it was taken in.
    pub fn take_growing(&mut self, slot: SlotId) {
        if let Some(batch) = self.core.open_batch(slot)
            && self.lanes.take_growing(slot, batch).is_none()
        {
            self.give_up(slot);
        }
    }

    /// As [`Self::take_growing`], of every worker.
    #[cold]
    pub fn drain_growing(&mut self) {
        if self.lanes.batches.is_empty() {
            return;
        }
        for slot in self.lanes.slots() {
            self.take_growing(slot);
        }
        self.settle();
    }

    /// Reads nothing more of a damaged ring, and has its worker killed.
    #[cold]
    fn give_up(&mut self, slot: SlotId) {
        if let Some(lane) = self.lanes.lane(slot) {
            lane.is_corrupt = true;
        }
        self.lanes.orders.push(Order::Kill(slot));
    }

    /// Copies the next record out. A damaged ring is read no further, and its worker killed.
    #[inline]
    fn next_arrival(&mut self, slot: SlotId) -> Option<Arrival> {
        let lane =
            self.lanes.lanes[usize::from(slot.0)].as_mut().filter(|lane| !lane.is_corrupt)?;
        let results = &mut lane.ends.results;
        let read = match results.peek() {
            Ok(None) => return None,
            Ok(Some(record)) => read_arrival(&record).ok(),
            Err(_) => None,
        };
        if read.is_none() {
            self.give_up(slot);
            return None;
        }
        if matches!(read, Some(Arrival::Results)) {
            return read;
        }
        if results.consume() == gristmill_shm::Tail::Published
            && results.writer_waits(self.lanes.mode)
        {
            lane.ends.control.peer_bell().wake();
        }
        read
    }
}

/// Answers that one submit in a burst completes per ring: more than the burst, so that a loop of submits keeps up.
const SUBMIT_SHARE: usize = 64;

#[inline]
pub(crate) fn read_arrival<W: Words>(record: &Record<'_, W>) -> Result<Arrival, FrameError> {
    match record.header().kind {
        Kind::Answer => read_answer(record),
        Kind::Ready => {
            let mut text = Vec::new();
            record.append_to(8, size_of_bytes(record)?, &mut text)?;
            let failure =
                (record.header().flags != 0).then(|| String::from_utf8_lossy(&text).into());
            Ok(Arrival::Ready(failure))
        }
        kind @ (Kind::Keep | Kind::Return) => {
            let offsets = record.counted_words()?;
            let is_keep = kind == Kind::Keep;
            Ok(if is_keep { Arrival::Keep(offsets) } else { Arrival::Return(offsets) })
        }
        Kind::Request => {
            let word = record.word(0)?;
            let mut part = Vec::new();
            #[expect(clippy::cast_possible_truncation, reason = "the size is in the low half")]
            record.append_to(8, word as u32, &mut part)?;
            Ok(Arrival::Request(word, part))
        }
        Kind::Results => Ok(Arrival::Results),
        Kind::Wait => Ok(Arrival::Wait(TaskId::from_word(record.word(0)?), record.word(1)? != 0)),
        other => Err(FrameError::UnknownKind(other as u8)),
    }
}

/// The first word of a body that is a size and bytes.
fn size_of_bytes<W: Words>(record: &Record<'_, W>) -> Result<u32, FrameError> {
    let size = record.word(0)?;
    u32::try_from(size)
        .map_err(|_| FrameError::BadSize { size: u32::MAX, limit: record.body_size() })
}

#[inline]
fn read_answer<W: Words>(record: &Record<'_, W>) -> Result<Arrival, FrameError> {
    #[expect(clippy::cast_possible_truncation, reason = "a handful")]
    const FRAME_SIZE: u32 = ANSWER_WORDS as u32 * 8;
    let frame = AnswerFrame::from_words(record.words(0)?)?;
    let needed = FRAME_SIZE.saturating_add(frame.payload_size);
    if needed > record.body_size() {
        let (needed, found) = (needed as usize, record.body_size() as usize);
        return Err(FrameError::Truncated { needed, found });
    }
    let payload = match frame.payload {
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
            return Ok(Arrival::ArenaAnswer(frame, descriptor));
        }
        other @ PayloadKind::Hash => return Err(FrameError::UnknownPayload(other as u8)),
    };
    Ok(Arrival::Answer(frame, payload))
}
