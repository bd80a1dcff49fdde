//! Taking in what workers wrote.

use gristmill_core::Payload;
use gristmill_shm::{Record, Words};
use gristmill_wire::{ANSWER_WORDS, AnswerFrame, FrameError, Kind, PayloadKind, SlotId};

use crate::inner::Inner;
use crate::lanes::Order;
use crate::lead::Leader;

/// One record, copied out of a result ring.
pub(crate) enum Arrival {
    Answer(AnswerFrame, Payload),
    /// The initializer returned, or raised this.
    Ready(Option<String>),
    /// The running task submits or waits.
    Nested(Kind, Vec<u8>),
}

impl Inner {
    /// Completes everything that has arrived, and does what is due by the clock.
    pub fn drain(&mut self) {
        let now = self.lanes.read_clock();
        let mut count = 0;
        for slot in 0..self.lanes.lanes.len() {
            count +=
                self.drain_lane(SlotId(u16::try_from(slot).unwrap_or(u16::MAX)), usize::MAX, now);
        }
        if self.core.next_wake(now).is_some_and(|wake| wake <= now) {
            self.core.poll(now, &mut self.lanes);
        }
        if count > 0 {
            self.attended();
        }
        self.settle();
    }

    /// Completes a few results of each ring: what a submit does in passing.
    #[inline]
    pub fn drain_little(&mut self, now: u64) {
        for slot in 0..self.lanes.lanes.len() {
            let is_waiting = self.lanes.lanes[slot]
                .as_ref()
                .is_some_and(|lane| lane.ends.results.has_record() && !lane.is_corrupt);
            if is_waiting {
                let slot = SlotId(u16::try_from(slot).unwrap_or(u16::MAX));
                self.drain_lane(slot, SUBMIT_SHARE, now);
                self.attended();
            }
        }
    }

    /// Records were taken in: the attendant need not hurry, and whoever watches the rings has to look anew.
    fn attended(&mut self) {
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
            count += 1;
            match arrival {
                Arrival::Answer(frame, payload) => {
                    let _ = self.core.answered(slot, &frame, payload, now, &mut self.lanes);
                }
                Arrival::Ready(failure) => self.worker_ready(slot, failure, now),
                Arrival::Nested(kind, body) => self.nested_arrival(slot, kind, &body, now),
            }
        }
        count
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
            lane.is_corrupt = true;
            self.lanes.orders.push(Order::Kill(slot));
            return None;
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
        kind @ (Kind::Request | Kind::Wait) => {
            let mut body = Vec::new();
            record.append_to(0, record.body_size(), &mut body)?;
            Ok(Arrival::Nested(kind, body))
        }
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
        other => return Err(FrameError::UnknownPayload(other as u8)),
    };
    Ok(Arrival::Answer(frame, payload))
}
