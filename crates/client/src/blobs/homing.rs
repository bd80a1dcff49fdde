//! Large results on their way home to a program's client.
//!
//! An answer names them; the bytes follow it in pieces. The task ends once all are here and were found to hash to its name:
//! until then it is where it ran, and is lost with that node, as it is if they do not. Its client holds a result like an argument, as long as a future or a task needs it, so that tasks
//! elsewhere get it from the node where it was made.

use std::collections::{BTreeMap, HashMap};

use gristmill_core::{Payload, PeerAnswer, PeerEnd, Tags};
use gristmill_shm::{ArenaError, BlockPart};
use gristmill_wire::peer::{BlobMessage, Part, Parted, Piece, Shortfall};
use gristmill_wire::{Attempt, BlobName, Digest, PeerId, TaskId};

use super::inspector::{Finding, Inspector};
use super::parts::{BlobHome, BlobParts};
use super::staying::StayingWork as _;
use super::work::{BlobTalk as _, GivingWork as _};
use crate::bundle::Bundle;
use crate::peers::{Departure, LinkPort as _, LinkWork as _, Parts};

/// A task that has returned at a peer.
#[derive(Debug, Clone, Copy)]
pub struct Returned {
    /// Which.
    pub task: TaskId,
    /// Which placement of it.
    pub attempt: Attempt,
    /// When it ran.
    pub tags: Tags,
}

/// An answer whose bytes have not all come.
#[derive(Debug)]
pub(crate) struct Answer {
    returned: Returned,
    bytes: Box<[u8]>,
    parts: Vec<BlockPart>,
    names: Vec<Option<BlobName>>,
    /// Parts that are not here yet, or not known to be the right ones.
    missing: usize,
    /// It had stayed where it was made.
    was_far: bool,
}

/// Where a part of a result is.
pub(crate) enum Source {
    Here(BlockPart),
    Named(BlobName),
}

/// A blob on its way.
#[derive(Debug)]
struct Coming {
    /// What the inspector calls it.
    key: u64,
    part: BlockPart,
    received: u64,
    /// The answers that name it.
    answers: Vec<u64>,
}

/// What came of bytes that were named.
#[derive(Debug)]
enum Verdict {
    /// They are the right ones; the answers of this peer that lack nothing more.
    Right(PeerId, Vec<Answer>),
    /// They are others. What this peer named, and what came hashes to.
    Wrong(PeerId, BlobName, Digest),
}

/// Results on their way home.
#[derive(Debug, Default)]
pub(crate) struct Homing {
    coming: HashMap<(PeerId, Digest), Coming>,
    answers: HashMap<u64, Answer>,
    next: u64,
    inspector: Inspector,
    /// Tasks whose results stayed where they were made.
    pub far: BTreeMap<TaskId, Returned>,
}

impl Homing {
    /// Takes bytes in, which are hashed from here on.
    fn take_piece(&mut self, peer: PeerId, piece: &Piece<'_>) {
        let Some(coming) = self.coming.get_mut(&(peer, piece.digest)) else { return };
        // What came twice, for two answers that name the same bytes, is not behind what is here.
        if piece.offset != coming.received || !coming.part.write_at(piece.offset, piece.bytes) {
            return;
        }
        coming.received += piece.bytes.len() as u64;
        self.inspector.follow(coming.key, &coming.part, coming.received);
    }

