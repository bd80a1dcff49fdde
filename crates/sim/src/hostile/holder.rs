//! An honest node that handles blobs: it requests the arguments of its tasks, checks that their bytes match their names, and
//! answers with large results.

use std::collections::{BTreeMap, VecDeque};

use gristmill_client::Link;
use gristmill_core::{Attempt, TaskId};
use gristmill_wire::peer::{
    AnswerMessage, BlobMessage, Control, EndKind, Heartbeat, MessageKind, Messages, ParentResult,
    Part, Parted, Piece, Shortfall, TaskMessage,
};
use gristmill_wire::{BlobName, Digest, Span, WorkerState};

use super::payloads::{Contents, content};

/// A task that the node has received and not answered.
struct Given {
    task: TaskId,
    attempt: Attempt,
    number: u64,
    may_stay: bool,
    needs: Vec<Digest>,
    /// Parents of the task, whose results the node has or will have.
    parents: Vec<(TaskId, Attempt)>,
    /// True if a blob that the task needs cannot be had.
    is_hopeless: bool,
}

/// The node's end of its link.
pub(super) struct Holder {
    pub link: Link,
    contents: Contents,
    given: VecDeque<Given>,
    blobs: BTreeMap<Digest, Vec<u8>>,
    coming: BTreeMap<Digest, (BlobName, Vec<u8>)>,
    returned: Vec<(TaskId, Attempt)>,
    /// Number of shortfalls that it has reported.
    shortfalls: u32,
    /// Reasons for which requested blobs could not be had.
    pub refusals: Vec<String>,
    clock: u64,
}

impl Holder {
    pub fn new(link: Link, contents: Contents) -> Self {
        Self {
            link,
            contents,
            given: VecDeque::new(),
            blobs: BTreeMap::new(),
            coming: BTreeMap::new(),
            returned: Vec::new(),
            shortfalls: 0,
            refusals: Vec::new(),
            clock: 0,
        }
    }

    /// Reads all messages, answers one task, and sends a heartbeat.
    pub fn turn(&mut self) {
        self.clock += 1_000;
        let mut chunk = Vec::new();
        while self.link.receive(&mut chunk).expect("the engine keeps to the protocol") {
            for message in Messages::new(&chunk) {
                let (kind, body) = message.expect("the engine sends messages");
                self.take(kind, body);
            }
        }
        let is_ready = |given: &Given| {
            given.is_hopeless || given.needs.iter().all(|need| self.blobs.contains_key(need))
        };
        if self.given.front().is_some_and(is_ready)
            && let Some(given) = self.given.pop_front()
        {
            self.run(&given);
        }
        Heartbeat { sent_ns: self.clock, workers: 2, ..Heartbeat::default() }
            .write(&mut self.link.out);
        let _ = self.link.flush();
    }

    fn run(&mut self, given: &Given) {
        let has_parents = given.parents.iter().all(|parent| self.returned.contains(parent));
        if given.is_hopeless || !has_parents {
            return self.answer(given, EndKind::Unstarted, None);
        }
        let (name, bytes) = content(&self.contents, given.number).clone();
        self.answer(given, EndKind::Returned, Some(name));
        self.returned.push((given.task, given.attempt));
        self.blobs.insert(name.digest, bytes);
        if !given.may_stay {
            self.give(name.digest, 0);
        }
    }

    fn answer(&mut self, given: &Given, end: EndKind, name: Option<BlobName>) {
        let span = Span::from_ticks(1_000);
        let message = AnswerMessage {
            task: given.task,
            attempt: given.attempt,
            end,
            started_ns: self.clock,
            claimed_before: span,
            ran: span,
            published_after: span,
            worker_state: WorkerState::Hot,
            payload: Parted::default(),
            loss: None,
        };
        message.write(&mut self.link.out, |out| {
            Parted::put_head(out, b"", name.iter().len());
            name.iter().for_each(|name| Parted::put_name(out, name));
        });
    }

    /// Sends a blob in two pieces, from byte `received` on.
    fn give(&mut self, digest: Digest, received: usize) {
        let bytes = &self.blobs[&digest][received..];
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        let offset = received as u64;
        for (offset, bytes) in [(offset, first), (offset + first.len() as u64, rest)] {
            Piece::write(&mut self.link.out, (digest, offset), bytes.len(), |space| {
                space.copy_from_slice(bytes);
            });
        }
    }

    fn take(&mut self, kind: MessageKind, body: &[u8]) {
        match kind {
            MessageKind::Task => self.take_task(body),
            MessageKind::Piece => self.take_piece(&Piece::read(body).expect("it is one")),
            MessageKind::Heartbeat
            | MessageKind::Define
            | MessageKind::DefineContext
            | MessageKind::ForgetContext
            | MessageKind::ForgetFunction
            | MessageKind::ContextState => {}
            other => {
                let control = Control::read(other, body).expect("the engine sends messages");
                match control {
                    Some(control) => self.handle(control),
                    None => self.take_blob(BlobMessage::read(other, body).expect("it is one")),
                }
            }
        }
    }

