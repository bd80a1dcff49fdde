//! A hostile peer: it sends valid messages in any order, about tasks that may not exist, and now and then chunks that fit no
//! session.

use std::cell::Cell;

use gristmill_core::{Attempt, Epoch, FunctionId, SlotId, TaskId};
use gristmill_transport::{Channel, ChunkHead};
use gristmill_wire::peer::{
    AnswerMessage, BlobMessage, Control, Definition, EndKind, Heartbeat, LeaseGrant, LeaseRequest,
    LossFrame, MessageKind, Messages, ParentResult, Parted, Piece, Shortfall, TaskLimits,
    TaskMessage,
};
use gristmill_wire::{BlobName, Digest, ResourceRequest, Span, WorkerState};

use super::choices::Choices;
use super::contexts::{context, define_all, speak_of_context};
use super::wire::Wire;

/// Number of functions that it defines first.
const FUNCTIONS: u8 = 4;
/// Bit of a size that no arena has but a name can hold.
pub(super) const ENDLESS: u64 = 1 << 47;
/// Kinds of chunks: a whole one, and one with a piece of a message.
const WHOLE: u8 = 1;
const PIECE: u8 = 2;

/// The hostile peer's end of its link.
pub(super) struct Liar {
    channel: Wire,
    is_client: bool,
    sent: u64,
    received: u64,
    /// Tasks that it has received; the engine accepts answers to these.
    pub tasks: Vec<(TaskId, Attempt)>,
    /// Blobs that exist; if it knows any, it sends messages about them all the time.
    pub blobs: Vec<(BlobName, Vec<u8>)>,
    /// Number of other names that it has used.
    pub odd_names: Cell<usize>,
    chunk: Vec<u8>,
}

impl Liar {
    /// Creates a hostile client or a hostile node, and sends its first definitions.
    pub fn new(channel: Wire, is_client: bool) -> Self {
        let mut liar = Self {
            channel,
            is_client,
            sent: 0,
            received: 0,
            tasks: Vec::new(),
            blobs: Vec::new(),
            odd_names: Cell::new(0),
            chunk: Vec::new(),
        };
        let mut out = Vec::new();
        for function in (0..FUNCTIONS).map(|id| FunctionId(id.into())) {
            Definition { function, definition: b"code", name: b"f" }.write(&mut out);
        }
        if is_client {
            define_all(&mut out);
        }
        liar.send(&out);
        liar
    }

    /// Sends messages with the right sequence number.
    pub fn send(&mut self, out: &[u8]) {
        self.send_as(WHOLE, out);
    }

    fn send_as(&mut self, kind: u8, out: &[u8]) {
        self.sent += 1;
        let head = ChunkHead { kind, sequence: self.sent, acknowledged: self.received };
        let _ = self.channel.send(head, out);
    }

    /// Reads all messages and notes the tasks in them; returns the tasks that are new.
    pub fn listen(&mut self) -> Vec<TaskId> {
        let first = self.tasks.len();
        while let Ok(Some(head)) = self.channel.receive(&mut self.chunk) {
            self.received = self.received.max(head.sequence);
            for (kind, body) in Messages::new(&self.chunk).map_while(Result::ok) {
                if kind == MessageKind::Task
                    && let Ok(task) = TaskMessage::read(body)
                {
                    self.tasks.push((task.task, task.attempt));
                }
            }
        }
        self.tasks[first..].iter().map(|&(task, _)| task).collect()
    }

    /// Sends chosen messages.
    pub fn speak(&mut self, choices: &mut Choices<'_>) {
        let mut out = Vec::new();
        for _ in 0..=choices.below(3) {
            self.message(choices, &mut out);
        }
        let kind = if choices.byte() == 1 { PIECE } else { WHOLE };
        let head = |sequence, acknowledged| ChunkHead { kind, sequence, acknowledged };
        let odd = match choices.byte() {
            1 => head(choices.number(), self.received),
            2 => head(self.sent + 1, choices.number()),
            3 => head(0, self.received),
            4 => return self.send_as(kind, choices.bytes()),
            _ => return self.send_as(kind, &out),
        };
        let _ = self.channel.send(odd, &out);
    }