    /// Compares what bytes hash to with what they were named; none: nobody waits for them any more.
    fn judge(&mut self, (key, found): Finding) -> Option<Verdict> {
        let (&place, coming) = self.coming.iter().find(|(_, coming)| coming.key == key)?;
        let (peer, digest) = place;
        if found != digest {
            // It goes with its peer, and so do the answers that wait for it.
            let size = coming.part.range().size;
            return Some(Verdict::Wrong(peer, BlobName { digest, size }, found));
        }
        let Coming { part, answers, .. } = self.coming.remove(&place)?;
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

    /// Whether something is known of bytes that have come.
    pub fn has_findings(&self) -> bool {
        self.inspector.has_findings()
    }

    /// Nothing comes any more.
    pub fn close(&mut self) {
        self.inspector = Inspector::default();
    }

    /// Whether nothing is on its way, or stayed where it was made.
    pub fn is_empty(&self) -> bool {
        self.coming.is_empty() && self.answers.is_empty() && self.far.is_empty()
    }

    /// A peer is gone, and what came from there.
    pub fn forget(&mut self, peer: PeerId) {
        for (_, coming) in self.coming.extract_if(|(from, _), _| *from == peer) {
            self.inspector.forget(coming.key);
            for key in coming.answers {
                self.answers.remove(&key);
            }
        }
    }

    /// A task's result does not come from a peer, which may cease to send it: what comes for nobody else is asked for anew
    /// when it is named again.
    pub fn give_up(&mut self, peer: PeerId, task: TaskId) {
        let found = self.answers.iter().find(|(_, answer)| answer.returned.task == task);
        if let Some((&key, _)) = found {
            self.abandon(peer, key);
        }
    }

    /// Bytes do not come from a peer, which has them no more: the tasks that were to end with them, each with what its answer
    /// names. Those whose results had stayed have ended already.
    pub fn drop_awaited(&mut self, peer: PeerId, digest: Digest) -> Vec<(Returned, Vec<BlobName>)> {
        let coming = self.coming.get(&(peer, digest));
        let mut keys = coming.map_or_else(Vec::new, |coming| coming.answers.clone());
        keys.retain(|key| self.answers.get(key).is_some_and(|answer| !answer.was_far));
        // An answer may name the same bytes twice.
        keys.dedup();
        let answers = keys.iter().map(|key| &self.answers[key]);
        let named = |answer: &Answer| answer.names.iter().flatten().copied().collect();
        let dropped = answers.map(|answer| (answer.returned, named(answer))).collect();
        keys.into_iter().for_each(|key| self.abandon(peer, key));
        dropped
    }

    /// An answer has no use for what it names.
    fn abandon(&mut self, peer: PeerId, key: u64) {
        self.answers.remove(&key);
        self.coming.retain(|(from, _), coming| {
            coming.answers.retain(|&other| *from != peer || other != key);
            let is_awaited = !coming.answers.is_empty();
            if !is_awaited {
                self.inspector.forget(coming.key);
            }
            is_awaited
        });
    }

    /// How much of a task's result has come, and of how much; none: it is not on its way.
    pub fn progress(&self, task: TaskId) -> Option<(u64, u64)> {
        let (key, _) = self.answers.iter().find(|(_, answer)| answer.returned.task == task)?;
        let mine = self.coming.values().filter(|coming| coming.answers.contains(key));
        let sizes = mine.map(|coming| (coming.received, coming.part.range().size));
        Some(sizes.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)))
    }
}

