//! Large results of a lease's engine: they get names before they are answered, and are kept until whoever asked for them
//! has all bytes.
//!
//! The answer names them, and the bytes follow it over the same link, a piece at a time; where the result may stay they do so
//! once they are asked for, and may have been moved to disk before. Meanwhile, and for as long as there is room, other nodes
//! can fetch them here, and tasks that are sent here have them.

use gristmill_core::Outcome;
use gristmill_wire::{BlobName, Digest, PeerId, TaskId};

use gristmill_store::Want;
use gristmill_wire::peer::BlobMessage;

use super::asked::Wanted;
use super::depot::{Named, Order, Unnamed};
use super::kept::KeptFor;
use super::naming::is_blob;
use super::parts::{BlobHome, BlobParts};
use super::taking::Taking;
use super::work::{BlobTalk as _, GivingWork as _, TakingWork as _};
use crate::peers::LinkWork as _;

/// What is said of a result that is not here.
const GONE: &str = "it is not here any more";

impl Taking {
    /// Has a result named. False: nobody can, and its bytes go with the answer.
    fn name(&mut self, result: Unnamed) -> bool {
        let can_name = self.start_depot().is_ok();
        if can_name {
            self.unnamed += 1;
            self.order(Order::Name(result));
        }
        can_name
    }

    /// A blob is named in one more answer to a peer.
    fn keep(&mut self, digest: Digest, peer: PeerId) {
        self.store.pin(digest);
        self.kept.note(digest, peer);
    }

    /// A peer has a blob, for one answer; says whether it has it for all.
    fn let_go(&mut self, digest: Digest, peer: PeerId) -> bool {
        let kept_for = self.kept.let_go(digest, peer);
        if kept_for == KeptFor::Nobody {
            self.store.unpin(digest);
        }
        kept_for != KeptFor::It
    }

    /// Whether somebody has yet to get a result.
    pub fn owes(&self) -> bool {
        self.unnamed > 0 || self.kept.len() > 0
    }
}

/// Naming and keeping results of a lease's engine.
pub(crate) trait KeepingWork: BlobHome {
    /// Whether a peer's task that is final is answered later, as its result gets names first.
    fn has_name_to_come(&mut self, task: TaskId, place: u32) -> bool {
        let Some(Outcome::Returned(payload)) = self.core().outcome(task) else { return false };
        let Some(block) = payload.block() else { return false };
        let BlobParts { bundles, taking: Some(taking), .. } = self.blobs() else { return false };
        let parts = bundles.get(block).parts();
        let has_blobs = parts.iter().any(|part| is_blob(part, taking.sizes.min));
        has_blobs && taking.name(Unnamed { task, place, parts: parts.to_vec() })
    }

    /// A result has its names: it is answered, and its bytes follow.
    fn answer_by_name(&mut self, named: &Named) {
        let Named { result: Unnamed { task, place, parts }, names } = named;
        if let Some(taking) = self.blobs().taking {
            taking.unnamed -= 1;
        }
        let Some((peer, may_stay)) = self.answer_named(*task, *place, names) else { return };
        self.open_depot(peer);
        for (part, name) in parts.iter().zip(names) {
            let Some(BlobName { digest, .. }) = *name else { continue };
            if let Some(taking) = self.blobs().taking {
                taking.keep(digest, peer);
            }
            if !may_stay
                && let Some(link) = self.links_mut().get_mut(peer)
                && link.feeds.given(digest).is_none()
            {
                link.feeds.give(digest, part.clone(), 0);
            }
        }
    }

    /// A peer asks for a result that stayed, from a byte on.
    fn give_result(&mut self, peer: PeerId, name: BlobName, received: u64) {
        let Some(taking) = self.blobs().taking else { return };
        // What has yet to come was lost here: who asks for it would wait for himself.
        let comes = taking.store.progress(name.digest).is_some_and(|one| !one.is_complete);
        let part = if taking.store.has(name.digest) && !comes {
            taking.want(name).map_err(|error| error.to_string())
        } else {
            Err(GONE.to_owned())
        };
        match part {
            Ok(Want::Here(part)) => {
                if let Some(link) = self.links_mut().get_mut(peer) {
                    link.feeds.give(name.digest, part, received);
                    self.links_mut().has_outgoing = true;
                }
            }
            Ok(Want::OnDisk(part)) => {
                taking.order(Order::Restore(name));
                taking.asked.note(peer, name, (received, part));
            }
            Ok(Want::Coming(part)) => taking.asked.note(peer, name, (received, part)),
            // It went just now.
            Ok(Want::Missing(_)) => {
                taking.store.give_up(name.digest);
                self.refuse_result(peer, name.digest, GONE);
            }
            Err(text) => self.refuse_result(peer, name.digest, &text),
        }
    }

    /// A blob has come back from disk: those that have asked for it get it.
    fn give_those_asked_for(&mut self, digest: Digest) {
        let name = BlobName { digest, size: digest.size() };
        for (peer, (received, part)) in self.take_asked(digest) {
            self.give_result(peer, name, received);
            drop(part);
        }
    }

    /// A blob does not come back from disk: those that have asked for it learn why.
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
        let taking = self.blobs().taking;
        taking.map(|taking| taking.asked.take(digest)).unwrap_or_default()
    }

    /// A peer has all of a result, for one answer.
    fn result_received(&mut self, peer: PeerId, digest: Digest) {
        let taking = self.blobs().taking;
        if taking.is_some_and(|taking| taking.let_go(digest, peer)) {
            self.cease(peer, digest);
        }
    }
}

impl<H: BlobHome> KeepingWork for H {}
