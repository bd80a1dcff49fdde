//! Tasks that tasks submit: requests come on result rings, replies go out on task rings.
//!
//! A worker names its tasks by tickets, its functions and contexts by numbers of its own. The tables here translate; what
//! belongs to a worker goes with it. A reply that finds no room waits here: the client never waits for a worker.

mod contexts;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use gristmill_core::{
    Budgets, CancelMode, CancelOutcome, Origin, Payload, Submission, SubmitError, TaskOptions,
};
use gristmill_shm::BlockPart;
use gristmill_wire::{
    ArenaDescriptor, ContextId, FrameError, FunctionId, Kind, NestedOptions, NestedReply,
    NestedRequest, ReplyKind, SlotId, TaskId,
};

use self::contexts::DeskContexts;
use crate::bundle::Encoded;
use crate::inner::Inner;
use crate::lanes::{handle, split_handle};
use crate::outcome::Ended;
use crate::peers::DEFINITIONS_MAX;
use crate::provisions::ProvisionWork as _;

/// One task from a task, until it is final: the word in its handle leads here.
#[derive(Debug, Clone, Copy)]
struct Sender {
    slot: SlotId,
    /// Which process of that slot, counted here.
    process: u32,
    ticket: u32,
}

/// What belongs to the process in one slot.
#[derive(Debug, Default)]
struct Desk {
    process: u32,
    tasks: HashMap<u32, TaskId>,
    functions: HashMap<u32, FunctionId>,
    contexts: DeskContexts,
    /// The beginning of a request whose end is under way.
    partial: Vec<u8>,
    /// Parts of replies that found no room, oldest first, each with the word in front of it.
    backlog: VecDeque<(u64, Vec<u8>)>,
}

/// Everything about tasks from tasks.
#[derive(Debug, Default)]
pub(crate) struct Nested {
    senders: Vec<Option<Sender>>,
    free: Vec<u32>,
    desks: Vec<Desk>,
    /// Desks with a backlog.
    behind: usize,
    /// What the contexts of each worker may take, bytes.
    pub contexts_max: usize,
    /// When a function was defined last: its first task is about to come.
    defined_at: Option<Instant>,
    /// A task has submitted one: from now on somebody listens as long as tasks run.
    pub is_used: bool,
}

impl Nested {
    pub fn new(slot_count: usize) -> Self {
        let desks = (0..slot_count).map(|_| Desk::default()).collect();
        Self { desks, contexts_max: DEFINITIONS_MAX, ..Self::default() }
    }

    /// Whether replies wait for room.
    pub const fn has_backlog(&self) -> bool {
        self.behind > 0
    }

    /// Notes a new function, which may be the first that submits tasks.
    pub fn note_function(&mut self) {
        self.defined_at = Some(Instant::now());
    }

    /// Whether a function was defined just now, so that its first task is about to come.
    pub fn is_new_function_due(&self) -> bool {
        self.defined_at.is_some_and(|at| at.elapsed() < Duration::from_secs(1))
    }

    fn desk(&mut self, slot: SlotId) -> &mut Desk {
        &mut self.desks[usize::from(slot.0)]
    }

    /// How many contexts a worker has told of, and what they take together, bytes.
    #[cfg(any(test, feature = "workless"))]
    pub fn audit_contexts(&self, slot: SlotId) -> (usize, usize) {
        self.desks[usize::from(slot.0)].contexts.audit()
    }

    /// The word for a new task's handle; never 0.
    fn enter(&mut self, slot: SlotId, ticket: u32) -> u32 {
        let sender = Sender { slot, process: self.desk(slot).process, ticket };
        if let Some(word) = self.free.pop() {
            self.senders[word as usize - 1] = Some(sender);
            return word;
        }
        self.senders.push(Some(sender));
        u32::try_from(self.senders.len()).expect("fewer tasks than 2^32 are outstanding")
    }

    /// Gives a word back; whom it stood for, if that process still lives.
    fn leave(&mut self, word: u32) -> Option<Sender> {
        let sender = self.senders.get_mut(word.checked_sub(1)? as usize)?.take()?;
        self.free.push(word);
        (self.desk(sender.slot).process == sender.process).then_some(sender)
    }
}

