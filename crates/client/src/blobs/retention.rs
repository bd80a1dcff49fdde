//! Retention of large results by a lease's engine: they get names before they are answered, and are kept until the peer that
//! sent the task has all bytes.
//!
//! The answer names them, and the bytes follow over the same link, a piece at a time. If the result may stay, its bytes are
//! sent only on request, and may have moved to disk before. Meanwhile, and later as long as there is room, other nodes can
//! fetch the results here, and tasks that are sent here can use them.

use gristmill_core::TaskOutcome;
use gristmill_wire::{BlobName, Digest, PeerId, TaskId};

use gristmill_store::BlobAvailability;
use gristmill_wire::peer::{BlobMessage, Shortfall};

use super::naming::is_blob;
use super::parts::{BlobHome, BlobParts};
use super::receiver::BlobReceiver;
use super::requested::Wanted;
use super::retained::RetainedFor;
use super::server::{BlobServerCommand, NamedResult, UnnamedResult};
use super::work::{BlobMessageHandler as _, BlobProviderWork as _, BlobReceiverWork as _};
use crate::peers::LinkWork as _;

/// Reason that is given for a result that is not here.
const GONE: &str = "it is not here any more";

impl BlobReceiver {
    /// Queues a result for naming. Returns false if no blob server can be started: its bytes then travel with the answer.
    fn name(&mut self, result: UnnamedResult) -> bool {
        let can_name = self.start_blob_server().is_ok();
        if can_name {
            self.unnamed += 1;
            self.send(BlobServerCommand::Name(result));
        }
        can_name
    }

    /// Keeps a blob that is named in one more answer to a peer.
    fn keep(&mut self, digest: Digest, peer: PeerId) {
        self.store.pin(digest);
        self.retained.note(digest, peer);
    }

    /// Releases a blob that a peer has received for one answer. Returns true if no other answer to this peer names the blob.
    fn let_go(&mut self, digest: Digest, peer: PeerId) -> bool {
        let kept_for = self.retained.let_go(digest, peer);
        if kept_for == RetainedFor::NoPeer {
            self.store.unpin(digest);
        }
        kept_for != RetainedFor::It
    }

    /// Returns true if a result still waits for its names, or for a peer to receive it.
    pub fn owes(&self) -> bool {
        self.unnamed > 0 || self.retained.len() > 0
    }
}

/// Naming and retention of the results of a lease's engine.
pub(crate) trait ResultRetention: BlobHome {
    /// Queues a finished inbound task's result for naming. Returns true if the result has large parts: the answer then waits
    /// for their names.
    fn has_name_to_come(&mut self, task: TaskId, place: u32) -> bool {
        let Some(TaskOutcome::Returned(payload)) = self.core().outcome(task) else { return false };
        let Some(block) = payload.block() else { return false };
        let BlobParts { bundles, receiver: Some(receiver), .. } = self.blobs() else {
            return false;
        };
        let parts = bundles.get(block).parts();
        let has_blobs = parts.iter().any(|part| is_blob(part, receiver.sizes.min));
        has_blobs && receiver.name(UnnamedResult { task, place, parts: parts.to_vec() })
    }

    /// Answers a task whose result has its names. The bytes follow, unless the result may stay.
    fn answer_by_name(&mut self, named: &NamedResult) {
        let NamedResult { result: UnnamedResult { task, place, parts }, names } = named;
        if let Some(receiver) = self.blobs().receiver {
            receiver.unnamed -= 1;
        }
        let Some((peer, may_stay)) = self.answer_named(*task, *place, names) else { return };
        self.announce_blob_server(peer);
        for (part, name) in parts.iter().zip(names) {
            let Some(BlobName { digest, .. }) = *name else { continue };
            if let Some(receiver) = self.blobs().receiver {
                receiver.keep(digest, peer);
            }
            if !may_stay
                && let Some(link) = self.links_mut().get_mut(peer)
                && link.feeds.given(digest).is_none()
            {
                link.feeds.give(digest, part.clone(), 0);
            }
        }
    }

    /// Sends a result that a peer requests, from byte `received` on.
    fn give_result(&mut self, peer: PeerId, name: BlobName, received: u64) {
        let Some(receiver) = self.blobs().receiver else { return };
        let progress = receiver.store.progress(name.digest);
        if let Some(coming) = progress.filter(|progress| !progress.is_complete) {
            return self.refuse_coming(peer, name, coming.received);
        }
        let part = if receiver.store.has(name.digest) {
            receiver.want(name).map_err(|error| error.to_string())
        } else {
            Err(GONE.to_owned())
        };
        match part {
            Ok(BlobAvailability::Here(part)) => {
                if let Some(link) = self.links_mut().get_mut(peer) {
                    link.feeds.give(name.digest, part, received);
                    self.links_mut().has_outgoing = true;
                }
            }
            Ok(BlobAvailability::OnDisk(part)) => {
                receiver.send(BlobServerCommand::Restore(name));
                receiver.requested.note(peer, name, (received, part));
            }
            Ok(BlobAvailability::Coming(part)) => {
                receiver.requested.note(peer, name, (received, part))
            }
            // The result was dropped just now.
            Ok(BlobAvailability::Missing(_)) => {
                receiver.store.give_up(name.digest);
                self.refuse_result(peer, name.digest, GONE);
            }
            Err(text) => self.refuse_result(peer, name.digest, &text),
        }
    }

    /// Refuses a result that was lost here and has yet to come: the peer that requests it would wait for itself. The refusal
    /// also undoes this node's own request to the peer, so the request is repeated: the peer sends the blob once it has it,
    /// or dismisses the tasks that wait for it.
    fn refuse_coming(&mut self, peer: PeerId, name: BlobName, received: u64) {
        self.refuse_result(peer, name.digest, GONE);
        if self.requested_peer(name.digest) == Some(peer) {
            self.need(peer, name, received, (Shortfall::None, String::new()));
        }
    }

    /// Sends a blob that has come back from disk to the peers that requested it.
    fn give_those_asked_for(&mut self, digest: Digest) {
        let name = BlobName { digest, size: digest.size() };
        for (peer, (received, part)) in self.take_asked(digest) {
            self.give_result(peer, name, received);
            drop(part);
        }
    }

    /// Refuses a blob that does not come back from disk: the peers that requested it are told why.
    fn lose_those_asked_for(&mut self, digest: Digest, text: &str) {
        for (peer, _) in self.take_asked(digest) {
            self.refuse_result(peer, digest, text);
        }
    }

    fn refuse_result(&mut self, peer: PeerId, digest: Digest, text: &str) {
        let text = text.to_owned();
        self.say_blob(peer, &BlobMessage::Dropped { digest, text });
    }

    fn take_asked(&mut self, digest: Digest) -> Vec<(PeerId, Wanted)> {
        let receiver = self.blobs().receiver;
        receiver.map(|receiver| receiver.requested.take(digest)).unwrap_or_default()
    }

    /// Records that a peer has all of a result, for one answer.
    fn result_received(&mut self, peer: PeerId, digest: Digest) {
        let receiver = self.blobs().receiver;
        if receiver.is_some_and(|receiver| receiver.let_go(digest, peer)) {
            self.cease(peer, digest);
        }
    }
}

impl<H: BlobHome> ResultRetention for H {}
