//! Large results on their way to the program's client.
//!
//! An answer names them, and the bytes follow in pieces. The task ends once all bytes are here and hash to their names. Until
//! then the task belongs to the node where it ran: it is lost if the node is lost, or if the bytes do not match. The client
//! holds a result like an argument, as long as a future or a task needs it, so that tasks on other nodes get it from the node
//! where it was made.

use std::collections::{BTreeMap, HashMap};

use gristmill_core::{AttemptTimings, Payload, PeerAnswer, PeerEnd};
use gristmill_shm::{ArenaError, BlockPart};
use gristmill_wire::peer::{BlobMessage, Part, Parted, Piece, Shortfall};
use gristmill_wire::{Attempt, BlobName, Digest, FailureKind, PeerId, TaskFailure, TaskId};

use super::deferred::DeferredResults as _;
use super::hash_verifier::{HashResult, HashVerifier};
use super::parts::{BlobHome, BlobParts};
use super::work::{BlobMessageHandler as _, BlobProviderWork as _};
use crate::bundle::Bundle;
use crate::peers::{Departure, EngineParts, LinkPort as _, LinkWork as _};

/// Completion of a task that has returned on a peer.
#[derive(Debug, Clone, Copy)]
pub struct RemoteCompletion {
    /// Task that has returned.
    pub task: TaskId,
    /// Attempt that has returned.
    pub attempt: Attempt,
    /// Timings of the run.
    pub timings: AttemptTimings,
}

/// Answer whose bytes have not all come.
#[derive(Debug)]
pub(crate) struct PendingAnswer {
    returned: RemoteCompletion,
    bytes: Box<[u8]>,
    parts: Vec<BlockPart>,
    names: Vec<Option<BlobName>>,
    /// Number of parts that are not here yet, or not verified yet.
    missing: usize,
    /// True if the result had stayed where it was made.
    was_far: bool,
}

/// Location of a part of a result.
pub(crate) enum PartSource {
    Here(BlockPart),
    Named(BlobName),
}

/// Result blob on its way.
#[derive(Debug)]
struct InboundResultBlob {
    /// Key of the blob at the hash verifier.
    key: u64,
    part: BlockPart,
    received: u64,
    /// Keys of the answers that name it.
    answers: Vec<u64>,
}

/// Verdict on the bytes of a named blob.
#[derive(Debug)]
enum Verdict {
    /// The bytes match the name: the peer, and its answers that lack nothing more.
    Right(PeerId, Vec<PendingAnswer>),
    /// The bytes do not match: the peer, the name that it gave, and the hash of the bytes that came.
    Wrong(PeerId, BlobName, Digest),
}

/// Results on their way to the client.
#[derive(Debug, Default)]
pub(crate) struct InboundResults {
    coming: HashMap<(PeerId, Digest), InboundResultBlob>,
    answers: HashMap<u64, PendingAnswer>,
    next: u64,
    hash_verifier: HashVerifier,
    /// Tasks whose results stayed where they were made.
    pub remote: BTreeMap<TaskId, RemoteCompletion>,
}

impl InboundResults {
    /// Stores a piece of a result, and has it hashed.
    fn take_piece(&mut self, peer: PeerId, piece: &Piece<'_>) {
        let Some(coming) = self.coming.get_mut(&(peer, piece.digest)) else { return };
        // A piece that comes twice, for two answers that name the same bytes, does not begin where the received bytes end.
        if piece.offset != coming.received || !coming.part.write_at(piece.offset, piece.bytes) {
            return;
        }
        coming.received += piece.bytes.len() as u64;
        self.hash_verifier.follow(coming.key, &coming.part, coming.received);
    }