    fn take_task(&mut self, body: &[u8]) {
        let task = TaskMessage::read(body).expect("the engine sends tasks");
        // Tasks of hostile nodes have no number.
        let number = task.payload.bytes.try_into().map_or(0, u64::from_le_bytes);
        let (mut needs, mut parents) = (Vec::new(), Vec::new());
        let mut parts = task.payload.parts.clone();
        for parent in task.parents.clone() {
            match parent.expect("it is a result") {
                ParentResult::Of(task, attempt) => parents.push((task, attempt)),
                ParentResult::Value(value) => parts.extend(value.parts),
            }
        }
        for part in parts {
            let Part::Blob(name) = part else { continue };
            needs.push(name.digest);
            if !self.blobs.contains_key(&name.digest) && !self.coming.contains_key(&name.digest) {
                self.coming.insert(name.digest, (name, Vec::new()));
                self.need(name.digest, Shortfall::None);
            }
        }
        let (may_stay, is_hopeless) = (task.may_stay, false);
        let (task, attempt) = (task.task, task.attempt);
        let given = Given { task, attempt, number, may_stay, needs, parents, is_hopeless };
        self.given.push_back(given);
    }

    fn need(&mut self, digest: Digest, shortfall: Shortfall) {
        let Some((name, bytes)) = self.coming.get(&digest) else { return };
        let (name, received, text) = (*name, bytes.len() as u64, String::new());
        BlobMessage::Need { name, received, shortfall, text }.write(&mut self.link.out);
    }

    fn take_piece(&mut self, piece: &Piece<'_>) {
        let digest = piece.digest;
        let Some((name, bytes)) = self.coming.get_mut(&digest) else { return };
        if piece.offset != bytes.len() as u64 {
            return;
        }
        bytes.extend_from_slice(piece.bytes);
        if (bytes.len() as u64) < name.size {
            return;
        }
        let right = self.contents.iter().find(|(name, _)| name.digest == digest);
        let is_right = right.is_some_and(|(_, right)| right == bytes);
        assert!(is_right, "the engine gave other bytes than it named");
        if let Some((_, bytes)) = self.coming.remove(&digest) {
            self.blobs.insert(digest, bytes);
        }
        BlobMessage::Have { digest, fetched: 0 }.write(&mut self.link.out);
    }

    fn take_blob(&mut self, message: Option<BlobMessage>) {
        match message.expect("it is known") {
            BlobMessage::Need { name, received, .. } => {
                let received = usize::try_from(received).expect("it is small");
                assert!(self.blobs.contains_key(&name.digest), "it has the blob that it named");
                self.give(name.digest, received);
            }
            BlobMessage::Fetch { address, name } => {
                // The named address has no node that gives the right bytes.
                self.shortfalls += 1;
                let is_lie = self.shortfalls.is_multiple_of(2);
                let shortfall = match (address.is_empty(), is_lie) {
                    (true, _) => Shortfall::None,
                    (false, true) => Shortfall::Wrong,
                    (false, false) => Shortfall::Gone,
                };
                self.need(name.digest, shortfall);
            }
            BlobMessage::Dropped { digest, text } => {
                self.coming.remove(&digest);
                if !text.is_empty() {
                    self.refusals.push(text);
                }
                for given in self.given.iter_mut().filter(|one| one.needs.contains(&digest)) {
                    given.is_hopeless |= !self.blobs.contains_key(&digest);
                }
            }
            BlobMessage::Received { .. } => {}
            other => panic!("an honest node gave no cause for {other:?}"),
        }
    }

    fn give_back(&mut self, task: TaskId, attempt: Attempt) -> bool {
        let place = self.given.iter().position(|one| (one.task, one.attempt) == (task, attempt));
        let given = place.and_then(|place| self.given.remove(place));
        given.is_some_and(|given| {
            self.answer(&given, EndKind::Unstarted, None);
            true
        })
    }

    fn handle(&mut self, control: Control) {
        match control {
            Control::Withdraw { task, attempt } => {
                if !self.give_back(task, attempt) {
                    Control::Kept { task, attempt }.write(&mut self.link.out);
                }
            }
            Control::Stop { task, attempt, .. } => drop(self.give_back(task, attempt)),
            Control::Recall { count } => {
                for _ in 0..count {
                    let Some(given) = self.given.pop_back() else { break };
                    self.answer(&given, EndKind::Unstarted, None);
                }
                Control::Recalled.write(&mut self.link.out);
            }
            Control::Want { .. } | Control::Floor { .. } => {}
            other => panic!("an honest node gave no cause for {other:?}"),
        }
    }
}
