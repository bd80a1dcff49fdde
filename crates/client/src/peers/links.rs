//! The table of links.

use std::sync::Arc;

use gristmill_core::PeerOffer;
use gristmill_transport::{Channel, Ready, Sleeper};
use gristmill_wire::peer::Grant;
use gristmill_wire::{Epoch, PeerId};

use super::beats::Pulse;
use super::link::{Link, LinkSizes};
use crate::blobs::BlobTraffic;

/// A connection whose two ends have agreed to talk.
pub struct NewLink {
    /// What the other end is called, for messages.
    pub name: String,
    /// The connection.
    pub channel: Box<dyn Channel + Send>,
    /// How often each side gives a sign of life, nanoseconds.
    pub beat_ns: u64,
    /// Longest silence, nanoseconds.
    pub expiry_ns: u64,
    /// What the other end runs for this one.
    pub grant: Grant,
    /// What its owner says of it, as `name=value` lines.
    pub labels: String,
}

/// One link, as it is.
#[derive(Debug, Clone)]
pub struct PeerView {
    /// Its number.
    pub peer: PeerId,
    /// What the other end is called.
    pub name: Arc<str>,
    /// What its owner says of it, as `name=value` lines.
    pub labels: Arc<str>,
    /// Whether there is a connection now.
    pub is_connected: bool,
    /// It gets nothing for a while: its workers died again and again.
    pub is_distrusted: bool,
    /// From a message to its answer, nanoseconds, at best; `u64::MAX`: not known yet.
    pub round_trip_ns: u64,
    /// Workers that are up there.
    pub workers: u32,
    /// Tasks that wait there, and tasks that its workers have.
    pub tasks: [u32; 2],
    /// How long tasks ran there so far, together, nanoseconds.
    pub busy_ns: u64,
    /// Since when it is there, monotonic nanoseconds.
    pub since_ns: u64,
    /// When it is over, monotonic nanoseconds; `u64::MAX` is not known.
    pub ends_at_ns: u64,
    /// Bytes of memory that it was granted with, and workers.
    pub granted: (u64, u32),
    /// Bytes that went there over the connection of now.
    pub sent_bytes: u64,
    /// Bytes that came from there.
    pub received_bytes: u64,
    /// Bytes of blobs.
    pub blobs: BlobTraffic,
}

/// How long what peers grant was held.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Held {
    /// Workers, times seconds.
    pub workers_s: f64,
    /// Gigabytes of memory, times seconds.
    pub gigabytes_s: f64,
}

impl Held {
    #[expect(clippy::cast_precision_loss, reason = "for humans")]
    fn add(&mut self, link: &Link, now: u64) {
        let seconds = now.saturating_sub(link.pulse.since_ns) as f64 / 1e9;
        self.workers_s += f64::from(link.grant.workers) * seconds;
        self.gigabytes_s += link.grant.memory as f64 / 1e9 * seconds;
    }
}

/// All links. The number of one that is lost is used again, with another epoch.
#[derive(Debug)]
pub struct Links {
    links: Vec<Option<Link>>,
    epochs: Vec<Epoch>,
    /// What those that are gone granted.
    past: Held,
    /// What whoever completes tasks sleeps on; without it there are no links, or nobody sleeps.
    sleeper: Option<Arc<Sleeper>>,
    /// Some link has something to leave.
    pub has_outgoing: bool,
    /// Peers know that tasks which tasks submitted wait here.
    pub has_told_surplus: bool,
    /// Some link's connection takes no more for now, and has more to take.
    pub waits_for_room: bool,
    /// Something that came was left where the sleeper may not see it.
    pub has_more: bool,
    /// Until when peers that were told that nothing more comes may close their ends, monotonic nanoseconds.
    pub leave_until_ns: u64,
    /// What they were told.
    pub last_word: Option<String>,
    /// This engine is a lease's: tasks come over links, and its workers are here.
    pub is_lease: bool,
    /// Where whoever sleeps is told what is ready.
    pub ready: Vec<Ready>,
    /// Where messages are read from.
    pub chunk: Vec<u8>,
    /// How often workers had come up with contexts when peers were told of that.
    pub told_changes: u64,
    /// How much goes at once, and how much before something is confirmed.
    pub sizes: LinkSizes,
    /// Bytes of blobs of links that are gone.
    past_blobs: BlobTraffic,
}

impl Links {
    /// None yet; `sleeper` is what whoever completes tasks sleeps on, if anybody does.
    #[must_use]
    pub fn new(sleeper: Option<Arc<Sleeper>>, is_lease: bool) -> Self {
        Self {
            links: Vec::new(),
            epochs: Vec::new(),
            past: Held::default(),
            sleeper,
            has_outgoing: false,
            told_changes: 0,
            waits_for_room: false,
            has_told_surplus: false,
            has_more: false,
            leave_until_ns: 0,
            last_word: None,
            is_lease,
            ready: Vec::new(),
            chunk: Vec::new(),
            sizes: LinkSizes::default(),
            past_blobs: BlobTraffic::default(),
        }
    }

    /// What whoever completes tasks sleeps on, if there may be links.
    pub fn sleeper(&self) -> Option<&Arc<Sleeper>> {
        self.sleeper.as_ref()
    }

    /// Forgets who called the leader before the mutex was taken: it has looked at everything since, and is about to sleep.
    pub fn forget_calls(&self) {
        if let Some(sleeper) = self.sleeper() {
            sleeper.forget_calls();
        }
    }