/// A submission that was read from a ring.
struct Ask<'a> {
    ticket: u32,
    parent: TaskId,
    function: u32,
    options: Option<NestedOptions>,
    arguments: &'a [u32],
    payload: &'a [u8],
}

impl Inner {
    /// Takes in a request, or a part of one.
    ///
    /// # Errors
    /// It does not decode.
    pub fn nested_request(
        &mut self,
        slot: SlotId,
        word: u64,
        part: &[u8],
        now: u64,
    ) -> Result<(), FrameError> {
        self.nested.is_used = true;
        let desk = self.nested.desk(slot);
        if word >> 32 != 0 {
            desk.partial.extend_from_slice(part);
            return Ok(());
        }
        let mut whole = std::mem::take(&mut desk.partial);
        if whole.is_empty() {
            return self.serve(slot, NestedRequest::decode(part)?, now);
        }
        whole.extend_from_slice(part);
        self.serve(slot, NestedRequest::decode(&whole)?, now)
    }

    fn serve(
        &mut self,
        slot: SlotId,
        request: NestedRequest<'_>,
        now: u64,
    ) -> Result<(), FrameError> {
        match request {
            NestedRequest::Define { function, name, definition } => {
                let id = self.lanes.functions.define(definition, name);
                if let Some(old) = self.nested.desk(slot).functions.insert(function, id) {
                    self.forget_nested(old);
                }
            }
            NestedRequest::Forget { function } => {
                if let Some(id) = self.nested.desk(slot).functions.remove(&function) {
                    self.forget_nested(id);
                }
            }
            NestedRequest::DefineContext(terms) => self.define_nested_context(slot, &terms, now),
            NestedRequest::ForgetContext { context } => {
                self.forget_nested_context(slot, context, now);
            }
            NestedRequest::Submit { ticket, parent, function, options, arguments, payload } => {
                let arguments = &arguments;
                let ask = Ask { ticket, parent, function, options, arguments, payload };
                self.submit_nested(slot, &ask, now);
            }
            NestedRequest::Release { tickets } => {
                for ticket in tickets {
                    if let Some(task) = self.nested.desk(slot).tasks.remove(&ticket) {
                        self.let_go(task);
                    }
                }
            }
            NestedRequest::Cancel { ticket, grace_ns } => {
                self.cancel_nested(slot, ticket, grace_ns, now);
            }
        }
        Ok(())
    }

    fn let_go(&mut self, task: TaskId) {
        self.names.remove(&task);
        self.core.release(task);
    }

    fn forget_nested(&mut self, function: FunctionId) {
        if self.lanes.functions.release(function) {
            self.lanes.freed_functions.push(function);
        }
    }

    fn submit_nested(&mut self, slot: SlotId, ask: &Ask<'_>, now: u64) {
        let desk = self.nested.desk(slot);
        let function = desk.functions.get(&ask.function).copied();
        let parents: Option<Vec<TaskId>> =
            ask.arguments.iter().map(|ticket| desk.tasks.get(ticket).copied()).collect();
        let (Some(function), Some(mut parents)) = (function, parents) else {
            let text = "a task among the arguments was not accepted";
            return self.reply(slot, ask.ticket, ReplyKind::Refused, text.as_bytes());
        };
        let named = ask.options.map_or(ContextId(0), |options| options.context);
        let named = match self.named_context(slot, named) {
            Ok(named) => named,
            Err(text) => {
                return self.reply(slot, ask.ticket, ReplyKind::ContextFailed, text.as_bytes());
            }
        };
        parents.extend(self.promise_of_files(named.context));
        let word = self.nested.enter(slot, ask.ticket);
        let options = ask.options.map(|options| task_options(&options, named.context));
        let submission = Submission {
            function,
            payload: Payload::copy_from(ask.payload),
            handle: handle(function, word),
            submitted_ticks: self.lanes.now_ticks(),
            parents: &parents,
            options: options.as_ref(),
            origin: Origin::Nested { slot, parent: ask.parent },
        };
        self.lanes.functions.use_again(function);
        match self.core.submit(submission, now, &mut self.lanes) {
            Ok(task) => {
                // A ticket that was used before names this task from now on.
                if let Some(old) = self.nested.desk(slot).tasks.insert(ask.ticket, task) {
                    self.let_go(old);
                }
            }
            Err(error) => {
                self.forget_nested(function);
                self.nested.leave(word);
                let kind = match error {
                    SubmitError::LimitReached { .. } => ReplyKind::LimitReached,
                    SubmitError::ShutDown => ReplyKind::ShutDown,
                    SubmitError::Broken(_) => ReplyKind::StartFailed,
                    _ => ReplyKind::Refused,
                };
                self.reply(slot, ask.ticket, kind, error.to_string().as_bytes());
            }
        }
        if named.is_lent {
            self.let_context_go(named.context, now);
        }
    }

