//! What an engine does about blobs: it says and hears what is needed, has tasks wait, and gives what is its to give.

use std::net::SocketAddr;

use gristmill_store::{Giver, Node, Step};
use gristmill_wire::peer::{BlobMessage, MessageKind, Piece, Shortfall};
use gristmill_wire::{BlobName, Digest, FrameError, PeerId, TaskId};

use super::awaited::{Remaining, Waiter};
use super::depot::{News, Order};
use super::homing::HomingWork as _;
use super::keeping::KeepingWork as _;
use super::parts::{BlobHome, BlobParts, BlobPort as _};
use super::staying::StayingWork as _;
use super::taking::Taking;
use crate::peers::{LinkPort as _, Parts};

/// What a task raises whose blob is not what its name says; or what a context fails with, if it is a file.
fn changed(size: u64, is_file: bool) -> String {
    if is_file {
        return format!(
            "a file of {size} bytes was changed after the context was used first: release it, or make another"
        );
    }
    format!(
        "an argument of {size} bytes was changed after its task was submitted: do not write to an array that was given by \
         reference before the tasks that need it have ended"
    )
}

/// What both sides do.
pub(crate) trait BlobTalk: BlobHome {
    /// Takes in a message about blobs: of the other end of a lease.
    fn take_blob(
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
            BlobMessage::Need { name, received, .. } if self.blobs().taking.is_some() => {
                self.give_result(peer, name, received);
            }
            BlobMessage::Need { name, received, shortfall, .. } => {
                self.blobs().giving.spread.need(peer, name, received, shortfall);
                self.obey_spread();
            }
            BlobMessage::Have { digest, fetched } => self.note_blob(peer, digest, fetched),
            BlobMessage::Dropped { digest, text } => {
                if self.blobs().taking.is_none() {
                    self.blobs().giving.spread.dropped(peer, digest);
                    self.results_dropped(peer, digest, &text);
                    self.obey_spread();
                } else if text.is_empty() {
                    self.stop_waiting(peer, digest, None);
                } else {
                    // No pickle begins with a one: the layer above knows it for a sentence about an argument.
                    self.stop_waiting(peer, digest, Some(&format!("\u{1}{text}")));
                }
            }
            BlobMessage::Fetch { name, address } => {
                if let Some(taking) = self.blobs().taking
                    && taking.awaited.asked(name.digest) == Some(peer)
                {
                    taking.order(Order::Fetch(name, address));
                }
            }
            BlobMessage::Received { digest } => self.result_received(peer, digest),
        }
        Ok(())
    }

    fn say_blob(&mut self, peer: PeerId, message: &BlobMessage) {
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.say(|out| message.write(out));
            self.links_mut().has_outgoing = true;
        }
    }
}

impl<H: BlobHome> BlobTalk for H {}

/// The side that gives: a program's client.
pub(crate) trait GivingWork: BlobHome {
    /// A node came to which blobs can be given.
    fn giver_came(&mut self, peer: PeerId, labels: &str) {
        let Some(link) = self.links().get(peer) else { return };
        let address = link.channel().and_then(|channel| channel.peer().parse::<SocketAddr>().ok());
        let is_local = address.is_some_and(|address| address.ip().to_canonical().is_loopback());
        let group = labels.lines().find_map(|label| label.strip_prefix("group="));
        let group = group.map(str::to_owned);
        self.blobs().giving.spread.join(peer, Node { group, is_local, is_mute: true });
    }

    /// A node is gone.
    fn giver_left(&mut self, peer: PeerId) {
        self.blobs().giving.addresses.remove(&peer);
        self.results_left(peer);
        self.blobs().giving.spread.leave(peer);
        self.obey_spread();
    }

    /// Notes where a node gives blobs to others: at the address from which its link comes, as far as there is one.
    fn note_address(&mut self, peer: PeerId, port: u16) {
        if port != 0
            && let Some(address) = self.depot_address(peer, port)
        {
            let BlobParts { giving, .. } = self.blobs();
            giving.addresses.insert(peer, address);
            giving.spread.open(peer);
        }
    }

