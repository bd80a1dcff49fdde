//! One link: a connection, what is to be sent over it, and what is known of the other end.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use gristmill_transport::{
    Admission, Arrival, Channel, ChannelError, Flushed, Session, SessionError, SessionOptions,
};
use gristmill_wire::peer::{Grant, MESSAGE_SIZE_MAX, MessageKind, Messages, TaskMessage};
use gristmill_wire::{Attempt, Epoch, FunctionId, IdHasher, TaskId};

use super::backlog::{Backlog, BacklogLimits, Excess, Waiting};
use super::beats::Pulse;
use super::cutting::{Cut, cut};
use super::definitions::{DEFINITIONS_MAX, Definitions};
use crate::blobs::{BlobTraffic, Feeds};

/// How much of what is sent goes at once, and how much before something is confirmed; bytes.
#[derive(Debug, Clone, Copy)]
pub struct LinkSizes {
    /// Of one chunk.
    pub chunk: usize,
    /// On their way to a peer above which it gets no more tasks.
    pub congested: usize,
    /// Of one message that comes.
    pub message: usize,
    /// Of a piece of a blob.
    pub piece: usize,
    /// What is kept until the peer has it.
    pub session: SessionOptions,
    /// What waits for a peer that does not read.
    pub backlog: BacklogLimits,
}

impl Default for LinkSizes {
    /// Chunks large enough for their costs to vanish, small enough for others to get a turn; and on the way enough to fill
    /// any network for a while.
    fn default() -> Self {
        Self {
            chunk: 1 << 20,
            congested: 16 << 20,
            message: MESSAGE_SIZE_MAX,
            // What a slow link takes in a few milliseconds, so that tasks get in between.
            piece: 128 << 10,
            session: SessionOptions::default(),
            backlog: BacklogLimits::default(),
        }
    }
}

/// Pieces of blobs that are sent before others have their turn.
const FEEDS_TURN: usize = 8;
/// Bytes on their way above which no pieces of blobs are added: twice as much as is acknowledged at a time, and less than a
/// tenth of a second on a slow network.
const FEEDS_UNTAKEN: usize = 2 << 20;

/// A chunk that is a message's end, or holds several.
pub(super) const WHOLE: u8 = 1;
/// A piece of a message that goes on in the next chunk.
pub(super) const PIECE: u8 = 2;

/// Why a link is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection; another one may do.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// What the other end says it has cannot be.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Bytes that are no message.
    #[error("it sent what is no message: {0}")]
    Message(#[from] gristmill_wire::FrameError),
    /// Pieces of a message that is larger than any.
    #[error("it sent {size} bytes of one message, of which {limit} may come")]
    TooLarge {
        /// Bytes that came.
        size: usize,
        /// Bytes that may.
        limit: usize,
    },
    /// It defines more than may be kept of it.
    #[error(
        "with {name} the definitions of its functions take {size} bytes here, of which it may have {DEFINITIONS_MAX}: give \
         large data to its tasks as arguments"
    )]
    Definitions {
        /// The function that is one too many.
        name: String,
        /// What all would take, bytes.
        size: usize,
    },
    /// A task of a function that it never told of.
    #[error("it sent a task of {0}, which it has not defined")]
    Undefined(FunctionId),
    /// More waits for it than may.
    #[error(transparent)]
    Excess(#[from] Excess),
    /// A word that is not for its side.
    #[error("it asked for {0} tasks, as only a client does of its nodes")]
    Wanted(u32),
    /// A task in the place of one that runs.
    #[error("it sent {0} again, which it has sent and was not answered")]
    Again(TaskId),
}

impl LinkError {
    /// Whether the same lease can go on over another connection.
    pub fn can_resume(&self) -> bool {
        matches!(self, Self::Channel(_))
    }

    /// Whether the other end has closed the connection in order: it has nothing more to say, and will not come again.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Channel(ChannelError::Closed { .. }))
    }
}

/// What one chunk was.
#[derive(Debug)]
#[must_use]
pub(super) enum Came {
    /// There was none.
    Nothing,
    /// No message ends in it; its bytes.
    Part(usize),
    /// Whole messages.
    Messages,
}