    /// Compares the hash of received bytes with their name. Returns `None` if no answer waits for these bytes any more.
    fn judge(&mut self, (key, found): HashResult) -> Option<Verdict> {
        let (&place, coming) = self.coming.iter().find(|(_, coming)| coming.key == key)?;
        let (peer, digest) = place;
        if found != digest {
            // The blob is removed with its peer, and so are the answers that wait for it.
            let size = coming.part.range().size;
            return Some(Verdict::Wrong(peer, BlobName { digest, size }, found));
        }
        let InboundResultBlob { part, answers, .. } = self.coming.remove(&place)?;
        part.note_digest(digest);
        let mut whole = Vec::new();
        for key in answers {
            let Some(answer) = self.answers.get_mut(&key) else { continue };
            answer.missing -= 1;
            if answer.missing == 0 {
                whole.extend(self.answers.remove(&key));
            }
        }
        Some(Verdict::Right(peer, whole))
    }

    /// Returns true if the hash verifier has findings.
    pub fn has_findings(&self) -> bool {
        self.hash_verifier.has_findings()
    }

    /// Ends the hash verifier: no more results come.
    pub fn close(&mut self) {
        self.hash_verifier = HashVerifier::default();
    }

    /// Returns true if no result is on its way, and none stayed where it was made.
    pub fn is_empty(&self) -> bool {
        self.coming.is_empty() && self.answers.is_empty() && self.remote.is_empty()
    }

    /// Forgets a peer that is gone, and all results on their way from it.
    pub fn forget(&mut self, peer: PeerId) {
        for (_, coming) in self.coming.extract_if(|(from, _), _| *from == peer) {
            self.hash_verifier.forget(coming.key);
            for key in coming.answers {
                self.answers.remove(&key);
            }
        }
    }

    /// Gives up a task's result, which its peer may stop sending. Blobs that no other answer waits for are requested again
    /// when they are named again.
    pub fn give_up(&mut self, peer: PeerId, task: TaskId) {
        let found = self.answers.iter().find(|(_, answer)| answer.returned.task == task);
        if let Some((&key, _)) = found {
            self.abandon(peer, key);
        }
    }

    /// Removes the answers that wait for a blob which its peer no longer has. Returns the completions of their tasks, each
    /// with the names in the answer. Leaves out deferred results, because their tasks have returned already.
    pub fn drop_awaited(
        &mut self,
        peer: PeerId,
        digest: Digest,
    ) -> Vec<(RemoteCompletion, Vec<BlobName>)> {
        let coming = self.coming.get(&(peer, digest));
        let mut keys = coming.map_or_else(Vec::new, |coming| coming.answers.clone());
        keys.retain(|key| self.answers.get(key).is_some_and(|answer| !answer.was_far));
        // An answer may name the same bytes twice.
        keys.dedup();
        let answers = keys.iter().map(|key| &self.answers[key]);
        let named = |answer: &PendingAnswer| answer.names.iter().flatten().copied().collect();
        let dropped = answers.map(|answer| (answer.returned, named(answer))).collect();
        keys.into_iter().for_each(|key| self.abandon(peer, key));
        dropped
    }

    /// Removes an answer, and the blobs that no other answer waits for.
    fn abandon(&mut self, peer: PeerId, key: u64) {
        self.answers.remove(&key);
        self.coming.retain(|(from, _), coming| {
            coming.answers.retain(|&other| *from != peer || other != key);
            let is_awaited = !coming.answers.is_empty();
            if !is_awaited {
                self.hash_verifier.forget(coming.key);
            }
            is_awaited
        });
    }

    /// Returns the number of bytes of a task's result that have come, and the number of all its bytes. Returns `None` if the
    /// result is not on its way.
    pub fn progress(&self, task: TaskId) -> Option<(u64, u64)> {
        let (key, _) = self.answers.iter().find(|(_, answer)| answer.returned.task == task)?;
        let mine = self.coming.values().filter(|coming| coming.answers.contains(key));
        let sizes = mine.map(|coming| (coming.received, coming.part.range().size));
        Some(sizes.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)))
    }
}