    fn cancel_nested(&mut self, slot: SlotId, ticket: u32, grace_ns: Option<u64>, now: u64) {
        let mode = grace_ns
            .map_or(CancelMode::Unstarted, |grace| CancelMode::Running { grace_ns: Some(grace) });
        let task = self.nested.desk(slot).tasks.get(&ticket).copied();
        let outcome = task.map(|task| self.core.cancel(task, mode, now, &mut self.lanes));
        let is_cancelled =
            matches!(outcome, Some(CancelOutcome::Cancelled | CancelOutcome::Requested));
        self.reply(slot, ticket, ReplyKind::CancelAnswer, &[u8::from(is_cancelled)]);
    }

    /// Tells the worker that asked for it that a task is final.
    pub fn reply_nested(&mut self, task: TaskId, handle: u64) {
        let (_, word) = split_handle(handle);
        let Some(Sender { slot, ticket, .. }) = self.nested.leave(word) else { return };
        if !self.nested.desk(slot).tasks.contains_key(&ticket) {
            return;
        }
        let Some(ended) = self.ended(task) else { return };
        let mut bytes = Vec::new();
        let kind = describe(&ended, &mut bytes);
        self.reply(slot, ticket, kind, &bytes);
    }

    fn reply(&mut self, slot: SlotId, ticket: u32, kind: ReplyKind, bytes: &[u8]) {
        let mut message = Vec::with_capacity(8 + bytes.len());
        NestedReply { ticket, kind, bytes }.encode(&mut message);
        let (_, largest) = self.lanes.task_room(slot);
        let mut parts = message.chunks((largest as usize / 2).max(64)).peekable();
        while let Some(part) = parts.next() {
            let word = part.len() as u64 | (u64::from(parts.peek().is_some()) << 32);
            if self.nested.desk(slot).backlog.is_empty() && self.write_reply(slot, word, part) {
                continue;
            }
            let desk = self.nested.desk(slot);
            desk.backlog.push_back((word, part.to_vec()));
            self.nested.behind += usize::from(self.nested.desk(slot).backlog.len() == 1);
        }
    }

    /// Writes one part if that leaves room for tasks: a worker that waits must never miss one for replies to others.
    fn write_reply(&mut self, slot: SlotId, word: u64, part: &[u8]) -> bool {
        let (free, largest) = self.lanes.task_room(slot);
        free as usize > part.len() + largest as usize + 64
            && self.lanes.write_control(slot, Kind::Reply, &[word], part)
    }

    /// Writes replies that found no room before.
    #[inline]
    pub fn nested_flush(&mut self) {
        if self.nested.behind > 0 {
            self.flush_slowly();
        }
    }

    #[cold]
    fn flush_slowly(&mut self) {
        for place in 0..self.nested.desks.len() {
            let slot = SlotId(u16::try_from(place).unwrap_or(u16::MAX));
            while let Some((word, part)) = self.nested.desk(slot).backlog.pop_front() {
                if !self.write_reply(slot, word, &part) {
                    self.nested.desk(slot).backlog.push_front((word, part));
                    break;
                }
                self.nested.behind -= usize::from(self.nested.desk(slot).backlog.is_empty());
            }
        }
    }

