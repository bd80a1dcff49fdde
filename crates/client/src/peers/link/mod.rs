//! One link: a connection, the data to be sent over it, and the state of the other end.

mod assembly;
mod error;
mod receiving;
mod sending;
mod sizes;

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use gristmill_transport::{Channel, Session};
use gristmill_wire::peer::LeaseGrant;
use gristmill_wire::{Epoch, IdHasher, TaskId};

use self::assembly::Assembly;
pub(super) use self::assembly::OversizedMessage;
pub use self::error::LinkError;
pub(super) use self::receiving::Came;
pub use self::sizes::LinkSizes;
use super::backlog::StallDetector;
use super::contexts::LinkContexts;
use super::heartbeats::LinkLiveness;
use super::peer_functions::PeerFunctions;
use crate::blobs::{BlobTraffic, OutboundBlobs};

/// Kind of a chunk that ends where a message ends.
pub(super) const WHOLE: u8 = 1;
/// Kind of a chunk that ends within a message, which goes on in the next chunk.
pub(super) const PIECE: u8 = 2;

/// The names of the two ends of a link, for messages.
#[derive(Debug)]
pub struct LinkNames {
    /// Name of the other end.
    pub theirs: Arc<str>,
    /// Name that the other end knows this one by; empty for a program.
    pub ours: Arc<str>,
}

/// One link.
pub struct Link {
    /// Names of both ends.
    pub names: LinkNames,
    /// Labels of the other end from its owner, as `name=value` lines.
    pub labels: Arc<str>,
    /// Epoch that tells this peer from others that had its number.
    pub epoch: Epoch,
    /// Workers, memory and GPUs that the other end grants this one.
    pub grant: LeaseGrant,
    /// Time when the other end is over, monotonic nanoseconds; `u64::MAX` if it is not known.
    pub ends_at_ns: u64,
    /// Heartbeats and signs of life.
    pub heartbeat: LinkLiveness,
    /// Functions here that the other end's function ids stand for.
    pub functions: PeerFunctions,
    /// Contexts of either end that the other end knows.
    pub contexts: LinkContexts,
    /// Indices of the other end's tasks among the inbound tasks, by their ids there.
    pub inbound: HashMap<TaskId, u32, BuildHasherDefault<IdHasher>>,
    /// Inbound tasks whose answers are in `out`: the value of `packed` at the end of the answer, and the task's index.
    answered: VecDeque<(u64, u32)>,
    /// Inbound tasks whose answers have left: the last chunk that may hold the answer, and the task's index.
    unconfirmed: VecDeque<(u64, u32)>,
    /// Number of messages that told the other end to send nothing more and that it has not confirmed yet.
    pub drains_open: u32,
    /// Number of nested tasks that the other end was asked for.
    pub wanted: u32,
    /// True if the task graph was told that the other end gets nothing more for now.
    pub is_held: bool,
    /// True if something may have come that was not read.
    pub is_readable: bool,
    /// True if the system took only a part, so that the connection is watched for room.
    pub waits_for_room: bool,
    /// True if this side has sent its last message.
    pub is_ending: bool,
    /// True if the other end has sent its last message and takes nothing more.
    pub has_ended: bool,
    /// Blobs that are sent to the other end.
    pub feeds: OutboundBlobs,
    /// Counts of blob bytes for this link.
    pub traffic: BlobTraffic,
    channel: Option<Box<dyn Channel + Send>>,
    /// Reason why the connection takes nothing more. What has come over it is read first, because this may include the last
    /// message of the other end, which then closes the connection.
    unsendable: Option<LinkError>,
    session: Session<Vec<u8>>,
    sizes: LinkSizes,
    /// Messages that wait to be sent.
    pub out: Vec<u8>,
    /// Bytes of control messages in `out`, or slightly more.
    words: usize,
    backlog: StallDetector,
    /// Bytes at the beginning of `out` that are the rest of a message.
    amid: usize,
    /// Bytes that were made into chunks.
    packed: u64,
    /// The beginning of a message whose end is under way.
    partial: Assembly,
    /// The last chunk that was given to any connection, and its kind.
    given: (u64, u8),
    /// Bytes that the connection had received at the last check.
    seen_bytes: u64,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("name", &self.names.theirs)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// Creates a link over a connection whose two ends have agreed to talk.
    #[must_use]
    pub fn new(
        name: Arc<str>,
        epoch: Epoch,
        (channel, sizes): (Box<dyn Channel + Send>, LinkSizes),
        pulse: LinkLiveness,
    ) -> Self {
        Self {
            names: LinkNames { theirs: name, ours: Arc::from("") },
            labels: Arc::from(""),
            epoch,
            grant: LeaseGrant::NOTHING,
            ends_at_ns: u64::MAX,
            heartbeat: pulse,
            functions: PeerFunctions::default(),
            contexts: LinkContexts::default(),
            inbound: HashMap::default(),
            answered: VecDeque::new(),
            unconfirmed: VecDeque::new(),
            drains_open: 0,
            wanted: 0,
            is_held: false,
            is_readable: true,
            waits_for_room: false,
            is_ending: false,
            has_ended: false,
            feeds: OutboundBlobs::default(),
            traffic: BlobTraffic::default(),
            channel: Some(channel),
            unsendable: None,
            session: Session::new(sizes.session),
            sizes,
            out: Vec::new(),
            words: 0,
            backlog: StallDetector::default(),
            amid: 0,
            packed: 0,
            partial: Assembly::default(),
            given: (0, WHOLE),
            seen_bytes: 0,
        }
    }

    /// Resumes over another connection, whose other end has `received` chunks.
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

    /// Returns the number of chunks that came in, with which a new connection begins.
    pub fn received(&self) -> u64 {
        self.session.received()
    }

    /// Returns true if the other end should be told at once what has come.
    pub fn acknowledgement_is_due(&self) -> bool {
        self.session.acknowledgement_is_due()
    }

    /// Returns true if there is a connection.
    pub fn is_connected(&self) -> bool {
        self.channel.is_some()
    }

    /// Gives up the connection and returns it.
    pub fn disconnect(&mut self) -> Option<Box<dyn Channel + Send>> {
        self.unsendable = None;
        self.channel.take()
    }

    /// Returns true if there is a connection that takes nothing more, and may have something to be read.
    pub fn is_unsendable(&self) -> bool {
        self.unsendable.is_some()
    }

    /// Returns the connection.
    #[must_use]
    pub fn channel(&self) -> Option<&(dyn Channel + Send)> {
        self.channel.as_deref()
    }

    /// Returns the indices of the other end's tasks among the inbound tasks, including earlier placements whose answers are
    /// under way.
    pub fn inbound_indices(&self) -> Vec<u32> {
        let unconfirmed = self.unconfirmed.iter().map(|&(_, place)| place);
        self.inbound
            .values()
            .copied()
            .chain(self.answered.iter().map(|&(_, place)| place))
            .chain(unconfirmed)
            .collect()
    }

    /// Returns true if the other end has confirmed every answer.
    pub fn is_confirmed(&self) -> bool {
        self.unconfirmed.is_empty() && self.answered.is_empty()
    }

    /// Returns the index of an inbound task whose answer the other end has for certain; each index once.
    pub fn next_confirmed(&mut self) -> Option<u32> {
        let &(chunk, place) = self.unconfirmed.front()?;
        if chunk > self.session.acknowledged() {
            return None;
        }
        self.unconfirmed.pop_front();
        Some(place)
    }
}