/// Transfer of results to the client.
pub(crate) trait InboundResultsWork: BlobHome {
    /// Handles the answer of a task that returned on a peer and whose result has named parts.
    fn await_result_of(&mut self, peer: PeerId, returned: RemoteCompletion, parted: &Parted<'_>) {
        if !self.core().awaits(peer, returned.task, returned.attempt) {
            return self.let_go_of(peer, parted);
        }
        if self.core().is_unwanted(returned.task) {
            self.let_go_of(peer, parted);
            return self.end_awaited(peer, returned, PeerEnd::Returned(Payload::EMPTY));
        }
        let taken = if self.stays(returned.task) {
            self.leave_there(peer, returned, parted)
        } else {
            let parts = parted.parts.iter().map(|part| match part {
                Part::Bytes(bytes) => self.blobs().arena.store(bytes).map(PartSource::Here),
                Part::Blob(name) => Ok(PartSource::Named(*name)),
            });
            let parts = parts.collect::<Result<Vec<_>, _>>();
            parts.and_then(|parts| self.expect(peer, returned, (parted.bytes, parts), false))
        };
        if let Err(error) = taken {
            self.let_go_of(peer, parted);
            self.fail_for_memory(peer, returned, &error);
        }
    }

    /// Fetches a result that stayed where it was made.
    fn fetch_result(&mut self, peer: PeerId, returned: RemoteCompletion, bundle: &Bundle) {
        let source = |(part, name): (&BlockPart, Option<BlobName>)| {
            name.map_or_else(|| PartSource::Here(part.clone()), PartSource::Named)
        };
        let parts = bundle.named_parts().map(source).collect();
        if let Err(error) = self.expect(peer, returned, (&bundle.bytes(), parts), true) {
            self.fail_for_memory(peer, returned, &error);
        }
    }

    fn fail_for_memory(&mut self, peer: PeerId, returned: RemoteCompletion, error: &ArenaError) {
        let raised = TaskFailure::of_text(FailureKind::NoMemory, &error.to_string()).encode();
        self.end_awaited(peer, returned, PeerEnd::Raised(raised.into()));
    }

    /// Reserves memory for a result, and requests the parts that do not come by themselves.
    fn expect(
        &mut self,
        peer: PeerId,
        returned: RemoteCompletion,
        (bytes, sources): (&[u8], Vec<PartSource>),
        was_far: bool,
    ) -> Result<(), ArenaError> {
        let BlobParts { inbound_results, .. } = self.blobs();
        let key = inbound_results.next;
        inbound_results.next += 1;
        let asks = was_far || self.core().may_stay(returned.task);
        let (parts, names) = (Vec::new(), Vec::new());
        let mut answer =
            PendingAnswer { returned, bytes: bytes.into(), parts, names, missing: 0, was_far };
        for source in sources {
            let (part, name) = match source {
                PartSource::Here(part) => (part, None),
                PartSource::Named(name) => match self.place_for((peer, key), name, asks) {
                    Ok((part, is_here)) => {
                        answer.missing += usize::from(!is_here);
                        (part, Some(name))
                    }
                    Err(error) => {
                        self.blobs().inbound_results.abandon(peer, key);
                        return Err(error);
                    }
                },
            };
            answer.parts.push(part);
            answer.names.push(name);
        }
        if answer.missing == 0 {
            self.result_came(peer, answer);
        } else {
            self.blobs().inbound_results.answers.insert(key, answer);
        }
        Ok(())
    }

