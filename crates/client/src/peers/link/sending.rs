//! Sending side of a link: messages, which are made into chunks, and pieces of blobs if there is room.

use gristmill_transport::{EnqueueOutcome, Flushed};
use gristmill_wire::peer::{MessageKind, Messages, TaskMessage};
use gristmill_wire::{Attempt, TaskId};

use super::{Link, LinkError, PIECE, WHOLE};
use crate::peers::backlog::{Excess, Waiting};
use crate::peers::cutting::{Cut, cut};
use crate::peers::size_errors::SizeExcess;

/// Pieces of blobs that are sent before other links have their turn.
const FEEDS_TURN: usize = 8;
/// Bytes under way above which no pieces of blobs are added: twice as much as is acknowledged at a time, and less than a tenth
/// of a second on a slow network.
const FEEDS_UNTAKEN: usize = 2 << 20;

impl Link {
    /// Returns true if so much is under way that nothing should be added.
    #[inline]
    pub fn is_congested(&self) -> bool {
        let unsent = self.channel.as_ref().map_or(0, |channel| channel.unsent());
        self.out.len() + unsent.max(self.session.unacknowledged_bytes()) > self.sizes.congested
    }

    /// Hands over the outgoing messages, and pieces of blobs behind them; returns whether the system took everything. If the
    /// connection takes nothing more, [`Self::receive`] returns the error once everything was read.
    pub fn flush(&mut self) -> Flushed {
        if self.unsendable.is_some() {
            return Flushed::Some;
        }
        self.try_flush().unwrap_or_else(|error| {
            self.unsendable = Some(error);
            self.is_readable = true;
            Flushed::Some
        })
    }

    fn try_flush(&mut self) -> Result<Flushed, LinkError> {
        let mut flushed = self.hand_over()?;
        for turn in 0..=FEEDS_TURN {
            if flushed == Flushed::Some || !self.has_room_for_blobs() {
                break;
            }
            if turn == FEEDS_TURN {
                // There is room: the rest goes on as soon as other links had their turn.
                return Ok(Flushed::Some);
            }
            self.traffic.given +=
                self.feeds.next_piece(&mut self.out, self.sizes.piece).unwrap_or(0);
            flushed = self.hand_over()?;
        }
        Ok(flushed)
    }

    /// Returns true if pieces of blobs wait, and so little is under way that messages behind them do not wait.
    fn has_room_for_blobs(&self) -> bool {
        let is_idle = self.out.is_empty() && self.session.unacknowledged_bytes() < FEEDS_UNTAKEN;
        !self.feeds.is_empty() && is_idle && self.is_connected()
    }

    fn hand_over(&mut self) -> Result<Flushed, LinkError> {
        self.pack();
        let Some(channel) = &mut self.channel else { return Ok(Flushed::Some) };
        while let Some(outgoing) = self.session.next_outgoing() {
            self.given = self.given.max((outgoing.head.sequence, outgoing.head.kind));
            channel.send(outgoing.head, outgoing.body)?;
        }
        if self.session.acknowledgement_is_due() {
            channel.send(self.session.unnumbered(WHOLE), &[])?;
        }
        Ok(channel.flush()?)
    }

    /// Makes the outgoing messages into chunks until the session takes no more.
    fn pack(&mut self) {
        let mut start = 0;
        while start < self.out.len() {
            let Cut { end, amid } = cut(&self.out[start..], self.amid, self.sizes.chunk);
            let kind = if amid == 0 { WHOLE } else { PIECE };
            let chunk = self.out[start..start + end].to_vec();
            let EnqueueOutcome::Taken(chunk) = self.session.submit(kind, chunk) else { break };
            start += end;
            self.amid = amid;
            self.packed += end as u64;
            while let Some(&(until, place)) = self.answered.front()
                && until <= self.packed
            {
                self.answered.pop_front();
                self.unconfirmed.push_back((chunk, place));
            }
        }
        self.out.drain(..start);
        self.words = self.words.min(self.out.len());
    }

    /// Returns the size of the largest message that the other end takes, bytes.
    #[inline]
    pub const fn sent_max(&self) -> usize {
        self.sizes.sent
    }