    /// Answers a received task with the name of a blob that exists, and sends bytes for it, right or wrong ones.
    pub fn deceive(&mut self, choices: &mut Choices<'_>) {
        let place = usize::from(choices.below(2));
        let Some(&name) = self.tasks.iter().rev().nth(place) else { return };
        let (blob, right) = self.blob(choices);
        let mut out = Vec::new();
        write_end(choices, name, EndKind::Returned, &mut out, |_, out| {
            Parted::put_head(out, b"", 1);
            Parted::put_name(out, &blob);
        });
        if choices.is_chosen() {
            let wrong: Vec<u8> = right.iter().map(|byte| byte ^ 1).collect();
            Piece::write(&mut out, (blob.digest, 0), wrong.len(), |space| {
                space.copy_from_slice(&wrong);
            });
        }
        for _ in 0..choices.below(3) {
            write_piece(choices, (blob.digest, right), &mut out);
        }
        self.send(&out);
    }

    fn task(&self, choices: &mut Choices<'_>) -> (TaskId, Attempt) {
        let place = usize::from(choices.byte());
        if let Some(&task) = self.tasks.get(place % 16).filter(|_| place < 200) {
            return task;
        }
        let word = if choices.is_chosen() { choices.number() } else { choices.below(6).into() };
        (TaskId::from_word(word), Attempt(choices.below(3)))
    }

    fn message(&self, choices: &mut Choices<'_>, out: &mut Vec<u8>) {
        match choices.below(24) {
            0..=4 => self.write_task(choices, out),
            5..=9 => self.write_answer(choices, out),
            10..=12 => define(choices, out),
            13 if choices.below(8) == 0 => speak_of_context(choices, out),
            13 => drop(beat(choices).write(out)),
            14 if choices.below(64) == 1 => write_rare(choices, out),
            15..=19 if !self.blobs.is_empty() => self.write_blob(choices, out),
            15 if choices.below(64) == 1 => self.write_blob(choices, out),
            _ => drop(self.control(choices).write(out)),
        }
    }

    fn write_task(&self, choices: &mut Choices<'_>, out: &mut Vec<u8>) {
        let (task, attempt) = self.task(choices);
        let name = (task, function(choices), attempt);
        let limits = choices.is_chosen().then(|| limits(choices));
        let count = u32::from(choices.below(6).saturating_sub(2));
        TaskMessage::write(out, name, limits.as_ref(), (count, choices.is_chosen()), |out| {
            for _ in 0..count {
                if choices.is_chosen() {
                    let (parent, attempt) = self.task(choices);
                    ParentResult::put_task(out, parent, attempt);
                } else {
                    self.put_payload(choices, out);
                }
            }
            self.put_payload(choices, out);
        });
    }

    fn write_answer(&self, choices: &mut Choices<'_>, out: &mut Vec<u8>) {
        const ENDS: [EndKind; 10] = [
            EndKind::Returned,
            EndKind::Raised,
            EndKind::Stopped,
            EndKind::Expired,
            EndKind::TimedOut,
            EndKind::Killed,
            EndKind::Unstarted,
            EndKind::Lost,
            EndKind::TooDeep,
            EndKind::ContextFailed,
        ];
        let name = self.task(choices);
        let end = ENDS[usize::from(choices.below(10))];
        write_end(choices, name, end, out, |choices, out| self.put_payload(choices, out));
    }