    /// Takes in what a sleep has told: these links are read next, the others are not.
    pub fn note_ready(&mut self, ready: Vec<Ready>) {
        for one in ready.iter().filter(|one| one.is_readable) {
            let link = usize::try_from(one.token).ok().and_then(|place| self.links.get_mut(place));
            if let Some(Some(link)) = link {
                link.is_readable = true;
            }
        }
        self.ready = ready;
    }

    /// Looks whether anything has come, for those who do not sleep first: one system call, however many links there are.
    pub fn look(&mut self) -> bool {
        let is_ready = self.is_used() && self.sleeper.as_ref().is_some_and(|one| one.is_ready());
        if is_ready {
            self.links.iter_mut().flatten().for_each(|link| link.is_readable = true);
        }
        is_ready
    }

    /// Whether there is any link.
    #[inline]
    pub fn is_used(&self) -> bool {
        !self.links.is_empty()
    }

    /// Whether some peer may not know yet that nothing more comes. One without a connection may have another one soon,
    /// except with a lease, which nobody meets any more.
    pub fn is_leaving(&self, now: u64) -> bool {
        let mut links = self.links.iter().flatten();
        let may_hear = |link: &Link| link.is_ending && (link.is_connected() || !self.is_lease);
        now < self.leave_until_ns && links.any(may_hear)
    }

    /// The numbers among which all links are.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> + use<> {
        (0..self.links.len()).map(|place| PeerId(u16::try_from(place).unwrap_or(u16::MAX)))
    }

    /// The link of a peer.
    #[inline]
    #[must_use]
    pub fn get(&self, peer: PeerId) -> Option<&Link> {
        self.links.get(usize::from(peer.0))?.as_ref()
    }

    /// The link of a peer, to be changed.
    #[inline]
    pub fn get_mut(&mut self, peer: PeerId) -> Option<&mut Link> {
        self.links.get_mut(usize::from(peer.0))?.as_mut()
    }

    /// Takes a link in.
    pub fn insert(&mut self, new: NewLink, now: u64) -> (PeerId, Epoch, PeerOffer) {
        let place = self.links.iter().position(Option::is_none).unwrap_or(self.links.len());
        if place == self.links.len() {
            self.links.push(None);
            self.epochs.push(Epoch(0));
        }
        let epoch = Epoch(self.epochs[place].0.wrapping_add(1));
        self.epochs[place] = epoch;
        let peer = PeerId(u16::try_from(place).unwrap_or(u16::MAX));
        let pulse = Pulse::new(new.beat_ns, new.expiry_ns, now);
        let mut link = Link::new(new.name.into(), epoch, (new.channel, self.sizes), pulse);
        let ends_at_ns = now.saturating_add(new.grant.ends_in_ns);
        link.ends_at_ns = ends_at_ns;
        link.grant = new.grant;
        link.labels = new.labels.into();
        self.links[place] = Some(link);
        self.watch(peer);
        let Grant { workers, memory, gpus, .. } = new.grant;
        let gpus = gpus.count_ones();
        (peer, epoch, PeerOffer { workers, round_trip_ns: 0, ends_at_ns, memory, gpus })
    }

    /// Has the sleeper look at a link's connection, as it has to be looked at now.
    pub fn watch(&self, peer: PeerId) {
        let channel = self.get(peer).and_then(Link::channel);
        if let (Some(channel), Some(sleeper)) = (channel, &self.sleeper) {
            // A descriptor that cannot be watched is found by its silence.
            let _ = sleeper.watch(channel.descriptor(), u64::from(peer.0), channel.interest());
        }
    }

    /// Gives a link's connection up.
    pub fn disconnect(&mut self, peer: PeerId) {
        let channel = self.get_mut(peer).and_then(Link::disconnect);
        if let (Some(channel), Some(sleeper)) = (channel, &self.sleeper) {
            let _ = sleeper.unwatch(channel.descriptor());
        }
    }

    /// Forgets a link.
    pub fn remove(&mut self, peer: PeerId, now: u64) -> Option<Link> {
        self.disconnect(peer);
        let link = self.links.get_mut(usize::from(peer.0))?.take()?;
        self.past.add(&link, now);
        self.past_blobs = self.past_blobs.plus(link.traffic);
        Some(link)
    }

    /// How long what peers grant was held so far.
    pub fn held(&self, now: u64) -> Held {
        let mut held = self.past;
        self.links.iter().flatten().for_each(|link| held.add(link, now));
        held
    }

    /// Bytes of blobs, of all links that are or were.
    pub fn blob_traffic(&self) -> BlobTraffic {
        let traffic = self.links.iter().flatten().map(|link| link.traffic);
        traffic.fold(self.past_blobs, BlobTraffic::plus)
    }

    /// All links, as they are.
    pub fn views(&self) -> Vec<PeerView> {
        let view = |peer: PeerId| {
            let link = self.get(peer)?;
            let bytes = |count: fn(&(dyn Channel + Send)) -> u64| link.channel().map_or(0, count);
            Some(PeerView {
                peer,
                name: Arc::clone(&link.name),
                labels: Arc::clone(&link.labels),
                is_connected: link.is_connected(),
                is_distrusted: false,
                round_trip_ns: link.pulse.round_trip_ns,
                workers: link.pulse.last.workers,
                tasks: [link.pulse.last.waiting, link.pulse.last.running],
                busy_ns: link.pulse.last.busy_ns,
                since_ns: link.pulse.since_ns,
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
    use gristmill_transport::{ChunkHead, Flushed, InprocChannel, Rest, pair};
    use std::time::Duration;

    use super::*;

    /// Links that have been read to their end, and the other ends of their connections.
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
                grant: Grant::NOTHING,
                labels: String::new(),
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
        assert_eq!(rest, Rest::Ready);
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
