//! Blob work of an engine: it exchanges messages about blobs, makes tasks wait for them, and sends the blobs that it has.

use std::net::SocketAddr;

use gristmill_store::{BroadcastAction, BroadcastNode, BroadcastSource};
use gristmill_wire::peer::{BlobMessage, MessageKind, Piece, Shortfall};
use gristmill_wire::{BlobName, Digest, FailureKind, FrameError, PeerId, TaskFailure, TaskId};

use super::awaited::{BlobWaiter, Remaining};
use super::deferred::DeferredResults as _;
use super::inbound_results::InboundResultsWork as _;
use super::parts::{BlobHome, BlobParts, BlobPort as _};
use super::receiver::BlobReceiver;
use super::retention::ResultRetention as _;
use super::server::{BlobServerCommand, BlobServerEvent};
use crate::peers::{EngineParts, LinkPort as _};

/// Returns the message that a task raises if the bytes of its blob do not match the name. If the blob is a file, a context
/// fails with the message.
fn changed(size: u64, is_file: bool) -> String {
    if is_file {
        return format!(
            "a file of {size} bytes was changed after the first use of the context: release the context, or make another one"
        );
    }
    format!(
        "an argument of {size} bytes was changed after its task was submitted: do not write to an array that is passed by \
         reference before the tasks that use it have ended"
    )
}