    /// Checks the size of a message, before it is written.
    pub(in crate::peers) const fn check(&self, size: usize) -> Result<(), SizeExcess<'static>> {
        let limit = self.sizes.sent;
        if size > limit { Err(SizeExcess::of_sent(size, limit)) } else { Ok(()) }
    }

    /// Appends a short control message.
    pub fn say(&mut self, write: impl FnOnce(&mut Vec<u8>) -> usize) {
        let size = self.out.len();
        write(&mut self.out);
        self.words += self.out.len() - size;
    }

    /// Checks the amounts waiting for the other end; returns the limit that they exceed, if any.
    pub(in crate::peers) fn excess(&mut self, now: u64) -> Option<Excess> {
        let waiting = Waiting {
            size: self.out.len(),
            words: self.words,
            answers: self.answered.len() + self.unconfirmed.len(),
            confirmed: self.session.acknowledged(),
        };
        self.backlog.check(waiting, &self.sizes.backlog, now)
    }

    /// Records that the answer to an inbound task was written to `out`.
    pub fn note_answer(&mut self, place: u32) {
        self.answered.push_back((self.packed + self.out.len() as u64, place));
    }

    /// Returns true if a connection was given all outgoing messages.
    pub fn has_given_all(&self) -> bool {
        self.out.is_empty() && self.session.never_given().next().is_none()
    }

    /// Returns the tasks that the other end certainly does not have. These are the tasks that no connection was given. If the
    /// other end has sent its last message, they are the tasks that it had not received by then.
    pub fn never_sent(&self) -> Vec<(TaskId, Attempt)> {
        let mut unsent = Vec::new();
        // A message whose beginning is there cannot be read from its end, and counts as sent.
        let mut is_amid = match self.has_ended {
            true => self.session.acknowledged_kind() == Some(PIECE),
            false => self.given.1 == PIECE,
        };
        let mut add = |(kind, body): (u8, &Vec<u8>)| {
            if !is_amid {
                unsent.extend_from_slice(body);
            }
            is_amid &= kind == PIECE;
        };
        match self.has_ended {
            true => self.session.unacknowledged().for_each(&mut add),
            false => self.session.never_given().for_each(&mut add),
        }
        // The messages that are not in chunks yet begin with the rest of that message.
        let rest = if is_amid { self.amid } else { 0 };
        unsent.extend_from_slice(&self.out[rest..]);
        let tasks = Messages::new(&unsent).filter_map(|message| {
            let (kind, body) = message.ok()?;
            let task = (kind == MessageKind::Task).then(|| TaskMessage::read(body))?.ok()?;
            Some((task.task, task.attempt))
        });
        tasks.collect()
    }
}

#[cfg(test)]
mod tests {
    use gristmill_core::FunctionId;
    use gristmill_transport::{SessionOptions, pair};
    use gristmill_wire::Epoch;
    use gristmill_wire::peer::Parted;

    use super::*;
    use crate::peers::heartbeats::LinkLiveness;
    use crate::peers::link::LinkSizes;

    /// Returns a link whose messages go in small chunks, of which at most `chunks` may be under way.
    fn link(chunks: usize) -> Link {
        let options = SessionOptions::default();
        let session = SessionOptions { unacknowledged_chunks_max: chunks, ..options };
        let sizes = LinkSizes { chunk: 64, session, ..LinkSizes::default() };
        let (ours, _) = pair().expect("descriptors");
        let pulse = LinkLiveness::new(1, 1, 0);
        Link::new("one".into(), Epoch(0), (Box::new(ours), sizes), pulse)
    }

    /// Writes a task; returns the offset at which it begins.
    fn write(link: &mut Link, task: TaskId, size: usize) -> usize {
        let begin = link.out.len();
        TaskMessage::write(
            &mut link.out,
            (task, FunctionId(0), Attempt(0)),
            None,
            (0, false),
            |out| Parted::put_plain(out, &vec![7; size]),
        );
        begin
    }

    #[test]
    fn only_what_a_connection_was_given_a_part_of_counts_as_sent() {
        for chunks in 1..20 {
            let mut link = link(chunks);
            let sizes = [200, 1, 300, 1, 1];
            let tasks = (0..).map(|number| TaskId::new(number, 1)).zip(sizes);
            let begins: Vec<_> =
                tasks.map(|(task, size)| (task, write(&mut link, task, size))).collect();
            let size = link.out.len();
            let _ = link.flush();
            let given = size - link.out.len();
            let never: Vec<_> = link.never_sent().into_iter().map(|(task, _)| task).collect();
            let behind = begins.into_iter().filter(|&(_, begin)| begin >= given);
            assert_eq!(never, behind.map(|(task, _)| task).collect::<Vec<_>>(), "{given} bytes");
        }
    }
}