    fn control(&self, choices: &mut Choices<'_>) -> Control {
        let (task, attempt) = self.task(choices);
        match choices.below(32) {
            0..=4 => Control::Stop { task, attempt, grace_ns: choices.number() },
            5..=9 => Control::Withdraw { task, attempt },
            10..=13 => Control::Kept { task, attempt },
            14..=16 => Control::Recall { count: choices.half() },
            17..=18 => Control::Recalled,
            19 if self.is_client => {
                let (context, places) = (context(choices), choices.half() % 4);
                let [priority, wide] = [(); 2].map(|()| choices.half().cast_signed());
                Control::Floor { context, priority, wide, places, mark: choices.half() }
            }
            19 => {
                let (context, count) = (context(choices), choices.half());
                Control::Vacant { context, count, mark: choices.half() % 64 }
            }
            20..=22 if self.is_client => Control::Want { count: choices.half() },
            23 => Control::Extend { duration_ns: choices.number() },
            24..=26 => Control::Lasts { duration_ns: choices.number() },
            20..=22 => Control::Kept { task, attempt },
            27 => Control::Drain { text: choices.text() },
            28..=30 => Control::Drained,
            _ if choices.below(8) > 0 => Control::Recalled,
            // Messages of a node that ends its link.
            _ if choices.is_chosen() => Control::Want { count: choices.half() },
            _ if choices.is_chosen() => Control::End { text: choices.text() },
            _ => Control::Refuse { text: choices.text(), is_final: choices.is_chosen() },
        }
    }

    fn put_payload(&self, choices: &mut Choices<'_>, out: &mut Vec<u8>) {
        let is_large = !self.blobs.is_empty() && choices.is_chosen();
        let count = usize::from(choices.below(8).saturating_sub(if is_large { 1 } else { 5 })) % 3;
        Parted::put_head(out, choices.bytes(), count);
        for _ in 0..count {
            if is_large || choices.byte() == 1 {
                Parted::put_name(out, &self.blob(choices).0);
            } else {
                let bytes = choices.bytes();
                Parted::put_part(out, bytes.len(), |space| space.copy_from_slice(bytes));
            }
        }
    }

    /// Chooses a blob, mostly one that exists; otherwise a name without bytes, which sometimes is consistent with its size.
    fn blob(&self, choices: &mut Choices<'_>) -> (BlobName, &[u8]) {
        let place = usize::from(choices.byte());
        if let Some((name, bytes)) =
            self.blobs.get(place % self.blobs.len().max(1)).filter(|_| place < 224)
        {
            return (*name, bytes);
        }
        let (hash, size) = ([choices.below(4); 32], choices.number());
        // A node allocates the pages of blobs that it awaits, so each size must be either small or too large for any arena.
        let size = if self.is_client && size > 0xff { size | ENDLESS } else { size };
        self.odd_names.set(self.odd_names.get() + 1);
        let digest = if choices.below(4) == 1 { Digest(hash) } else { Digest::of(hash, size) };
        (BlobName { digest, size }, &[])
    }

    fn write_blob(&self, choices: &mut Choices<'_>, out: &mut Vec<u8>) {
        let (name, right) = self.blob(choices);
        let digest = name.digest;
        let message = match choices.below(12) {
            0 => BlobMessage::Open { port: choices.byte().into() },
            1 | 2 => {
                let (received, text) = (choices.number(), choices.text());
                let shortfall = match choices.below(3) {
                    0 => Shortfall::None,
                    1 => Shortfall::Gone,
                    _ => Shortfall::Wrong,
                };
                BlobMessage::Need { name, received, shortfall, text }
            }
            3 | 4 => BlobMessage::Have { digest, fetched: choices.number() },
            5 => BlobMessage::Dropped { digest, text: choices.text() },
            6 | 8 if self.is_client || choices.below(8) == 1 => {
                BlobMessage::Fetch { name, address: choices.text() }
            }
            6 | 7 => BlobMessage::Received { digest },
            _ => return write_piece(choices, (digest, right), out),
        };
        message.write(out);
    }
}