    /// A node has all of a blob, of which `fetched` bytes came from other nodes.
    fn note_blob(&mut self, peer: PeerId, digest: Digest, fetched: u64) {
        self.parts().core.peer_supplied(peer);
        let giver = self.blobs().giving.spread.have(peer, digest);
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.traffic.fetched = link.traffic.fetched.saturating_add(fetched);
        }
        if let Some(Giver::Node(giver)) = giver
            && let Some(link) = self.links_mut().get_mut(giver)
        {
            link.traffic.passed_on = link.traffic.passed_on.saturating_add(fetched);
        }
        self.obey_spread();
    }

    /// Does what the plan says.
    fn obey_spread(&mut self) {
        for step in self.blobs().giving.spread.take_steps() {
            match step {
                Step::Give { node, digest, offset } => self.give(node, digest, offset),
                Step::Fetch { node, name, giver } => {
                    let address = self.blobs().giving.addresses.get(&giver);
                    let address = address.cloned().unwrap_or_default();
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
                    let is_file = self.blobs().giving.is_file(name.digest);
                    let (digest, text) = (name.digest, changed(name.size, is_file));
                    self.say_blob(node, &BlobMessage::Dropped { digest, text });
                }
            }
        }
    }

    fn give(&mut self, node: PeerId, digest: Digest, offset: u64) {
        let source = self.blobs().giving.source(digest);
        if let (Some(source), Some(link)) = (source, self.links_mut().get_mut(node)) {
            link.feeds.give(digest, source, offset);
            self.links_mut().has_outgoing = true;
        }
    }

    fn cease(&mut self, node: PeerId, digest: Digest) {
        if let Some(link) = self.links_mut().get_mut(node) {
            link.feeds.cease(digest);
        }
    }
}

impl<H: BlobHome> GivingWork for H {}

