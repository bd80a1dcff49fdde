//! What an engine does about blobs: it says and hears what is needed, has tasks wait, and gives what is its to give.

use std::net::SocketAddr;

use gristmill_store::{Giver, Node, Step};
use gristmill_wire::peer::{BlobMessage, MessageKind, Piece, Shortfall};
use gristmill_wire::{BlobName, Digest, FrameError, PeerId, TaskId};

use super::depot::{News, Order};
use super::taking::{Awaited, Taking};
use crate::inner::Inner;

/// What a task raises whose blob is not what its name says.
fn changed(size: u64) -> String {
    format!(
        "an argument of {size} bytes was changed after its task was submitted: do not write to an array that was given by \
         reference before the tasks that need it have ended"
    )
}

impl Inner {
    /// Takes in a message about blobs: of the other end of a lease.
    pub(crate) fn take_blob(
        &mut self,
        peer: PeerId,
        kind: MessageKind,
        body: &[u8],
    ) -> Result<(), FrameError> {
        if kind == MessageKind::Piece {
            self.take_piece(peer, &Piece::read(body)?);
            return Ok(());
        }
        let message = BlobMessage::read(kind, body)?.ok_or(FrameError::UnknownKind(kind as u8))?;
        match message {
            BlobMessage::Open { port } => self.note_address(peer, port),
            BlobMessage::Need { name, received, .. } if self.lanes.taking.is_some() => {
                self.give_result(peer, name, received);
            }
            BlobMessage::Need { name, received, shortfall, .. } => {
                self.lanes.giving.spread.need(peer, name, received, shortfall);
                self.obey_spread();
            }
            BlobMessage::Have { digest, fetched } => self.note_blob(peer, digest, fetched),
            BlobMessage::Dropped { digest, text } => {
                if self.lanes.taking.is_none() {
                    self.lanes.giving.spread.dropped(peer, digest);
                    self.results_dropped(peer, digest, &text);
                    self.obey_spread();
                } else if text.is_empty() {
                    self.refuse_blob(digest, None);
                } else {
                    // No pickle begins with a one: the layer above knows it for a sentence about an argument.
                    self.refuse_blob(digest, Some(&format!("\u{1}{text}")));
                }
            }
            BlobMessage::Fetch { name, address } => {
                if let Some(taking) = &self.lanes.taking {
                    taking.order(Order::Fetch(name, address));
                }
            }
            BlobMessage::Received { digest } => self.result_received(peer, digest),
        }
        Ok(())
    }

    pub(super) fn say_blob(&mut self, peer: PeerId, message: &BlobMessage) {
        if let Some(link) = self.lanes.links.get_mut(peer) {
            message.write(&mut link.out);
            self.lanes.links.has_outgoing = true;
        }
    }
}

/// The side that gives: a program's client.
impl Inner {
    /// A node came to which blobs can be given.
    pub(crate) fn giver_came(&mut self, peer: PeerId, labels: &str) {
        let Some(link) = self.lanes.links.get(peer) else { return };
        let address = link.channel().and_then(|channel| channel.peer().parse::<SocketAddr>().ok());
        let is_local = address.is_some_and(|address| address.ip().to_canonical().is_loopback());
        let group = labels.lines().find_map(|label| label.strip_prefix("group="));
        let group = group.map(str::to_owned);
        self.lanes.giving.spread.join(peer, Node { group, is_local, is_mute: true });
    }

    /// A node is gone.
    pub(crate) fn giver_left(&mut self, peer: PeerId) {
        self.lanes.giving.addresses.remove(&peer);
        self.results_left(peer);
        self.lanes.giving.spread.leave(peer);
        self.obey_spread();
    }

    /// Notes where a node gives blobs to others: at the address from which its link comes, as far as there is one.
    fn note_address(&mut self, peer: PeerId, port: u16) {
        let channel = self.lanes.links.get(peer).and_then(|link| link.channel());
        let address = channel.and_then(|channel| channel.peer().parse::<SocketAddr>().ok());
        if let Some(mut address) = address.filter(|_| port != 0) {
            address.set_port(port);
            self.lanes.giving.addresses.insert(peer, address);
            self.lanes.giving.spread.open(peer);
        }
    }

    /// A node has all of a blob, of which `fetched` bytes came from other nodes.
    fn note_blob(&mut self, peer: PeerId, digest: Digest, fetched: u64) {
        self.core.peer_supplied(peer);
        let giver = self.lanes.giving.spread.have(peer, digest);
        if let Some(link) = self.lanes.links.get_mut(peer) {
            link.traffic.fetched += fetched;
        }
        if let Some(Giver::Node(giver)) = giver
            && let Some(link) = self.lanes.links.get_mut(giver)
        {
            link.traffic.passed_on += fetched;
        }
        self.obey_spread();
    }

    /// Does what the plan says.
    pub(crate) fn obey_spread(&mut self) {
        for step in self.lanes.giving.spread.take_steps() {
            match step {
                Step::Give { node, digest, offset } => self.give(node, digest, offset),
                Step::Fetch { node, name, giver } => {
                    let address = self.lanes.giving.addresses.get(&giver);
                    let address = address.map(SocketAddr::to_string).unwrap_or_default();
                    self.cease(node, name.digest);
                    self.say_blob(node, &BlobMessage::Fetch { name, address });
                }
                Step::Ask { node, name } => {
                    self.cease(node, name.digest);
                    let address = String::new();
                    self.say_blob(node, &BlobMessage::Fetch { name, address });
                }
                Step::Dismiss { node, name } => {
                    let (digest, text) = (name.digest, String::new());
                    self.say_blob(node, &BlobMessage::Dropped { digest, text });
                }
                Step::Bring { name } => self.bring_blob(name.digest),
                Step::Refuse { node, name } => {
                    self.cease(node, name.digest);
                    let (digest, text) = (name.digest, changed(name.size));
                    self.say_blob(node, &BlobMessage::Dropped { digest, text });
                }
            }
        }
    }