/// Work of both sides.
pub(crate) trait BlobMessageHandler: BlobHome {
    /// Handles a message about blobs from the other end of a lease.
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
            BlobMessage::Need { name, received, .. } if self.blobs().receiver.is_some() => {
                self.give_result(peer, name, received);
            }
            BlobMessage::Need { name, received, shortfall, .. } => {
                self.blobs().provider.broadcast.need(peer, name, received, shortfall);
                self.follow_broadcast_plan();
            }
            BlobMessage::Have { digest, fetched } => self.note_blob(peer, digest, fetched),
            BlobMessage::Dropped { digest, text } => {
                if self.blobs().receiver.is_none() {
                    self.blobs().provider.broadcast.dropped(peer, digest);
                    self.results_dropped(peer, digest, &text);
                    self.follow_broadcast_plan();
                } else if text.is_empty() {
                    self.stop_waiting(peer, digest, None);
                } else {
                    let failure = TaskFailure::of_text(FailureKind::Argument, &text);
                    self.stop_waiting(peer, digest, Some(failure));
                }
            }
            BlobMessage::Fetch { name, address } => {
                if let Some(receiver) = self.blobs().receiver
                    && receiver.awaited.requested_from(name.digest) == Some(peer)
                {
                    receiver.send(BlobServerCommand::Fetch(name, address));
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

impl<H: BlobHome> BlobMessageHandler for H {}

/// Work of the side that provides blobs: a program's client.
pub(crate) trait BlobProviderWork: BlobHome {
    /// Registers a node that can receive blobs.
    fn provider_connected(&mut self, peer: PeerId, labels: &str) {
        let Some(link) = self.links().get(peer) else { return };
        let address = link.channel().and_then(|channel| channel.peer().parse::<SocketAddr>().ok());
        let is_local = address.is_some_and(|address| address.ip().to_canonical().is_loopback());
        let group = labels.lines().find_map(|label| label.strip_prefix("group="));
        let group = group.map(str::to_owned);
        self.blobs()
            .provider
            .broadcast
            .join(peer, BroadcastNode { group, is_local, is_mute: true });
    }

    /// Removes a node that is gone.
    fn provider_left(&mut self, peer: PeerId) {
        self.blobs().provider.addresses.remove(&peer);
        self.results_left(peer);
        self.blobs().provider.broadcast.leave(peer);
        self.follow_broadcast_plan();
    }

    /// Records the address where a node gives blobs to others: the IP address of its link, with `port`. Does nothing if
    /// `port` is 0 or the link has no IP address.
    fn note_address(&mut self, peer: PeerId, port: u16) {
        if port != 0
            && let Some(address) = self.blob_server_address(peer, port)
        {
            let BlobParts { provider, .. } = self.blobs();
            provider.addresses.insert(peer, address);
            provider.broadcast.open(peer);
        }
    }

    /// Records that a node has all of a blob, of which `fetched` bytes came from other nodes.
    fn note_blob(&mut self, peer: PeerId, digest: Digest, fetched: u64) {
        self.parts().core.peer_supplied(peer);
        let source = self.blobs().provider.broadcast.have(peer, digest);
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.traffic.fetched = link.traffic.fetched.saturating_add(fetched);
        }
        if let Some(BroadcastSource::Node(source)) = source
            && let Some(link) = self.links_mut().get_mut(source)
        {
            link.traffic.passed_on = link.traffic.passed_on.saturating_add(fetched);
        }
        self.follow_broadcast_plan();
    }

    /// Carries out the pending actions of the broadcast plan.
    fn follow_broadcast_plan(&mut self) {
        for step in self.blobs().provider.broadcast.take_steps() {
            match step {
                BroadcastAction::Give { node, digest, offset } => self.give(node, digest, offset),
                BroadcastAction::Fetch { node, name, source } => {
                    let address = self.blobs().provider.addresses.get(&source);
                    let address = address.cloned().unwrap_or_default();
                    self.cease(node, name.digest);
                    self.say_blob(node, &BlobMessage::Fetch { name, address });
                }
                BroadcastAction::RequestNeeds { node, name } => {
                    self.cease(node, name.digest);
                    let address = String::new();
                    self.say_blob(node, &BlobMessage::Fetch { name, address });
                }
                BroadcastAction::Dismiss { node, name } => {
                    let (digest, text) = (name.digest, String::new());
                    self.say_blob(node, &BlobMessage::Dropped { digest, text });
                }
                BroadcastAction::Bring { name } => self.bring_blob(name.digest),
                BroadcastAction::Refuse { node, name } => {
                    self.cease(node, name.digest);
                    let is_file = self.blobs().provider.is_file(name.digest);
                    let (digest, text) = (name.digest, changed(name.size, is_file));
                    self.say_blob(node, &BlobMessage::Dropped { digest, text });
                }
            }
        }
    }

    fn give(&mut self, node: PeerId, digest: Digest, offset: u64) {
        let source = self.blobs().provider.source(digest);
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

impl<H: BlobHome> BlobProviderWork for H {}

/// Work of the side that receives blobs: a lease's engine.
pub(crate) trait BlobReceiverWork: BlobHome {
    /// Returns the promises that the current task waits for besides its parents: one for each named blob that is not here.
    fn promise_blobs(&mut self, peer: PeerId) -> Vec<TaskId> {
        let EngineParts { core, port, .. } = self.parts();
        let Some(receiver) = port.blobs().receiver else { return Vec::new() };
        if receiver.lacking.is_empty() {
            return Vec::new();
        }
        let BlobReceiver { lacking, awaited, dropped, .. } = receiver;
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
        self.announce_blob_server(peer);
        self.say_blob(peer, &BlobMessage::Need { name, received, shortfall, text });
    }

    /// Tells `peer` where other nodes can fetch blobs from this node, unless a peer was told before.
    fn announce_blob_server(&mut self, peer: PeerId) {
        let Some(receiver) = self.blobs().receiver else { return };
        if !std::mem::replace(&mut receiver.is_open, true) {
            let port = receiver.port();
            self.say_blob(peer, &BlobMessage::Open { port });
        }
    }

    /// Tells all peers which blobs were dropped, except those that were named again meanwhile and are here or requested.
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
        let Some(receiver) = self.blobs().receiver else {
            return self.take_result_piece(peer, piece);
        };
        if receiver.awaited.requested_from(piece.digest) == Some(peer)
            && receiver.store.append(piece.digest, piece.offset, piece.bytes)
        {
            receiver.send(BlobServerCommand::Follow);
        }
    }

    /// Removes a peer that is gone for good: nothing is kept for it, and its tasks wait for nothing.
    fn receiver_left(&mut self, peer: PeerId) {
        let Some(receiver) = self.blobs().receiver else { return };
        receiver.requested.forget(peer);
        for digest in receiver.retained.forget(peer) {
            receiver.store.unpin(digest);
        }
        for digest in receiver.awaited.of(peer) {
            self.stop_waiting(peer, digest, None);
        }
    }

    /// Ends a peer's wait for a blob that the peer does not give. Its tasks that wait for the blob raise `raised`. Without
    /// `raised` the blob no longer exists, and the tasks come back unstarted.
    fn stop_waiting(&mut self, peer: PeerId, digest: Digest, raised: Option<TaskFailure<'_>>) {
        let Some(receiver) = self.blobs().receiver else { return };
        let Some((promise, remaining)) = receiver.awaited.leave(digest, peer) else { return };
        self.break_promise(promise, raised);
        match remaining {
            Remaining::Same => {}
            Remaining::NoPeer => self.forget_blob(digest, said(raised)),
            Remaining::Next(next) if self.is_coming(digest) => {
                let Some(receiver) = self.blobs().receiver else { return };
                // The bytes so far came from the previous peer and may be wrong, so the next peer gives all of them.
                receiver.store.begin_anew(digest);
                receiver.send(BlobServerCommand::Forget(digest));
                let name = BlobName { digest, size: digest.size() };
                self.need(next, name, 0, (Shortfall::None, String::new()));
            }
            Remaining::Next(_) => {}
        }
    }

    /// Refuses a blob that cannot be had: tasks that wait for it raise `raised`.
    fn refuse_blob(&mut self, digest: Digest, raised: TaskFailure<'_>) {
        let waiters = self.blobs().receiver.map(|receiver| receiver.awaited.take(digest));
        for waiter in waiters.unwrap_or_default() {
            self.break_promise(waiter.promise, Some(raised));
        }
        self.forget_blob(digest, said(Some(raised)));
    }

    fn break_promise(&mut self, promise: TaskId, raised: Option<TaskFailure<'_>>) {
        if let Some(receiver) = self.blobs().receiver {
            receiver.staged.settle(promise, Some(said(raised)));
        }
        let EngineParts { core, port, .. } = self.parts();
        let raised = raised.map(|raised| raised.encode());
        core.break_promise(promise, raised.as_deref(), port.now(), port);
    }

    /// Gives up a blob that no task waits for any more. Peers that requested the blob are told why.
    fn forget_blob(&mut self, digest: Digest, text: &str) {
        let Some(receiver) = self.blobs().receiver else { return };
        receiver.store.give_up(digest);
        receiver.send(BlobServerCommand::Forget(digest));
        // If the blob is here nevertheless, these peers get it.
        if !self.is_taken(digest) {
            self.lose_those_asked_for(digest, text);
        }
    }

    /// Handles the events of the blob server.
    fn take_server_events(&mut self, now: u64) {
        let Some(receiver) = self.blobs().receiver else { return };
        for (digest, text) in std::mem::take(&mut receiver.hopeless) {
            self.refuse_blob(digest, TaskFailure::of_text(FailureKind::NoMemory, &text));
        }
        for event in self.blob_look().receiver.map(BlobReceiver::take_events).unwrap_or_default() {
            match event {
                BlobServerEvent::Here { digest, fetched } => {
                    // A blob that was given up and named again meanwhile has yet to come.
                    if !self.is_coming(digest) {
                        self.blob_came(digest, fetched, now);
                    }
                    self.give_those_asked_for(digest);
                }
                // A blob that came meanwhile, or is being read back from disk, is not missing any more.
                BlobServerEvent::Lacks { name, .. } if !self.is_coming(name.digest) => {}
                BlobServerEvent::Lacks { name, received, shortfall, text } => {
                    self.lose_those_asked_for(name.digest, &text);
                    match self.requested_peer(name.digest) {
                        Some(peer) => self.need(peer, name, received, (shortfall, text)),
                        None => self.forget_blob(name.digest, &text),
                    }
                }
                BlobServerEvent::Refused(digest, text) => {
                    self.refuse_blob(digest, TaskFailure::of_text(FailureKind::NoMemory, &text));
                }
                BlobServerEvent::Named(named) => self.answer_by_name(&named),
                BlobServerEvent::Gone(digests) => self.tell_gone(digests),
            }
        }
    }

    /// Returns true if a blob is here, on disk, or coming.
    fn is_taken(&self, digest: Digest) -> bool {
        self.blob_look().receiver.is_some_and(|receiver| receiver.store.has(digest))
    }

    /// Returns true if bytes of a blob have yet to come.
    fn is_coming(&self, digest: Digest) -> bool {
        let progress =
            self.blob_look().receiver.and_then(|receiver| receiver.store.progress(digest));
        progress.is_some_and(|progress| !progress.is_complete)
    }

    /// Returns the peer that is asked for a blob.
    fn requested_peer(&self, digest: Digest) -> Option<PeerId> {
        self.blob_look().receiver?.awaited.requested_from(digest)
    }

    /// Keeps the promises of a blob that is here now, so that the tasks that waited for it can run. Tells their peers that
    /// the blob is here, unless it came from disk: `fetched` is `None` then.
    fn blob_came(&mut self, digest: Digest, fetched: Option<u64>, now: u64) {
        let Some(receiver) = self.blobs().receiver else { return };
        for BlobWaiter { peer, promise } in receiver.awaited.take(digest) {
            if let Some(fetched) = fetched {
                self.say_blob(peer, &BlobMessage::Have { digest, fetched });
            }
            if let Some(receiver) = self.blobs().receiver {
                receiver.staged.settle(promise, None);
            }
            let EngineParts { core, port, .. } = self.parts();
            core.keep_promise(promise, now, port);
        }
    }
}

/// Returns the text for peers that requested a blob.
fn said(raised: Option<TaskFailure<'_>>) -> &str {
    let text = raised.and_then(|raised| std::str::from_utf8(raised.bytes).ok());
    text.unwrap_or("no node has it any longer")
}

impl<H: BlobHome> BlobReceiverWork for H {}
