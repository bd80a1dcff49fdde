//! The table of links.

use std::sync::Arc;

use gristmill_core::PeerOffer;
use gristmill_transport::{Channel, Ready, Sleeper};
use gristmill_wire::peer::LeaseGrant;
use gristmill_wire::{Epoch, PeerId};

use super::heartbeats::LinkLiveness;
use super::link::{Came, Link, LinkError, LinkSizes};
use crate::blobs::BlobTraffic;

/// A connection whose two ends have agreed to talk.
pub struct NewLink {
    /// Name of the other end, for messages.
    pub name: String,
    /// The connection.
    pub channel: Box<dyn Channel + Send>,
    /// Interval at which each side sends heartbeats, nanoseconds.
    pub beat_ns: u64,
    /// Longest silence, nanoseconds.
    pub expiry_ns: u64,
    /// Workers, memory and GPUs that the other end grants this one.
    pub grant: LeaseGrant,
    /// Labels of the other end from its owner, as `name=value` lines.
    pub labels: String,
    /// Name that the other end knows this one by, for messages to it; empty for a program.
    pub own_name: String,
    /// The largest message that the other end takes in several chunks, bytes.
    pub message_max: u64,
}

/// Snapshot of one link.
#[derive(Debug, Clone)]
pub struct PeerView {
    /// Number of the peer.
    pub peer: PeerId,
    /// Name of the other end.
    pub name: Arc<str>,
    /// Labels of the other end from its owner, as `name=value` lines.
    pub labels: Arc<str>,
    /// True if there is a connection now.
    pub is_connected: bool,
    /// True if the peer gets nothing for a while because its workers died again and again.
    pub is_distrusted: bool,
    /// Shortest time from a heartbeat to its echo, nanoseconds; `u64::MAX` if it is not known yet.
    pub round_trip_ns: u64,
    /// Workers that are up there.
    pub workers: u32,
    /// Tasks that wait there, and tasks that its workers have.
    pub tasks: [u32; 2],
    /// Total time that tasks have run there so far, nanoseconds.
    pub busy_ns: u64,
    /// Time when the link was made, monotonic nanoseconds.
    pub since_ns: u64,
    /// Time when the other end is over, monotonic nanoseconds; `u64::MAX` if it is not known.
    pub ends_at_ns: u64,
    /// Bytes of memory, and number of workers, that the peer grants this engine.
    pub granted: (u64, u32),
    /// Bytes sent over the current connection.
    pub sent_bytes: u64,
    /// Bytes received over the current connection.
    pub received_bytes: u64,
    /// Counts of blob bytes for this link.
    pub blobs: BlobTraffic,
}

/// Resources that peers grant, multiplied by the time that they were held.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LeaseUsage {
    /// Workers, times seconds.
    pub workers_s: f64,
    /// Gigabytes of memory, times seconds.
    pub gigabytes_s: f64,
}

impl LeaseUsage {
    #[expect(clippy::cast_precision_loss, reason = "for humans")]
    fn add(&mut self, link: &Link, now: u64) {
        let seconds = now.saturating_sub(link.heartbeat.since_ns) as f64 / 1e9;
        self.workers_s += f64::from(link.grant.workers) * seconds;
        self.gigabytes_s += link.grant.memory as f64 / 1e9 * seconds;
    }
}

/// Counts of links that are gone.
#[derive(Debug, Default)]
struct PastLinks {
    usage: LeaseUsage,
    blobs: BlobTraffic,
}