/// One link.
pub struct Link {
    /// What the other end is called, for messages.
    pub name: Arc<str>,
    /// What its owner says of it, as `name=value` lines.
    pub labels: Arc<str>,
    /// Which of those that had its number.
    pub epoch: Epoch,
    /// What the other end runs for this one.
    pub grant: Grant,
    /// When the other end is over, monotonic nanoseconds; `u64::MAX` is not known.
    pub ends_at_ns: u64,
    /// Signs of life.
    pub pulse: Pulse,
    /// What the other end's function ids stand for here.
    pub functions: Definitions,
    /// Where its tasks are among the guests, by their ids there.
    pub guests: HashMap<TaskId, u32, BuildHasherDefault<IdHasher>>,
    /// Guests whose answers are in `out`, each with how many bytes will have left then.
    answered: VecDeque<(u64, u32)>,
    /// Guests whose answers have left, each with the last chunk that may hold its answer.
    unconfirmed: VecDeque<(u64, u32)>,
    /// Times that the other end was told to send nothing more, and has not said that it does not. It may be told again
    /// before it has answered.
    pub drains_open: u32,
    /// Tasks of its tasks that it was asked for.
    pub wanted: u32,
    /// The graph was told that it gets nothing more for now.
    pub is_held: bool,
    /// Something may have come that was not read.
    pub is_readable: bool,
    /// The system took only a part: it is watched for room.
    pub waits_for_room: bool,
    /// This side has said its last word.
    pub is_ending: bool,
    /// Blobs that the other end is given.
    pub feeds: Feeds,
    /// Bytes of blobs that had to do with it.
    pub traffic: BlobTraffic,
    channel: Option<Box<dyn Channel + Send>>,
    /// Why the connection takes nothing more. What has come over it is read first: the last word of the other end, which
    /// closes behind it, may be there.
    unsendable: Option<LinkError>,
    session: Session<Vec<u8>>,
    sizes: LinkSizes,
    /// Messages that are to leave.
    pub out: Vec<u8>,
    /// Bytes of short words among them, or a few more.
    words: usize,
    backlog: Backlog,
    /// Bytes at the beginning of `out` that are the rest of a message.
    amid: usize,
    /// Bytes that were made chunks.
    packed: u64,
    /// The beginning of a message whose end is under way.
    partial: Vec<u8>,
    /// The last chunk that any connection was given, and its kind.
    given: (u64, u8),
    /// What the connection had received when it was asked last, bytes.
    seen_bytes: u64,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("name", &self.name)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// One over a connection whose two ends have agreed to talk.
    #[must_use]
    pub fn new(
        name: Arc<str>,
        epoch: Epoch,
        (channel, sizes): (Box<dyn Channel + Send>, LinkSizes),
        pulse: Pulse,
    ) -> Self {
        Self {
            name,
            labels: Arc::from(""),
            epoch,
            grant: Grant::NOTHING,
            ends_at_ns: u64::MAX,
            pulse,
            functions: Definitions::default(),
            guests: HashMap::default(),
            answered: VecDeque::new(),
            unconfirmed: VecDeque::new(),
            drains_open: 0,
            wanted: 0,
            is_held: false,
            is_readable: true,
            waits_for_room: false,
            is_ending: false,
            feeds: Feeds::default(),
            traffic: BlobTraffic::default(),
            channel: Some(channel),
            unsendable: None,
            session: Session::new(sizes.session),
            sizes,
            out: Vec::new(),
            words: 0,
            backlog: Backlog::default(),
            amid: 0,
            packed: 0,
            partial: Vec::new(),
            given: (0, WHOLE),
            seen_bytes: 0,
        }
    }

    /// Goes on over another connection, whose other end has `received` chunks.
    pub fn resume(
        &mut self,
        channel: Box<dyn Channel + Send>,
        received: u64,
    ) -> Result<(), LinkError> {
        self.session.resume(received)?;
        self.channel = Some(channel);
        self.is_readable = true;
        Ok(())
    }

    /// Chunks that came in: what a new connection begins with.
    pub fn received(&self) -> u64 {
        self.session.received()
    }