/// The side that takes: a lease's engine.
pub(crate) trait TakingWork: BlobHome {
    /// What the task at hand waits for besides its parents: blobs that it names and that are not here.
    fn promise_blobs(&mut self, peer: PeerId) -> Vec<TaskId> {
        let Parts { core, port, .. } = self.parts();
        let Some(taking) = port.blobs().taking else { return Vec::new() };
        if taking.lacking.is_empty() {
            return Vec::new();
        }
        let Taking { lacking, awaited, dropped, .. } = taking;
        let promise = |name: BlobName| awaited.promise(name.digest, peer, || core.promise());
        let promises = lacking.drain(..).map(promise).collect();
        let dropped = std::mem::take(dropped);
        self.tell_gone(dropped);
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
    fn open_depot(&mut self, peer: PeerId) {
        let Some(taking) = self.blobs().taking else { return };
        if !std::mem::replace(&mut taking.is_open, true) {
            let port = taking.port();
            self.say_blob(peer, &BlobMessage::Open { port });
        }
    }

    /// Tells all peers of blobs that went, but for those that were named again meanwhile: these are here, or needed.
    fn tell_gone(&mut self, mut digests: Vec<Digest>) {
        digests.retain(|&digest| !self.is_taken(digest));
        for peer in self.links().peers() {
            for &digest in &digests {
                let text = "there is no room for it".to_owned();
                self.say_blob(peer, &BlobMessage::Dropped { digest, text });
            }
        }
    }

    fn take_piece(&mut self, peer: PeerId, piece: &Piece<'_>) {
        let Some(taking) = self.blobs().taking else { return self.take_result_piece(peer, piece) };
        if taking.awaited.asked(piece.digest) == Some(peer)
            && taking.store.append(piece.digest, piece.offset, piece.bytes)
        {
            taking.order(Order::Follow);
        }
    }

    /// A peer is gone for good: nothing is kept for it, and its tasks wait for nothing.
    fn taker_left(&mut self, peer: PeerId) {
        let Some(taking) = self.blobs().taking else { return };
        taking.asked.forget(peer);
        for digest in taking.kept.forget(peer) {
            taking.store.unpin(digest);
        }
        for digest in taking.awaited.of(peer) {
            self.stop_waiting(peer, digest, None);
        }
    }

    /// A peer does not give a blob: its tasks that wait for it raise this; without it, there is no such blob, and they come
    /// back unstarted.
    fn stop_waiting(&mut self, peer: PeerId, digest: Digest, raised: Option<&str>) {
        let Some(taking) = self.blobs().taking else { return };
        let Some((promise, remaining)) = taking.awaited.leave(digest, peer) else { return };
        self.break_promise(promise, raised);
        match remaining {
            Remaining::Same => {}
            Remaining::Nobody => self.forget_blob(digest, said(raised)),
            Remaining::Next(next) if self.is_coming(digest) => {
                let Some(taking) = self.blobs().taking else { return };
                // What came is what the one before says that it is.
                taking.store.begin_anew(digest);
                taking.order(Order::Forget(digest));
                let name = BlobName { digest, size: digest.size() };
                self.need(next, name, 0, (Shortfall::None, String::new()));
            }
            Remaining::Next(_) => {}
        }
    }

    /// A blob cannot be had: whoever waits for it raises this.
    fn refuse_blob(&mut self, digest: Digest, raised: &str) {
        let waiters = self.blobs().taking.map(|taking| taking.awaited.take(digest));
        for waiter in waiters.unwrap_or_default() {
            self.break_promise(waiter.promise, Some(raised));
        }
        self.forget_blob(digest, said(Some(raised)));
    }

    fn break_promise(&mut self, promise: TaskId, raised: Option<&str>) {
        if let Some(taking) = self.blobs().taking {
            taking.provisions.settle(promise, Some(said(raised)));
        }
        let Parts { core, port, .. } = self.parts();
        core.break_promise(promise, raised.map(str::as_bytes), port.now(), port);
    }

    /// Nobody waits for a blob that comes: it does not come any more, and those who have asked for it learn why.
    fn forget_blob(&mut self, digest: Digest, text: &str) {
        let Some(taking) = self.blobs().taking else { return };
        taking.store.give_up(digest);
        taking.order(Order::Forget(digest));
        // One that is here nevertheless is given to them.
        if !self.is_taken(digest) {
            self.lose_those_asked_for(digest, text);
        }
    }

    /// Takes in what the depot tells.
    fn take_news_of_depot(&mut self, now: u64) {
        let Some(taking) = self.blobs().taking else { return };
        for (digest, text) in std::mem::take(&mut taking.hopeless) {
            self.refuse_blob(digest, &format!("\0{text}"));
        }
        for news in self.blob_look().taking.map(Taking::take_news).unwrap_or_default() {
            match news {
                News::Here { digest, fetched } => {
                    // What was given up and named again meanwhile has yet to come.
                    if !self.is_coming(digest) {
                        self.blob_came(digest, fetched, now);
                    }
                    self.give_those_asked_for(digest);
                }
                // What came meanwhile, or is on its way from disk, is not lacked any more.
                News::Lacks { name, .. } if !self.is_coming(name.digest) => {}
                News::Lacks { name, received, shortfall, text } => {
                    self.lose_those_asked_for(name.digest, &text);
                    match self.asked_peer(name.digest) {
                        Some(peer) => self.need(peer, name, received, (shortfall, text)),
                        None => self.forget_blob(name.digest, &text),
                    }
                }
                // Nor with a zero: a sentence about memory.
                News::Refused(digest, text) => self.refuse_blob(digest, &format!("\0{text}")),
                News::Named(named) => self.answer_by_name(&named),
                News::Gone(digests) => self.tell_gone(digests),
            }
        }
    }

    /// Whether a blob is here, or comes.
    fn is_taken(&self, digest: Digest) -> bool {
        self.blob_look().taking.is_some_and(|taking| taking.store.has(digest))
    }

    /// Whether bytes of a blob have yet to come.
    fn is_coming(&self, digest: Digest) -> bool {
        let progress = self.blob_look().taking.and_then(|taking| taking.store.progress(digest));
        progress.is_some_and(|progress| !progress.is_complete)
    }

    /// Who is asked for a blob.
    fn asked_peer(&self, digest: Digest) -> Option<PeerId> {
        self.blob_look().taking?.awaited.asked(digest)
    }

    /// A blob is here: those that wait for it can run.
    fn blob_came(&mut self, digest: Digest, fetched: Option<u64>, now: u64) {
        let Some(taking) = self.blobs().taking else { return };
        for Waiter { peer, promise } in taking.awaited.take(digest) {
            if let Some(fetched) = fetched {
                self.say_blob(peer, &BlobMessage::Have { digest, fetched });
            }
            if let Some(taking) = self.blobs().taking {
                taking.provisions.settle(promise, None);
            }
            let Parts { core, port, .. } = self.parts();
            core.keep_promise(promise, now, port);
        }
    }
}

/// What whoever asks for a blob is told that others were told about by this.
fn said(raised: Option<&str>) -> &str {
    raised.map_or("nobody has it any more", |raised| raised.trim_start_matches(['\0', '\u{1}']))
}

impl<H: BlobHome> TakingWork for H {}