/// All links. The number of a lost link is used again, with another epoch.
#[derive(Debug)]
pub struct Links {
    links: Vec<Option<Link>>,
    epochs: Vec<Epoch>,
    past: PastLinks,
    /// Sleeper of the thread that completes tasks. `None` without links, or if no thread sleeps, as in simulations.
    sleeper: Option<Arc<Sleeper>>,
    /// True if some link has something to send.
    pub has_outgoing: bool,
    /// True if peers know that nested tasks wait here.
    pub has_reported_surplus: bool,
    /// True if some link's connection takes no more for now, although more waits for it.
    pub waits_for_room: bool,
    /// True if a link must be read again at once: received data was left behind that the sleeper may not report.
    pub has_more: bool,
    /// Deadline for peers to close their ends after the last message to them, monotonic nanoseconds.
    pub leave_until_ns: u64,
    /// The last message that peers were told.
    pub last_word: Option<String>,
    /// True if this engine is a lease's: tasks come over links, and its workers are here.
    pub is_lease: bool,
    /// Buffer for the descriptors that a sleep finds ready.
    pub ready: Vec<Ready>,
    /// Buffer that messages are read from.
    pub chunk: Vec<u8>,
    /// Number of context changes when peers were last told of them.
    pub reported_changes: u64,
    /// Limits on what is sent at once, and on what is sent before something is confirmed.
    pub sizes: LinkSizes,
    /// Bytes of the incomplete messages of all links.
    assembled: usize,
}

impl Links {
    /// Creates an empty table; `sleeper` is the one of the thread that completes tasks, if it sleeps.
    #[must_use]
    pub fn new(sleeper: Option<Arc<Sleeper>>, is_lease: bool) -> Self {
        Self {
            links: Vec::new(),
            epochs: Vec::new(),
            past: PastLinks::default(),
            sleeper,
            has_outgoing: false,
            reported_changes: 0,
            waits_for_room: false,
            has_reported_surplus: false,
            has_more: false,
            leave_until_ns: 0,
            last_word: None,
            is_lease,
            ready: Vec::new(),
            chunk: Vec::new(),
            sizes: LinkSizes::default(),
            assembled: 0,
        }
    }

    /// Returns the sleeper of the thread that completes tasks, if there may be links.
    pub fn sleeper(&self) -> Option<&Arc<Sleeper>> {
        self.sleeper.as_ref()
    }

    /// Forgets calls to the leader from before the mutex was taken: the leader has checked everything since, and is about to
    /// sleep.
    pub fn forget_calls(&self) {
        if let Some(sleeper) = self.sleeper() {
            sleeper.forget_calls();
        }
    }

    /// Records the links that a sleep has found readable: these are read next, the others are not.
    pub fn note_ready(&mut self, ready: Vec<Ready>) {
        for one in ready.iter().filter(|one| one.is_readable) {
            let link = usize::try_from(one.token).ok().and_then(|place| self.links.get_mut(place));
            if let Some(Some(link)) = link {
                link.is_readable = true;
            }
        }
        self.ready = ready;
    }

    /// Checks with one system call, however many links there are, whether anything has come; if so, marks all links as
    /// readable. For threads that do not sleep first.
    pub fn look(&mut self) -> bool {
        let is_ready = self.is_used() && self.sleeper.as_ref().is_some_and(|one| one.is_ready());
        if is_ready {
            self.links.iter_mut().flatten().for_each(|link| link.is_readable = true);
        }
        is_ready
    }

    /// Returns true if there is or was any link.
    #[inline]
    pub fn is_used(&self) -> bool {
        !self.links.is_empty()
    }

    /// Returns true if some peer may not know yet that nothing more comes. A peer without a connection may get another one
    /// soon, except at a lease, which accepts no connections any more.
    pub fn is_leaving(&self, now: u64) -> bool {
        let mut links = self.links.iter().flatten();
        let may_hear = |link: &Link| link.is_ending && (link.is_connected() || !self.is_lease);
        now < self.leave_until_ns && links.any(may_hear)
    }