    /// Returns the block of a named part of a result, for one more answer, and true if its bytes are here. `asks` is true if
    /// the peer sends the part only on request.
    fn place_for(
        &mut self,
        (peer, key): (PeerId, u64),
        name: BlobName,
        asks: bool,
    ) -> Result<(BlockPart, bool), ArenaError> {
        let waker = self.links().sleeper().map(|sleeper| sleeper.waker());
        let BlobParts { inbound_results, arena, provider, .. } = self.blobs();
        if let Some(part) = provider.part(name.digest).filter(|part| !part.is_exposed()) {
            return Ok((part.clone(), true));
        }
        let place = (peer, name.digest);
        if let Some(coming) = inbound_results.coming.get_mut(&place) {
            coming.answers.push(key);
            return Ok((coming.part.clone(), false));
        }
        let part = arena.reserve_or_spill(usize::try_from(name.size).unwrap_or(usize::MAX))?;
        let (part_key, answers) = (inbound_results.hash_verifier.enter(waker), vec![key]);
        let coming = InboundResultBlob { key: part_key, part: part.clone(), received: 0, answers };
        inbound_results.coming.insert(place, coming);
        if asks {
            let (shortfall, text) = (Shortfall::None, String::new());
            self.say_blob(peer, &BlobMessage::Need { name, received: 0, shortfall, text });
        }
        Ok((part, false))
    }

    /// Stores a piece of a result.
    fn take_result_piece(&mut self, peer: PeerId, piece: &Piece<'_>) {
        self.blobs().inbound_results.take_piece(peer, piece);
    }

    /// Handles the findings of the hash verifier. A node that sent other bytes than it named is broken or lies, so it is
    /// given up: nothing that it has can be trusted.
    fn take_findings(&mut self) {
        for finding in self.blobs().inbound_results.hash_verifier.take_findings() {
            match self.blobs().inbound_results.judge(finding) {
                None => {}
                Some(Verdict::Right(peer, answers)) => {
                    answers.into_iter().for_each(|answer| self.result_came(peer, answer));
                }
                Some(Verdict::Wrong(peer, BlobName { digest, size }, found)) => {
                    let text = format!(
                        "it sent {size} bytes of a result that do not hash to {digest}, as it had named them, but to \
                         {found}: its memory or its disk is damaged, or it is not what you started there"
                    );
                    self.peer_gone(peer, &text, Departure::Lost);
                }
            }
        }
    }

    /// Ends a task whose result is here completely.
    fn result_came(&mut self, peer: PeerId, answer: PendingAnswer) {
        let PendingAnswer { returned, bytes, mut parts, names, was_far, .. } = answer;
        for (part, name) in parts.iter_mut().zip(&names) {
            let Some(name) = *name else { continue };
            *part = self.blobs().provider.hold(name, part.clone());
            // For a deferred result the plan knows this already, and `Received` is sent when its names are released.
            if !was_far {
                self.blobs().provider.broadcast.made(peer, name.digest);
                self.say_blob(peer, &BlobMessage::Received { digest: name.digest });
            }
        }
        let payload = self.blobs().bundles.insert_named(&bytes, parts, names);
        self.follow_broadcast_plan();
        self.end_awaited(peer, returned, PeerEnd::Returned(payload));
    }

    fn end_awaited(&mut self, peer: PeerId, returned: RemoteCompletion, end: PeerEnd) {
        let RemoteCompletion { task, attempt, timings } = returned;
        let EngineParts { core, port, .. } = self.parts();
        let answer = PeerAnswer { task, attempt, end, timings };
        let _ = core.peer_answered(peer, answer, port.now(), port);
    }

    /// Tells a peer that it need not keep a result, because no caller wants the result.
    fn let_go_of(&mut self, peer: PeerId, parted: &Parted<'_>) {
        for part in &parted.parts {
            if let Part::Blob(BlobName { digest, .. }) = *part {
                self.say_blob(peer, &BlobMessage::Received { digest });
            }
        }
    }
}