    /// Whether the other end should be told at once what has come.
    pub fn acknowledgement_is_due(&self) -> bool {
        self.session.acknowledgement_is_due()
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.channel.is_some()
    }

    /// Gives the connection up.
    pub fn disconnect(&mut self) -> Option<Box<dyn Channel + Send>> {
        self.unsendable = None;
        self.channel.take()
    }

    /// Whether there is a connection that takes nothing more, and may have something to be read.
    pub fn is_unsendable(&self) -> bool {
        self.unsendable.is_some()
    }

    /// The connection.
    #[must_use]
    pub fn channel(&self) -> Option<&(dyn Channel + Send)> {
        self.channel.as_deref()
    }

    /// Whether so much is on its way that nothing should be added.
    #[inline]
    pub fn is_congested(&self) -> bool {
        let unsent = self.channel.as_ref().map_or(0, |channel| channel.unsent());
        self.out.len() + unsent.max(self.session.unacknowledged_bytes()) > self.sizes.congested
    }

    /// Hands over what is to leave, and pieces of blobs behind it; says whether the system took it all. Where it takes nothing
    /// more [`Self::receive`] says so once everything was read.
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
                // The rest goes on as soon as others had their turn: there is room.
                return Ok(Flushed::Some);
            }
            self.traffic.given +=
                self.feeds.next_piece(&mut self.out, self.sizes.piece).unwrap_or(0);
            flushed = self.hand_over()?;
        }
        Ok(flushed)
    }

    /// Whether pieces of blobs are to be sent, and little enough is on its way that what comes after them does not wait.
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

    /// Makes chunks of the messages that are to leave, as far as the session takes them.
    fn pack(&mut self) {
        let mut start = 0;
        while start < self.out.len() {
            let Cut { end, amid } = cut(&self.out[start..], self.amid, self.sizes.chunk);
            let kind = if amid == 0 { WHOLE } else { PIECE };
            let chunk = self.out[start..start + end].to_vec();
            let Admission::Taken(chunk) = self.session.submit(kind, chunk) else { break };
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

    /// Adds a short word.
    pub fn say(&mut self, write: impl FnOnce(&mut Vec<u8>) -> usize) {
        let size = self.out.len();
        write(&mut self.out);
        self.words += self.out.len() - size;
    }

    /// Looks at what waits for the other end; gives why that is too much.
    pub(super) fn excess(&mut self, now: u64) -> Option<Excess> {
        let waiting = Waiting {
            size: self.out.len(),
            words: self.words,
            answers: self.answered.len() + self.unconfirmed.len(),
            confirmed: self.session.acknowledged(),
        };
        self.backlog.check(waiting, &self.sizes.backlog, now)
    }

    /// The answer to a guest was written.
    pub fn note_answer(&mut self, place: u32) {
        self.answered.push_back((self.packed + self.out.len() as u64, place));
    }

    /// The places of its tasks among the guests, also of earlier placements whose answers are under way.
    pub fn guest_places(&self) -> Vec<u32> {
        let unconfirmed = self.unconfirmed.iter().map(|&(_, place)| place);
        self.guests
            .values()
            .copied()
            .chain(self.answered.iter().map(|&(_, place)| place))
            .chain(unconfirmed)
            .collect()
    }

    /// Whether the other end has every answer.
    pub fn is_confirmed(&self) -> bool {
        self.unconfirmed.is_empty() && self.answered.is_empty()
    }

    /// The tasks that no connection was given: the other end does not have them.
    pub fn never_sent(&self) -> Vec<(TaskId, Attempt)> {
        // A message whose beginning has left cannot be read from its end, and counts as sent.
        let mut is_amid = self.given.1 == PIECE;
        let mut unsent = Vec::new();
        for (kind, body) in self.session.never_given() {
            if !is_amid {
                unsent.extend_from_slice(body);
            }
            is_amid &= kind == PIECE;
        }
        if !is_amid {
            unsent.extend_from_slice(&self.out);
        }
        let tasks = Messages::new(&unsent).filter_map(|message| {
            let (kind, body) = message.ok()?;
            let task = (kind == MessageKind::Task).then(|| TaskMessage::read(body))?.ok()?;
            Some((task.task, task.attempt))
        });
        tasks.collect()
    }

    /// A guest whose answer the other end has for certain; each once.
    pub fn next_confirmed(&mut self) -> Option<u32> {
        let &(chunk, place) = self.unconfirmed.front()?;
        if chunk > self.session.acknowledged() {
            return None;
        }
        self.unconfirmed.pop_front();
        Some(place)
    }

    /// Whether anything has come since the last question, be it a part of a message that takes long.
    pub fn has_heard(&mut self) -> bool {
        let bytes =
            self.channel.as_ref().map_or(self.seen_bytes, |channel| channel.received_bytes());
        std::mem::replace(&mut self.seen_bytes, bytes) != bytes
    }

    /// The next messages that have come, in place of what `chunk` held; false: nothing more is there.
    ///
    /// # Errors
    /// The link is of no use any more, or its connection is not.
    pub fn receive(&mut self, chunk: &mut Vec<u8>) -> Result<bool, LinkError> {
        loop {
            match self.receive_one(chunk)? {
                Came::Nothing => return Ok(false),
                Came::Part(_) => {}
                Came::Messages => return Ok(true),
            }
        }
    }

    /// The same of one chunk.
    ///
    /// # Errors
    /// As above.
    pub(super) fn receive_one(&mut self, chunk: &mut Vec<u8>) -> Result<Came, LinkError> {
        let Some(channel) = &mut self.channel else { return Ok(Came::Nothing) };
        let came = match channel.receive(chunk)? {
            // It may have spared itself a look for more.
            None if self.unsendable.is_some() => channel.receive(chunk)?,
            came => came,
        };
        let Some(head) = came else {
            return self.unsendable.take().map_or(Ok(Came::Nothing), Err);
        };
        let bytes = chunk.len();
        if self.session.accept(&head, bytes)? != Arrival::Fresh {
            return Ok(Came::Part(bytes));
        }
        if head.kind == PIECE || !self.partial.is_empty() {
            self.partial.append(chunk);
        }
        if head.kind == PIECE {
            let (size, limit) = (self.partial.len(), self.sizes.message);
            if size > limit {
                return Err(LinkError::TooLarge { size, limit });
            }
            return Ok(Came::Part(bytes));
        }
        if !self.partial.is_empty() {
            *chunk = std::mem::take(&mut self.partial);
        }
        Ok(Came::Messages)
    }
}

#[cfg(test)]
mod tests {
    use gristmill_transport::{ChunkHead, InprocChannel, pair};

    use super::*;

    /// A link that takes messages of so many bytes, and the other end.
    fn link(message: usize) -> (Link, InprocChannel) {
        let (ours, theirs) = pair().expect("descriptors");
        let sizes = LinkSizes { message, ..LinkSizes::default() };
        let pulse = Pulse::new(1, 1, 0);
        (Link::new("one".into(), Epoch(0), (Box::new(ours), sizes), pulse), theirs)
    }

    fn send(channel: &mut InprocChannel, kind: u8, sequence: u64, body: &[u8]) {
        let head = ChunkHead { kind, sequence, acknowledged: 0 };
        channel.send(head, body).expect("it is open");
        assert_eq!(channel.flush().expect("it is open"), Flushed::All);
    }

    #[test]
    fn pieces_make_a_message_up_to_the_largest() {
        let (mut link, mut channel) = link(16);
        send(&mut channel, PIECE, 1, &[1; 8]);
        send(&mut channel, PIECE, 2, &[2; 8]);
        send(&mut channel, WHOLE, 3, &[3; 8]);
        let mut chunk = Vec::new();
        assert!(link.receive(&mut chunk).expect("it is not too large"));
        assert_eq!(chunk.len(), 24);
    }

    #[test]
    fn pieces_without_end_end_the_link_with_a_sentence() {
        let (mut link, mut channel) = link(16);
        for sequence in 1..=3 {
            send(&mut channel, PIECE, sequence, &[1; 8]);
        }
        let error = link.receive(&mut Vec::new()).expect_err("it is too large");
        assert_eq!(error.to_string(), "it sent 24 bytes of one message, of which 16 may come");
        assert!(!error.can_resume(), "another connection would bring the same");
    }
}