    /// Returns all peer numbers that were ever used, including those without a link now.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> + use<> {
        (0..self.links.len()).map(|place| PeerId(u16::try_from(place).unwrap_or(u16::MAX)))
    }

    /// Returns the link of a peer.
    #[inline]
    #[must_use]
    pub fn get(&self, peer: PeerId) -> Option<&Link> {
        self.links.get(usize::from(peer.0))?.as_ref()
    }

    /// Returns the link of a peer, mutably.
    #[inline]
    pub fn get_mut(&mut self, peer: PeerId) -> Option<&mut Link> {
        self.links.get_mut(usize::from(peer.0))?.as_mut()
    }

    /// Returns the bytes of the incomplete messages of all links.
    #[cfg(test)]
    pub(crate) const fn assembled(&self) -> usize {
        self.assembled
    }

    /// Reads one chunk of a link. [`Came::Nothing`] means that it has no more, or that there is no such link.
    ///
    /// # Errors
    /// An error if the link, or its connection, can no longer be used.
    pub(super) fn receive_one(
        &mut self,
        peer: PeerId,
        chunk: &mut Vec<u8>,
    ) -> Result<Came, LinkError> {
        let held = self.assembled;
        let Some(link) = self.get_mut(peer) else { return Ok(Came::Nothing) };
        let before = link.assembled();
        let came = link.receive_one(chunk, held);
        self.assembled = held.saturating_sub(before) + link.assembled();
        came
    }

    /// Adds a link; returns its number, its epoch and the peer's offer.
    pub fn insert(&mut self, new: NewLink, now: u64) -> (PeerId, Epoch, PeerOffer) {
        let place = self.links.iter().position(Option::is_none).unwrap_or(self.links.len());
        if place == self.links.len() {
            self.links.push(None);
            self.epochs.push(Epoch(0));
        }
        let epoch = Epoch(self.epochs[place].0.wrapping_add(1));
        self.epochs[place] = epoch;
        let peer = PeerId(u16::try_from(place).unwrap_or(u16::MAX));
        let pulse = LinkLiveness::new(new.beat_ns, new.expiry_ns, now);
        let sizes = self.sizes.towards(new.message_max);
        let mut link = Link::new(new.name.into(), epoch, (new.channel, sizes), pulse);
        let ends_at_ns = now.saturating_add(new.grant.ends_in_ns);
        link.ends_at_ns = ends_at_ns;
        link.grant = new.grant;
        link.labels = new.labels.into();
        link.names.ours = new.own_name.into();
        self.links[place] = Some(link);
        self.watch(peer);
        let LeaseGrant { workers, memory, gpus, .. } = new.grant;
        let gpus = gpus.count_ones();
        (peer, epoch, PeerOffer { workers, round_trip_ns: 0, ends_at_ns, memory, gpus })
    }

    /// Has the sleeper watch a link's connection for the events that are of interest now.
    pub fn watch(&self, peer: PeerId) {
        let channel = self.get(peer).and_then(Link::channel);
        if let (Some(channel), Some(sleeper)) = (channel, &self.sleeper) {
            // If the sleeper cannot watch a descriptor, the link expires because nothing is read from it.
            let _ = sleeper.watch(channel.descriptor(), u64::from(peer.0), channel.interest());
        }
    }

    /// Gives up a link's connection.
    pub fn disconnect(&mut self, peer: PeerId) {
        let channel = self.get_mut(peer).and_then(Link::disconnect);
        if let (Some(channel), Some(sleeper)) = (channel, &self.sleeper) {
            let _ = sleeper.unwatch(channel.descriptor());
        }
    }

    /// Removes a link and returns it.
    pub fn remove(&mut self, peer: PeerId, now: u64) -> Option<Link> {
        self.disconnect(peer);
        let link = self.links.get_mut(usize::from(peer.0))?.take()?;
        self.past.usage.add(&link, now);
        self.past.blobs = self.past.blobs.plus(link.traffic);
        self.assembled = self.assembled.saturating_sub(link.assembled());
        Some(link)
    }

    /// Returns the usage of what peers have granted so far.
    pub fn held(&self, now: u64) -> LeaseUsage {
        let mut held = self.past.usage;
        self.links.iter().flatten().for_each(|link| held.add(link, now));
        held
    }

    /// Returns the counts of blob bytes of all links, present and past.
    pub fn blob_traffic(&self) -> BlobTraffic {
        let traffic = self.links.iter().flatten().map(|link| link.traffic);
        traffic.fold(self.past.blobs, BlobTraffic::plus)
    }

    /// Returns a snapshot of each link.
    pub fn views(&self) -> Vec<PeerView> {
        let view = |peer: PeerId| {
            let link = self.get(peer)?;
            let bytes = |count: fn(&(dyn Channel + Send)) -> u64| link.channel().map_or(0, count);
            Some(PeerView {
                peer,
                name: Arc::clone(&link.names.theirs),
                labels: Arc::clone(&link.labels),
                is_connected: link.is_connected(),
                is_distrusted: false,
                round_trip_ns: link.heartbeat.round_trip_ns,
                workers: link.heartbeat.last.workers,
                tasks: [link.heartbeat.last.waiting, link.heartbeat.last.running],
                busy_ns: link.heartbeat.last.busy_ns,
                since_ns: link.heartbeat.since_ns,
                ends_at_ns: link.ends_at_ns,
                granted: (link.grant.memory, link.grant.workers),
                sent_bytes: bytes(|channel| channel.sent_bytes()),
                received_bytes: bytes(|channel| channel.received_bytes()),
                blobs: link.traffic,
            })
        };
        self.peers().filter_map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use gristmill_transport::{ChunkHead, Flushed, InprocChannel, WakeReason, pair};
    use std::time::Duration;

    use super::*;

    /// Returns links that have been read to their end, and the other ends of their connections.
    fn quiet(count: usize) -> (Links, Vec<InprocChannel>) {
        let mut links = Links::new(Some(Arc::new(Sleeper::new().expect("descriptors"))), false);
        let mut others = Vec::new();
        for _ in 0..count {
            let (ours, theirs) = pair().expect("descriptors");
            let new = NewLink {
                name: "one".into(),
                channel: Box::new(ours),
                beat_ns: 1,
                expiry_ns: 1,
                grant: LeaseGrant::NOTHING,
                labels: String::new(),
                own_name: String::new(),
                message_max: u64::MAX,
            };
            let (peer, ..) = links.insert(new, 0);
            let link = links.get_mut(peer).expect("it was just taken in");
            assert!(link.is_readable, "what came with the greeting may be in the channel already");
            link.is_readable = false;
            others.push(theirs);
        }
        (links, others)
    }

    fn send(channel: &mut InprocChannel) {
        let head = ChunkHead { kind: 1, sequence: 1, acknowledged: 0 };
        channel.send(head, b"x").expect("it is open");
        assert_eq!(channel.flush().expect("it is open"), Flushed::All);
    }

    fn readable(links: &Links) -> Vec<u16> {
        let is_readable = |peer: &PeerId| links.get(*peer).is_some_and(|link| link.is_readable);
        links.peers().filter(is_readable).map(|peer| peer.0).collect()
    }

    #[test]
    fn a_sleep_tells_which_links_are_read_next() {
        let (mut links, mut others) = quiet(3);
        send(&mut others[1]);
        let sleeper = Arc::clone(links.sleeper().expect("there is one"));
        let mut ready = Vec::new();
        let rest = sleeper.sleep(&mut ready, Some(Duration::ZERO)).expect("nothing fails");
        assert_eq!(rest, WakeReason::Ready);
        links.note_ready(ready);
        assert_eq!(readable(&links), [1]);
    }

    #[test]
    fn a_look_has_all_links_read_where_one_has_something() {
        let (mut links, mut others) = quiet(2);
        assert!(!links.look() && readable(&links).is_empty());
        send(&mut others[0]);
        assert!(links.look());
        assert_eq!(readable(&links), [0, 1]);
    }
}