/// Getting results home.
pub(crate) trait HomingWork: BlobHome {
    /// A task has returned, at a peer, what its answer names.
    fn await_result_of(&mut self, peer: PeerId, returned: Returned, parted: &Parted<'_>) {
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
                Part::Bytes(bytes) => self.blobs().arena.store(bytes).map(Source::Here),
                Part::Blob(name) => Ok(Source::Named(*name)),
            });
            let parts = parts.collect::<Result<Vec<_>, _>>();
            parts.and_then(|parts| self.expect(peer, returned, (parted.bytes, parts), false))
        };
        if let Err(error) = taken {
            self.let_go_of(peer, parted);
            self.fail_for_memory(peer, returned, &error);
        }
    }

    /// Gets a result home that stayed where it was made.
    fn fetch_result(&mut self, peer: PeerId, returned: Returned, bundle: &Bundle) {
        let source = |(part, name): (&BlockPart, Option<BlobName>)| {
            name.map_or_else(|| Source::Here(part.clone()), Source::Named)
        };
        let parts = bundle.named_parts().map(source).collect();
        if let Err(error) = self.expect(peer, returned, (bundle.bytes(), parts), true) {
            self.fail_for_memory(peer, returned, &error);
        }
    }

    fn fail_for_memory(&mut self, peer: PeerId, returned: Returned, error: &ArenaError) {
        let raised = format!("\0{error}").into_bytes();
        self.end_awaited(peer, returned, PeerEnd::Raised(raised.into()));
    }

    /// Makes room for a result, and asks for what does not come by itself.
    fn expect(
        &mut self,
        peer: PeerId,
        returned: Returned,
        (bytes, sources): (&[u8], Vec<Source>),
        was_far: bool,
    ) -> Result<(), ArenaError> {
        let BlobParts { homing, .. } = self.blobs();
        let key = homing.next;
        homing.next += 1;
        let asks = was_far || self.core().may_stay(returned.task);
        let (parts, names) = (Vec::new(), Vec::new());
        let mut answer =
            Answer { returned, bytes: bytes.into(), parts, names, missing: 0, was_far };
        for source in sources {
            let (part, name) = match source {
                Source::Here(part) => (part, None),
                Source::Named(name) => match self.place_for((peer, key), name, asks) {
                    Ok((part, is_here)) => {
                        answer.missing += usize::from(!is_here);
                        (part, Some(name))
                    }
                    Err(error) => {
                        self.blobs().homing.abandon(peer, key);
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
            self.blobs().homing.answers.insert(key, answer);
        }
        Ok(())
    }

    /// The block of a named part of a result, for one more answer; and whether its bytes are here. `asks`: it does not come
    /// by itself.
    fn place_for(
        &mut self,
        (peer, key): (PeerId, u64),
        name: BlobName,
        asks: bool,
    ) -> Result<(BlockPart, bool), ArenaError> {
        let waker = self.links().sleeper().map(|sleeper| sleeper.waker());
        let BlobParts { homing, arena, giving, .. } = self.blobs();
        if let Some(part) = giving.part(name.digest).filter(|part| !part.is_exposed()) {
            return Ok((part.clone(), true));
        }
        let place = (peer, name.digest);
        if let Some(coming) = homing.coming.get_mut(&place) {
            coming.answers.push(key);
            return Ok((coming.part.clone(), false));
        }
        let part = arena.reserve(usize::try_from(name.size).unwrap_or(usize::MAX))?;
        let (part_key, answers) = (homing.inspector.enter(waker), vec![key]);
        let coming = Coming { key: part_key, part: part.clone(), received: 0, answers };
        homing.coming.insert(place, coming);
        if asks {
            let (shortfall, text) = (Shortfall::None, String::new());
            self.say_blob(peer, &BlobMessage::Need { name, received: 0, shortfall, text });
        }
        Ok((part, false))
    }

    /// Takes in bytes of results.
    fn take_result_piece(&mut self, peer: PeerId, piece: &Piece<'_>) {
        self.blobs().homing.take_piece(peer, piece);
    }

    /// Takes in what bytes of results were found to be. A node that has named others is broken, or lies: nothing that it has
    /// is of any worth.
    fn take_findings(&mut self) {
        for finding in self.blobs().homing.inspector.take_findings() {
            match self.blobs().homing.judge(finding) {
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

    /// All of a result is here.
    fn result_came(&mut self, peer: PeerId, answer: Answer) {
        let Answer { returned, bytes, mut parts, names, was_far, .. } = answer;
        for (part, name) in parts.iter_mut().zip(&names) {
            let Some(name) = *name else { continue };
            *part = self.blobs().giving.hold(name, part.clone());
            // Of one that had stayed that is known, and said when its names go.
            if !was_far {
                self.blobs().giving.spread.made(peer, name.digest);
                self.say_blob(peer, &BlobMessage::Received { digest: name.digest });
            }
        }
        let payload = self.blobs().bundles.insert_named(&bytes, parts, names);
        self.obey_spread();
        self.end_awaited(peer, returned, PeerEnd::Returned(payload));
    }

    fn end_awaited(&mut self, peer: PeerId, returned: Returned, end: PeerEnd) {
        let Returned { task, attempt, tags } = returned;
        let Parts { core, port, .. } = self.parts();
        let answer = PeerAnswer { task, attempt, end, tags };
        let _ = core.peer_answered(peer, answer, port.now(), port);
    }

    /// Nobody waits for a result.
    fn let_go_of(&mut self, peer: PeerId, parted: &Parted<'_>) {
        for part in &parted.parts {
            if let Part::Blob(BlobName { digest, .. }) = *part {
                self.say_blob(peer, &BlobMessage::Received { digest });
            }
        }
    }
}

impl<H: BlobHome> HomingWork for H {}

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

    /// Two answers of the same bytes.
    fn two_answers() -> Homing {
        let arena = ClientArena::create(0).expect("an arena");
        let mut homing = Homing::default();
        let part = arena.reserve(BYTES.len()).expect("a block");
        let key = homing.inspector.enter(None);
        let coming = Coming { key, part: part.clone(), received: 0, answers: vec![0, 1] };
        homing.coming.insert((PEER, digest()), coming);
        for key in [0, 1] {
            let returned =
                Returned { task: TaskId::new(9, 9), attempt: Attempt(0), tags: Tags::default() };
            let (bytes, parts, names) = (Box::default(), vec![part.clone()], vec![None]);
            homing
                .answers
                .insert(key, Answer { returned, bytes, parts, names, missing: 1, was_far: false });
        }
        homing
    }

    fn take(homing: &mut Homing, peer: PeerId, offset: u64, bytes: &[u8]) -> Option<Verdict> {
        homing.take_piece(peer, &Piece { digest: digest(), offset, bytes });
        let finding = homing.inspector.take_findings().pop()?;
        homing.judge(finding)
    }

    #[test]
    fn bytes_that_come_twice_end_all_answers_that_name_them_once() {
        let mut homing = two_answers();
        assert!(take(&mut homing, PeerId(4), 0, b"other").is_none());
        for again in [b"abc", b"abc", b"xyz"] {
            assert!(take(&mut homing, PEER, 0, again).is_none());
        }
        assert_eq!(homing.progress(TaskId::new(9, 9)), Some((3, 6)));
        let verdict = take(&mut homing, PEER, 3, b"def");
        let Some(Verdict::Right(PEER, whole)) = verdict else { panic!("{verdict:?}") };
        assert_eq!(whole.len(), 2);
        assert_eq!(whole[0].parts[0].to_vec(), BYTES);
        assert!(take(&mut homing, PEER, 0, b"abc").is_none());
        assert!(homing.coming.is_empty() && homing.answers.is_empty());
    }

    #[test]
    fn more_bytes_than_were_named_are_not_taken() {
        let mut homing = two_answers();
        assert!(take(&mut homing, PEER, 0, b"too many").is_none());
        assert_eq!(homing.progress(TaskId::new(9, 9)), Some((0, 6)));
    }

    #[test]
    fn bytes_that_are_not_those_named_end_no_answer() {
        let mut homing = two_answers();
        let verdict = take(&mut homing, PEER, 0, b"abcdeX");
        assert!(matches!(verdict, Some(Verdict::Wrong(PEER, BlobName { size: 6, .. }, _))));
        assert_eq!(homing.answers.len(), 2);
        homing.forget(PEER);
        assert!(homing.is_empty(), "nothing is kept of its peer");
    }

    #[test]
    fn what_was_found_of_bytes_that_nobody_waits_for_is_nothing() {
        let mut homing = two_answers();
        homing.take_piece(PEER, &Piece { digest: digest(), offset: 0, bytes: BYTES });
        homing.forget(PEER);
        let finding = homing.inspector.take_findings().pop().expect("all had come");
        assert!(homing.judge(finding).is_none());
    }

    #[test]
    fn what_nobody_waits_for_is_forgotten() {
        let mut homing = two_answers();
        homing.abandon(PEER, 0);
        assert_eq!(homing.coming.len(), 1, "the other answer waits");
        homing.give_up(PEER, TaskId::new(9, 9));
        assert!(homing.coming.is_empty() && homing.answers.is_empty());
        let mut homing = two_answers();
        homing.forget(PEER);
        assert!(homing.coming.is_empty() && homing.answers.is_empty());
    }
}
