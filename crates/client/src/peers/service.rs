//! Interface of a client for the layers that manage its links.

use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::time::Duration;

use gristmill_core::StartFailure;
use gristmill_sync::clock::monotonic_ns;
use gristmill_transport::{Channel, Waker};
use gristmill_wire::PeerId;

use super::intake::{LinkWork, PeerEvent};
use super::links::{NewLink, PeerView};
use crate::blobs::BlobTraffic;
use crate::client::Client;
use crate::inner::Inner;

impl Client {
    /// Attaches a link: tasks go there from now on, and come from there.
    pub fn attach(&self, new: NewLink) -> PeerId {
        let mut inner = self.lock();
        let peer = inner.attach(new);
        self.leave_links(inner);
        peer
    }

    /// Resumes a link over another connection, whose other end has `received` chunks; returns false if the link is gone.
    pub fn reattach(&self, peer: PeerId, channel: Box<dyn Channel + Send>, received: u64) -> bool {
        let mut inner = self.lock();
        let is_there = inner.reattach(peer, channel, received);
        self.leave_links(inner);
        is_there
    }

    fn leave_links(&self, mut inner: MutexGuard<'_, Inner>) {
        inner.settle();
        let now = inner.port.now();
        inner.flush_links(now);
        // A sleeping thread may wait for less than is there now.
        self.kick_leader();
        self.leave(inner, false);
    }

    /// Returns the number of chunks that came over a link, or `None` if there is no such link.
    pub fn received(&self, peer: PeerId) -> Option<u64> {
        self.lock().port.links.get(peer).map(super::link::Link::received)
    }

    /// Sets the waker that events of peers wake.
    pub fn set_connection_manager(&self, waker: Waker) {
        self.lock().connection_manager = Some(waker);
    }

    /// Returns the events of peers since the last call.
    pub fn take_events(&self) -> VecDeque<PeerEvent> {
        std::mem::take(&mut self.lock().peer_events)
    }

    /// Returns a snapshot of each link.
    pub fn peers(&self) -> Vec<PeerView> {
        let inner = self.lock();
        let mut views = inner.port.links.views();
        views.iter_mut().for_each(|view| view.is_distrusted = inner.core.is_distrusted(view.peer));
        views
    }

    /// Returns the counts of blob bytes that went to nodes and between them since the start.
    pub fn blob_traffic(&self) -> BlobTraffic {
        self.lock().port.links.blob_traffic()
    }

    /// Accepts no more tasks of peers, and gives back those that have not started; running tasks go on.
    pub fn drain_inbound(&self, text: &str) {
        let mut inner = self.lock();
        inner.drain_inbound(text);
        self.leave(inner, false);
    }

    /// Returns true if no inbound task is left here, and nothing is on its way to a peer.
    pub fn has_no_inbound(&self) -> bool {
        self.lock().has_no_inbound()
    }

    /// Tells all peers that nothing more will come, which they take for the end of their leases.
    pub fn end_links(&self, text: &str) {
        self.lock().end_links(text);
    }

    /// Fails every task and refuses new ones, because no node will ever run them, for this reason.
    pub fn give_up_nodes(&self, reason: &str) {
        let text = format!("no node runs tasks, and no node will join: {reason}").into();
        let failure = StartFailure { text, permanent: true, is_expiry: false };
        let mut inner = self.lock();
        inner.give_up_workers(failure);
        self.leave(inner, false);
        self.kick_leader();
    }

    /// Returns why no worker can be had any more, if that is certain.
    pub fn failure(&self) -> Option<String> {
        self.lock().core.failure().map(|failure| failure.text.to_string())
    }

    /// Fails every task and refuses new ones, because the time for which there were workers is over. Running tasks are killed.
    pub fn expire(&self, text: &str) {
        let failure = StartFailure { text: text.into(), permanent: true, is_expiry: true };
        let mut inner = self.lock();
        inner.give_up_workers(failure);
        inner.end_links(text);
        inner.end_processes(Duration::ZERO);
        self.leave(inner, false);
        self.kick_leader();
    }

    /// Asks a peer to last for `duration_ns` from now on.
    pub fn extend_peer(&self, peer: PeerId, duration_ns: u64) {
        let mut inner = self.lock();
        inner.extend_peer(peer, duration_ns);
        self.leave_links(inner);
    }

    /// Asks all peers to last for `duration_ns` from now on.
    pub fn extend(&self, duration_ns: u64) {
        let mut inner = self.lock();
        inner.extend_peers(duration_ns);
        self.leave_links(inner);
    }

    /// Returns the worker-seconds and gigabyte-seconds of memory for which peers' grants were held so far.
    pub fn allocation(&self) -> (f64, f64) {
        let now = monotonic_ns();
        let held = self.lock().port.links.held(now);
        (held.workers_s, held.gigabytes_s)
    }

    /// Tells a peer that this engine lasts for `duration_ns` from now on; accepts tasks again if the engine was draining.
    pub fn last(&self, peer: PeerId, duration_ns: u64) {
        let mut inner = self.lock();
        inner.last(peer, duration_ns);
        self.leave_links(inner);
    }

    /// Returns true if every process is gone.
    pub fn has_ended(&self) -> bool {
        self.lock().has_ended
    }
}

impl Inner {
    fn give_up_workers(&mut self, failure: StartFailure) {
        let now = self.port.read_clock();
        let Self { core, port, .. } = self;
        core.give_up_workers(failure, now, port);
        self.settle();
        self.flush_links(now);
        self.call_waiters(|_| true);
    }
}
