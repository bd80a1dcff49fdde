//! What a client offers those who look after its links.

use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::time::Duration;

use gristmill_core::StartFailure;
use gristmill_sync::clock::monotonic_ns;
use gristmill_transport::{Channel, Waker};
use gristmill_wire::PeerId;

use super::intake::{LinkWork, PeerNews};
use super::links::{NewLink, PeerView};
use crate::blobs::BlobTraffic;
use crate::client::Client;
use crate::inner::Inner;

impl Client {
    /// Takes a link in: tasks go there from now on, and come from there.
    pub fn attach(&self, new: NewLink) -> PeerId {
        let mut inner = self.lock();
        let peer = inner.attach(new);
        self.leave_links(inner);
        peer
    }

    /// Goes on with a link over another connection, whose other end has `received` chunks. False: the link is gone.
    pub fn reattach(&self, peer: PeerId, channel: Box<dyn Channel + Send>, received: u64) -> bool {
        let mut inner = self.lock();
        let is_there = inner.reattach(peer, channel, received);
        self.leave_links(inner);
        is_there
    }

    fn leave_links(&self, mut inner: MutexGuard<'_, Inner>) {
        inner.settle();
        let now = inner.lanes.now();
        inner.flush_links(now);
        // Whoever sleeps may wait for less than is there now.
        self.kick_leader();
        self.leave(inner, false);
    }

    /// Chunks that came over a link, while there is one.
    pub fn received(&self, peer: PeerId) -> Option<u64> {
        self.lock().lanes.links.get(peer).map(super::link::Link::received)
    }

    /// Who is to be woken by news of peers.
    pub fn set_door(&self, door: Waker) {
        self.lock().door = Some(door);
    }

    /// What became of peers since this was asked last.
    pub fn take_news(&self) -> VecDeque<PeerNews> {
        std::mem::take(&mut self.lock().news)
    }

    /// All links, as they are.
    pub fn peers(&self) -> Vec<PeerView> {
        let inner = self.lock();
        let mut views = inner.lanes.links.views();
        views.iter_mut().for_each(|view| view.is_distrusted = inner.core.is_distrusted(view.peer));
        views
    }

    /// Bytes of blobs that went to nodes and between them since the start.
    pub fn blob_traffic(&self) -> BlobTraffic {
        self.lock().lanes.links.blob_traffic()
    }

    /// Takes no more tasks of peers, and gives back what has not started; what runs goes on.
    pub fn drain_guests(&self, text: &str) {
        let mut inner = self.lock();
        inner.drain_guests(text);
        self.leave(inner, false);
    }

    /// Whether nothing of peers is left here, and nothing is on its way.
    pub fn has_no_guests(&self) -> bool {
        self.lock().has_no_guests()
    }

    /// Tells all peers that nothing more will come, which they take for the end of their leases.
    pub fn end_links(&self, text: &str) {
        self.lock().end_links(text);
    }

    /// Fails every task, and refuses more: no worker can be had, for this reason.
    pub fn give_up_workers(&self, text: &str) {
        let failure = StartFailure { text: text.into(), permanent: true, is_expiry: false };
        let mut inner = self.lock();
        inner.give_up_workers(failure);
        self.leave(inner, false);
        self.kick_leader();
    }

    /// Why no worker can be had any more, if that is certain.
    pub fn failure(&self) -> Option<String> {
        self.lock().core.failure().map(|failure| failure.text.to_string())
    }

    /// Fails every task, and refuses more: the time for which there were workers is over. What runs is killed.
    pub fn expire(&self, text: &str) {
        let failure = StartFailure { text: text.into(), permanent: true, is_expiry: true };
        let mut inner = self.lock();
        inner.give_up_workers(failure);
        inner.end_links(text);
        inner.end_processes(Duration::ZERO);
        self.leave(inner, false);
        self.kick_leader();
    }

    /// Asks a peer to last for so long from now on, nanoseconds.
    pub fn extend_peer(&self, peer: PeerId, duration_ns: u64) {
        let mut inner = self.lock();
        inner.extend_peer(peer, duration_ns);
        self.leave_links(inner);
    }

    /// Asks all peers to last for so long from now on, nanoseconds.
    pub fn extend(&self, duration_ns: u64) {
        let mut inner = self.lock();
        inner.extend_peers(duration_ns);
        self.leave_links(inner);
    }

    /// How long workers of peers, and gigabytes of their memory, were held so far, together, seconds.
    pub fn allocation(&self) -> (f64, f64) {
        let now = monotonic_ns();
        let held = self.lock().lanes.links.held(now);
        (held.workers_s, held.gigabytes_s)
    }

    /// Lasts for so long from now on, nanoseconds: tells a peer, and takes tasks again if it drained.
    pub fn last(&self, peer: PeerId, duration_ns: u64) {
        let mut inner = self.lock();
        inner.last(peer, duration_ns);
        self.leave_links(inner);
    }

    /// Whether every process is gone.
    pub fn has_ended(&self) -> bool {
        self.lock().has_ended
    }
}

impl Inner {
    fn give_up_workers(&mut self, failure: StartFailure) {
        let now = self.lanes.read_clock();
        let Self { core, lanes, .. } = self;
        core.give_up_workers(failure, now, lanes);
        self.settle();
        self.flush_links(now);
        self.call_waiters(|_| true);
    }
}