    fn give(&mut self, node: PeerId, digest: Digest, offset: u64) {
        let part = self.lanes.giving.part(digest).cloned();
        if let (Some(part), Some(link)) = (part, self.lanes.links.get_mut(node)) {
            link.feeds.give(digest, part, offset);
            self.lanes.links.has_outgoing = true;
        }
    }

    pub(super) fn cease(&mut self, node: PeerId, digest: Digest) {
        if let Some(link) = self.lanes.links.get_mut(node) {
            link.feeds.cease(digest);
        }
    }
}

/// The side that takes: a lease's engine.
impl Inner {
    /// What the task at hand waits for besides its parents: blobs that it names and that are not here.
    pub(crate) fn promise_blobs(&mut self, peer: PeerId) -> Vec<TaskId> {
        let Some(taking) = &mut self.lanes.taking else { return Vec::new() };
        if taking.lacking.is_empty() {
            return Vec::new();
        }
        let mut promises = Vec::new();
        for name in taking.lacking.drain(..) {
            let awaited = taking.awaited.entry(name.digest);
            let awaited = awaited.or_insert_with(|| Awaited { promise: self.core.promise(), peer });
            promises.push(awaited.promise);
        }
        let dropped = std::mem::take(&mut taking.dropped);
        self.tell_dropped(peer, dropped);
        promises
    }

    fn need(
        &mut self,
        peer: PeerId,
        name: BlobName,
        received: u64,
        (shortfall, text): (Shortfall, String),
    ) {
        self.open_depot(peer);
        self.say_blob(peer, &BlobMessage::Need { name, received, shortfall, text });
    }

    /// Tells a peer, once, where other nodes can fetch what is here.
    pub(super) fn open_depot(&mut self, peer: PeerId) {
        let Some(taking) = &mut self.lanes.taking else { return };
        if !std::mem::replace(&mut taking.is_open, true) {
            let port = taking.port();
            self.say_blob(peer, &BlobMessage::Open { port });
        }
    }

    fn tell_dropped(&mut self, peer: PeerId, digests: Vec<Digest>) {
        for digest in digests {
            let text = "there is no room for it".to_owned();
            self.say_blob(peer, &BlobMessage::Dropped { digest, text });
        }
    }

    fn take_piece(&mut self, peer: PeerId, piece: &Piece<'_>) {
        let Some(taking) = &self.lanes.taking else { return self.take_result_piece(peer, piece) };
        if taking.store.append(piece.digest, piece.offset, piece.bytes) {
            taking.order(Order::Follow);
        }
    }

    /// A blob cannot be had: whoever waits for it raises this; without it, there is no such blob, and they come back
    /// unstarted.
    fn refuse_blob(&mut self, digest: Digest, raised: Option<&str>) {
        let Some(taking) = &mut self.lanes.taking else { return };
        taking.store.give_up(digest);
        taking.order(Order::Forget(digest));
        if let Some(awaited) = taking.awaited.remove(&digest) {
            let now = self.lanes.now();
            let raised = raised.map(str::as_bytes);
            self.core.break_promise(awaited.promise, raised, now, &mut self.lanes);
        }
    }

    /// Takes in what the depot tells.
    pub(crate) fn take_depot_news(&mut self, now: u64) {
        let Some(taking) = &mut self.lanes.taking else { return };
        for (digest, text) in std::mem::take(&mut taking.hopeless) {
            self.refuse_blob(digest, Some(&format!("\0{text}")));
        }
        for news in self.lanes.taking.as_ref().map(Taking::take_news).unwrap_or_default() {
            match news {
                News::Here { digest, fetched } => {
                    self.blob_came(digest, fetched, now);
                    self.give_those_asked_for(digest);
                }
                News::Lacks { name, received, shortfall, text } => {
                    self.lose_those_asked_for(name.digest, &text);
                    if let Some(peer) = self.awaiting_peer(name.digest) {
                        self.need(peer, name, received, (shortfall, text));
                    }
                }
                // Nor with a zero: a sentence about memory.
                News::Refused(digest, text) => {
                    self.refuse_blob(digest, Some(&format!("\0{text}")));
                }
                News::Named(named) => self.answer_by_name(&named),
                News::Gone(mut digests) => {
                    // What was asked for again meanwhile is needed.
                    digests.retain(|&digest| !self.is_taken(digest));
                    for peer in self.lanes.links.peers() {
                        self.tell_dropped(peer, digests.clone());
                    }
                }
            }
        }
    }

    /// Whether a blob is here, or comes.
    fn is_taken(&self, digest: Digest) -> bool {
        self.lanes.taking.as_ref().is_some_and(|taking| taking.store.has(digest))
    }

    fn awaiting_peer(&self, digest: Digest) -> Option<PeerId> {
        Some(self.lanes.taking.as_ref()?.awaited.get(&digest)?.peer)
    }

    /// A blob is here: those that wait for it can run.
    fn blob_came(&mut self, digest: Digest, fetched: Option<u64>, now: u64) {
        let Some(taking) = &mut self.lanes.taking else { return };
        let Some(awaited) = taking.awaited.remove(&digest) else { return };
        if let Some(fetched) = fetched {
            self.say_blob(awaited.peer, &BlobMessage::Have { digest, fetched });
        }
        self.core.keep_promise(awaited.promise, now, &mut self.lanes);
    }
}