fn write_end<'a>(
    choices: &mut Choices<'a>,
    (task, attempt): (TaskId, Attempt),
    end: EndKind,
    out: &mut Vec<u8>,
    put: impl FnOnce(&mut Choices<'a>, &mut Vec<u8>),
) {
    let message = AnswerMessage {
        task,
        attempt,
        end,
        started_ns: choices.number(),
        claimed_before: Span::from_bits(choices.half()),
        ran: Span::from_bits(choices.half()),
        published_after: Span::from_bits(choices.half()),
        worker_state: WorkerState::from_byte(choices.byte()),
        payload: Parted::default(),
        loss: (end == EndKind::Lost).then(|| loss(choices)),
    };
    message.write(out, |out| put(choices, out));
}

/// Writes a piece of a blob: all or part of the right bytes, wrong ones, or arbitrary ones.
fn write_piece(choices: &mut Choices<'_>, (digest, right): (Digest, &[u8]), out: &mut Vec<u8>) {
    let middle = right.len() / 2;
    let mut bytes = right.to_vec();
    let offset = match choices.below(6) {
        0 | 1 => 0,
        2 => {
            bytes.truncate(middle);
            0
        }
        3 => bytes.drain(..middle).count() as u64,
        4 => {
            bytes = choices.bytes().to_vec();
            choices.number()
        }
        _ => {
            // One wrong bit is enough.
            bytes.first_mut().into_iter().for_each(|byte| *byte ^= 1);
            0
        }
    };
    Piece::write(out, (digest, offset), bytes.len(), |space| space.copy_from_slice(&bytes));
}

fn limits(choices: &mut Choices<'_>) -> TaskLimits {
    TaskLimits {
        deadline_left_ns: choices.number(),
        timeout_ns: choices.number(),
        grace_ns: choices.number(),
        priority: choices.half().cast_signed(),
        context: context(choices),
        demand: if choices.is_chosen() {
            ResourceRequest::from_words(std::array::from_fn(|_| choices.number()))
        } else {
            ResourceRequest::default()
        },
    }
}

fn loss(choices: &mut Choices<'_>) -> LossFrame {
    LossFrame {
        cause: if choices.byte() == 1 { 7 } else { 1 + choices.below(6) },
        number: choices.half().cast_signed(),
        pid: choices.half(),
        slot: SlotId(choices.byte().into()),
        epoch: Epoch(choices.half()),
        oom: choices.is_chosen(),
        is_bystander: choices.is_chosen(),
        detail: choices.text(),
        loading: choices.text(),
    }
}

fn beat(choices: &mut Choices<'_>) -> Heartbeat {
    Heartbeat {
        sent_ns: choices.number(),
        echo_ns: choices.number(),
        held_ns: choices.number(),
        waiting: choices.half(),
        running: choices.half(),
        workers: choices.half(),
        busy_ns: choices.number(),
    }
}

/// Chooses a function, mostly one of the peer's own.
fn function(choices: &mut Choices<'_>) -> FunctionId {
    let known = FunctionId(choices.below(FUNCTIONS).into());
    if choices.byte() == 1 { FunctionId(choices.half()) } else { known }
}

fn define(choices: &mut Choices<'_>, out: &mut Vec<u8>) {
    let function = function(choices);
    let (definition, name) = (choices.bytes(), choices.bytes());
    Definition { function, definition, name }.write(out);
}

/// Writes a message that is sent only before there is a lease, and that ends a link.
fn write_rare(choices: &mut Choices<'_>, out: &mut Vec<u8>) {
    let lease = choices.number();
    if choices.is_chosen() {
        LeaseGrant { lease, ..LeaseGrant::NOTHING }.write(out);
    } else {
        LeaseRequest {
            is_exact: choices.is_chosen(),
            lease,
            workers: choices.half(),
            tasks_per_worker: 0,
            expiry_ns: 1,
            beat_ns: 1,
            duration_ns: choices.number(),
            memory: choices.number(),
            gpus: choices.half(),
            blob_limits: [0; 2],
            context_memory: 0,
            spawns_fresh: false,
            program: Vec::new(),
            worker_environment: Vec::new(),
        }
        .write(out);
    }
}