    /// The process in a slot is gone: nobody will ask for its tasks' results.
    pub fn drop_nested(&mut self, slot: SlotId) {
        let desk = self.nested.desk(slot);
        let next = Desk { process: desk.process.wrapping_add(1), ..Desk::default() };
        let gone = std::mem::replace(desk, next);
        self.nested.behind -= usize::from(!gone.backlog.is_empty());
        gone.tasks.into_values().for_each(|task| self.let_go(task));
        gone.functions.into_values().for_each(|function| self.forget_nested(function));
        let now = self.lanes.read_clock();
        gone.contexts.used().for_each(|context| self.let_context_go(context, now));
    }
}

fn task_options(options: &NestedOptions, context: ContextId) -> TaskOptions {
    let time = |value: u64| (value != u64::MAX).then_some(value);
    let [retries, loss_retries, timeout_retries] = options.budgets;
    TaskOptions {
        timeout_ns: time(options.timeout_ns),
        deadline_ns: time(options.deadline_ns),
        grace_ns: time(options.grace_ns),
        budgets: Some(Budgets { retries, loss_retries, timeout_retries }),
        priority: options.priority,
        demand: options.demand,
        context,
        ..TaskOptions::default()
    }
}

/// Appends what a reply says of an outcome.
fn describe(ended: &Ended, bytes: &mut Vec<u8>) -> ReplyKind {
    let (kind, details): (_, &[u8]) = match ended {
        Ended::Value(encoded) => return describe_encoded(ReplyKind::Value, encoded, bytes),
        Ended::Raised(encoded) => return describe_encoded(ReplyKind::Raised, encoded, bytes),
        Ended::Cancelled => (ReplyKind::Cancelled, &[]),
        Ended::TimedOut(text) => (ReplyKind::TimedOut, text.as_bytes()),
        Ended::Lost(text) => (ReplyKind::Lost, text.as_bytes()),
        Ended::StartFailed(text) | Ended::Expired(text) => {
            (ReplyKind::StartFailed, text.as_bytes())
        }
        Ended::ContextFailed(text) => (ReplyKind::ContextFailed, text.as_bytes()),
        Ended::Refused(text) => (ReplyKind::Refused, text.as_bytes()),
        Ended::DependencyFailed { text, root } => {
            let size = u32::try_from(text.len()).unwrap_or(0);
            bytes.extend_from_slice(&size.to_le_bytes());
            bytes.extend_from_slice(&text.as_bytes()[..size as usize]);
            let place = bytes.len();
            bytes.push(0);
            bytes[place] = describe(root, bytes) as u8;
            return ReplyKind::DependencyFailed;
        }
    };
    bytes.extend_from_slice(details);
    kind
}

/// Appends encoded bytes: behind a 0 as they are, behind a 1 with the blocks that they name, which the client holds until
/// the ticket is given back.
fn describe_encoded(kind: ReplyKind, encoded: &Encoded, bytes: &mut Vec<u8>) -> ReplyKind {
    let blocks: Vec<_> = encoded.parts().iter().map(BlockPart::range).collect();
    bytes.push(u8::from(!blocks.is_empty()));
    if blocks.is_empty() {
        bytes.extend_from_slice(encoded.bytes());
    } else {
        ArenaDescriptor::write(&blocks, false, encoded.bytes(), bytes);
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_to_a_process_that_is_gone_finds_nobody() {
        let mut nested = Nested::new(2);
        let (first, second) = (nested.enter(SlotId(0), 7), nested.enter(SlotId(1), 7));
        assert!(first != 0 && first != second, "0 is an ordinary task");
        nested.desk(SlotId(0)).process += 1;
        assert!(nested.leave(first).is_none());
        assert_eq!(nested.leave(second).map(|sender| sender.slot), Some(SlotId(1)));
        assert!(nested.leave(second).is_none() && nested.leave(0).is_none());
        assert_eq!(nested.enter(SlotId(1), 8), second, "words are used again");
    }

    #[test]
    fn a_failed_dependency_is_told_with_its_root() {
        let root = Box::new(Ended::Lost("why".into()));
        let mut bytes = Vec::new();
        let kind = describe(&Ended::DependencyFailed { text: "what".into(), root }, &mut bytes);
        assert_eq!(kind, ReplyKind::DependencyFailed);
        assert_eq!(bytes, b"\x04\0\0\0what\x05why");
    }
}
