//! What an engine calls of all this.

use gristmill_core::Block;
use gristmill_wire::peer::{MessageKind, Parted};
use gristmill_wire::{ContextId, FrameError, PeerId, TaskId};

use super::homing::{HomingWork as _, Returned};
use super::keeping::KeepingWork as _;
use super::parts::{BlobHome, BlobLook, BlobParts};
use super::staying::StayingWork as _;
use super::taking::Taking;
use super::work::{BlobTalk as _, GivingWork as _, TakingWork as _};
use crate::provisions::ProvisionWork as _;

/// What an engine with blobs does about them, where it is told of links, tasks and payloads.
pub trait BlobWork: BlobHome {
    /// A node came to which blobs can be given; `labels` are its owner's.
    fn blobs_joined(&mut self, peer: PeerId, labels: &str) {
        self.giver_came(peer, labels);
    }

    /// A peer is gone for good.
    fn blobs_left(&mut self, peer: PeerId) {
        self.giver_left(peer);
        self.taker_left(peer);
    }

    /// Takes in a message about blobs: of the other end of a lease.
    ///
    /// # Errors
    /// It is none.
    fn take_blob_of(
        &mut self,
        peer: PeerId,
        kind: MessageKind,
        body: &[u8],
    ) -> Result<(), FrameError> {
        self.take_blob(peer, kind, body)
    }

    /// Whether a thread beside the engine has told something that was not taken in.
    fn has_blob_news(&self) -> bool {
        let BlobLook { homing, taking, .. } = self.blob_look();
        taking.is_some_and(Taking::has_news) || homing.has_findings()
    }

    /// Takes in what the depot tells, and what results that come home were found to be.
    fn take_blob_news(&mut self, now: u64) {
        self.take_news_of_depot(now);
        self.take_provision_news();
        self.take_findings();
    }

    /// What the task at hand waits for besides its parents: blobs that it names and that are not here, and the files of its
    /// context.
    fn promises_of(&mut self, peer: PeerId, context: ContextId) -> Vec<TaskId> {
        let mut promises = self.promise_blobs(peer);
        promises.extend(self.promise_of_files(context));
        promises
    }

    /// A peer has defined a context with files.
    fn files_named(&mut self, peer: PeerId, context: ContextId) {
        self.note_provision(peer, context);
    }

    /// Whether a peer's task that is final is answered later, as its result gets names first.
    fn result_gets_names(&mut self, task: TaskId, place: u32) -> bool {
        self.has_name_to_come(task, place)
    }

    /// Whether somebody has yet to get a result.
    fn owes_blobs(&self) -> bool {
        self.blob_look().taking.is_some_and(Taking::owes)
    }

    /// A task has returned, at a peer, what its answer names.
    fn await_named(&mut self, peer: PeerId, returned: Returned, parted: &Parted<'_>) {
        self.await_result_of(peer, returned, parted);
    }

    /// Somebody wants to know of these tasks: results that stayed are brought home.
    #[inline]
    fn ask_for(&mut self, tasks: &[TaskId]) {
        self.bring_asked_for(tasks);
    }

    /// All results that stayed are brought home: those that somebody can ask for, and those that are at `peer`.
    fn bring_all_home(&mut self, peer: Option<PeerId>) {
        self.bring_all_home_from(peer);
    }

    /// Does what the plan says: due once arguments were taken.
    fn spread_blobs(&mut self) {
        self.obey_spread();
    }

    /// The graph has dropped a payload, and with it what its blocks were held for.
    fn drop_bundle(&mut self, block: Block) {
        let BlobParts { bundles, giving, .. } = self.blobs();
        let Some(named) = bundles.remove(block) else { return };
        match named.far() {
            Some(far) => self.let_far_go(&named, far),
            None => giving.release_all(&named),
        }
        // At once: a task that names the same blob may be on its way next.
        self.obey_spread();
    }
}

impl<H: BlobHome> BlobWork for H {}