impl<H: BlobHome> InboundResultsWork for H {}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_shm::ClientArena;
    use gristmill_store::digest_of;

    const PEER: PeerId = PeerId(3);
    const BYTES: &[u8] = b"abcdef";

    fn digest() -> Digest {
        digest_of(&ClientArena::create(0).expect("an arena").store(BYTES).expect("a block"))
    }

    /// Creates a table in which two answers name the same bytes.
    fn two_answers() -> InboundResults {
        let arena = ClientArena::create(0).expect("an arena");
        let mut inbound_results = InboundResults::default();
        let part = arena.reserve(BYTES.len()).expect("a block");
        let key = inbound_results.hash_verifier.enter(None);
        let coming =
            InboundResultBlob { key, part: part.clone(), received: 0, answers: vec![0, 1] };
        inbound_results.coming.insert((PEER, digest()), coming);
        for key in [0, 1] {
            let returned = RemoteCompletion {
                task: TaskId::new(9, 9),
                attempt: Attempt(0),
                timings: AttemptTimings::default(),
            };
            let (bytes, parts, names) = (Box::default(), vec![part.clone()], vec![None]);
            inbound_results.answers.insert(
                key,
                PendingAnswer { returned, bytes, parts, names, missing: 1, was_far: false },
            );
        }
        inbound_results
    }

    fn take(
        inbound_results: &mut InboundResults,
        peer: PeerId,
        offset: u64,
        bytes: &[u8],
    ) -> Option<Verdict> {
        inbound_results.take_piece(peer, &Piece { digest: digest(), offset, bytes });
        let finding = inbound_results.hash_verifier.take_findings().pop()?;
        inbound_results.judge(finding)
    }

    #[test]
    fn bytes_that_come_twice_end_all_answers_that_name_them_once() {
        let mut inbound_results = two_answers();
        assert!(take(&mut inbound_results, PeerId(4), 0, b"other").is_none());
        for again in [b"abc", b"abc", b"xyz"] {
            assert!(take(&mut inbound_results, PEER, 0, again).is_none());
        }
        assert_eq!(inbound_results.progress(TaskId::new(9, 9)), Some((3, 6)));
        let verdict = take(&mut inbound_results, PEER, 3, b"def");
        let Some(Verdict::Right(PEER, whole)) = verdict else { panic!("{verdict:?}") };
        assert_eq!(whole.len(), 2);
        assert_eq!(whole[0].parts[0].to_vec(), BYTES);
        assert!(take(&mut inbound_results, PEER, 0, b"abc").is_none());
        assert!(inbound_results.coming.is_empty() && inbound_results.answers.is_empty());
    }

    #[test]
    fn more_bytes_than_were_named_are_not_taken() {
        let mut inbound_results = two_answers();
        assert!(take(&mut inbound_results, PEER, 0, b"too many").is_none());
        assert_eq!(inbound_results.progress(TaskId::new(9, 9)), Some((0, 6)));
    }

    #[test]
    fn bytes_that_are_not_those_named_end_no_answer() {
        let mut inbound_results = two_answers();
        let verdict = take(&mut inbound_results, PEER, 0, b"abcdeX");
        assert!(matches!(verdict, Some(Verdict::Wrong(PEER, BlobName { size: 6, .. }, _))));
        assert_eq!(inbound_results.answers.len(), 2);
        inbound_results.forget(PEER);
        assert!(inbound_results.is_empty(), "nothing is kept of its peer");
    }

    #[test]
    fn a_finding_about_bytes_without_a_waiter_is_nothing() {
        let mut inbound_results = two_answers();
        inbound_results.take_piece(PEER, &Piece { digest: digest(), offset: 0, bytes: BYTES });
        inbound_results.forget(PEER);
        let finding = inbound_results.hash_verifier.take_findings().pop().expect("all had come");
        assert!(inbound_results.judge(finding).is_none());
    }

    #[test]
    fn a_blob_without_a_waiter_is_forgotten() {
        let mut inbound_results = two_answers();
        inbound_results.abandon(PEER, 0);
        assert_eq!(inbound_results.coming.len(), 1, "the other answer waits");
        inbound_results.give_up(PEER, TaskId::new(9, 9));
        assert!(inbound_results.coming.is_empty() && inbound_results.answers.is_empty());
        let mut inbound_results = two_answers();
        inbound_results.forget(PEER);
        assert!(inbound_results.coming.is_empty() && inbound_results.answers.is_empty());
    }
}
