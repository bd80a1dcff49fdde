//! One link: a connection, what is to be sent over it, and what is known of the other end.

mod error;
mod receiving;
mod sending;
mod sizes;

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use gristmill_transport::{Channel, Session};
use gristmill_wire::peer::Grant;
use gristmill_wire::{Epoch, IdHasher, TaskId};

pub use self::error::LinkError;
pub(super) use self::receiving::Came;
pub use self::sizes::LinkSizes;
use super::backlog::Backlog;
use super::beats::Pulse;
use super::contexts::LinkContexts;
use super::definitions::Definitions;
use crate::blobs::{BlobTraffic, Feeds};

/// A chunk that is a message's end, or holds several.
pub(super) const WHOLE: u8 = 1;
/// A piece of a message that goes on in the next chunk.
pub(super) const PIECE: u8 = 2;

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
    /// Contexts of either end that the other one knows.
    pub contexts: LinkContexts,
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
    /// The other end has said its last word: it takes nothing more.
    pub has_ended: bool,
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
            contexts: LinkContexts::default(),
            guests: HashMap::default(),
            answered: VecDeque::new(),
            unconfirmed: VecDeque::new(),
            drains_open: 0,
            wanted: 0,
            is_held: false,
            is_readable: true,
            waits_for_room: false,
            is_ending: false,
            has_ended: false,
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

    /// A guest whose answer the other end has for certain; each once.
    pub fn next_confirmed(&mut self) -> Option<u32> {
        let &(chunk, place) = self.unconfirmed.front()?;
        if chunk > self.session.acknowledged() {
            return None;
        }
        self.unconfirmed.pop_front();
        Some(place)
    }
}
