//! Nested tasks, which tasks submit: requests arrive on result rings, replies go out on task rings.
//!
//! A worker names its tasks by tickets, and its functions and contexts by its own numbers. The tables here translate. The
//! entries of a worker go when it does. A reply that finds no room waits here: the client never waits for a worker.

mod contexts;
mod functions;
mod partial;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use gristmill_core::{
    Budgets, CancelMode, CancelOutcome, Origin, Payload, Submission, TaskOptions,
};
use gristmill_shm::BlockPart;
use gristmill_wire::{
    ArenaDescriptor, ContextId, FunctionId, NestedOptions, NestedReply, NestedRequest, RecordKind,
    Refusal, ReplyKind, SlotId, TaskId,
};

use self::contexts::NestedContexts;
use self::functions::NestedFunctions;
use self::partial::{PartialRequest, WholeRequest};
use crate::bundle::{EncodedOutcome, PinnedBlocks, ReceiveError};
use crate::client_port::{handle, split_handle};
use crate::inner::Inner;
use crate::outcome::Ended;
use crate::peers::DEFINITIONS_MAX;
use crate::staging::StagingWork as _;

/// The submitter of a nested task that is not final; the word in the task's handle is its index plus 1.
#[derive(Debug, Clone, Copy)]
struct Sender {
    slot: SlotId,
    /// Number of the process in that slot, counted here.
    process: u32,
    ticket: u32,
}

/// The tables of the process in one slot.
#[derive(Debug, Default)]
struct NestedSession {
    process: u32,
    tasks: HashMap<u32, TaskId>,
    functions: NestedFunctions,
    contexts: NestedContexts,
    partial: PartialRequest,
    /// Replies that found no room, oldest first.
    backlog: VecDeque<DelayedReply>,
}

/// A reply that waits for room in a worker's ring.
#[derive(Debug)]
enum DelayedReply {
    /// A part of a reply, with the word in front of it.
    Part(u64, Vec<u8>),
    /// The end of a task. Its result stays with the task until there is room, so that waiting results are not stored twice.
    End { ticket: u32, task: TaskId },
}

/// The state of all nested tasks.
#[derive(Debug, Default)]
pub(crate) struct NestedTasks {
    senders: Vec<Option<Sender>>,
    free: Vec<u32>,
    desks: Vec<NestedSession>,
    /// Number of sessions with a backlog.
    behind: usize,
    /// Limit of the memory for the contexts of each worker, bytes.
    pub contexts_max: usize,
    /// Limit of the memory for the definitions of the functions of each worker, bytes.
    pub functions_max: usize,
    /// Time at which a function was last defined: its first task is about to arrive.
    defined_at: Option<Instant>,
    /// True once a task has submitted one: from then on a thread listens while tasks run.
    pub is_used: bool,
}

impl NestedTasks {
    pub fn new(slot_count: usize) -> Self {
        let desks = (0..slot_count).map(|_| NestedSession::default()).collect();
        let (contexts_max, functions_max) = (DEFINITIONS_MAX, DEFINITIONS_MAX);
        Self { desks, contexts_max, functions_max, ..Self::default() }
    }

    /// Limits the functions of each worker, and its contexts, to an eighth of this memory, in bytes, or less.
    pub fn limit_definitions(&mut self, memory: u64) {
        let share = usize::try_from(memory / 8).unwrap_or(usize::MAX).min(DEFINITIONS_MAX);
        (self.functions_max, self.contexts_max) = (share, share);
    }

    /// Returns true if replies wait for room.
    pub const fn has_backlog(&self) -> bool {
        self.behind > 0
    }

    /// Records a new function, which may be the first that submits tasks.
    pub fn note_function(&mut self) {
        self.defined_at = Some(Instant::now());
    }

    /// Returns true if a function was defined in the last second, so that its first task is about to arrive.
    pub fn is_new_function_due(&self) -> bool {
        self.defined_at.is_some_and(|at| at.elapsed() < Duration::from_secs(1))
    }

    fn session(&mut self, slot: SlotId) -> &mut NestedSession {
        &mut self.desks[usize::from(slot.0)]
    }

    /// Returns the number of contexts that a worker has defined, and their total size in bytes.
    pub fn audit_contexts(&self, slot: SlotId) -> (usize, usize) {
        self.desks[usize::from(slot.0)].contexts.audit()
    }

    /// Returns the number of functions that a worker has defined, and the size of their definitions together in bytes.
    pub fn audit_functions(&self, slot: SlotId) -> (usize, usize) {
        self.desks[usize::from(slot.0)].functions.audit()
    }

    /// Returns why a worker's number stands for no function.
    #[cfg(test)]
    pub fn unknown_function(&self, slot: SlotId, function: u32) -> String {
        let functions = &self.desks[usize::from(slot.0)].functions;
        functions.reason(function).to_string()
    }

    /// Returns why a worker's number stands for no context, if one was refused.
    #[cfg(test)]
    pub fn refused_context(&self, slot: SlotId, context: ContextId) -> Option<String> {
        self.desks[usize::from(slot.0)].contexts.refusal(context)
    }

    /// Returns the word for the handle of a new task; never 0.
    fn enter(&mut self, slot: SlotId, ticket: u32) -> u32 {
        let sender = Sender { slot, process: self.session(slot).process, ticket };
        if let Some(word) = self.free.pop() {
            self.senders[word as usize - 1] = Some(sender);
            return word;
        }
        self.senders.push(Some(sender));
        u32::try_from(self.senders.len()).expect("fewer tasks than 2^32 are outstanding")
    }

    /// Frees a word. Returns the submitter behind it, if that process still lives.
    fn leave(&mut self, word: u32) -> Option<Sender> {
        let sender = self.senders.get_mut(word.checked_sub(1)? as usize)?.take()?;
        self.free.push(word);
        (self.session(sender.slot).process == sender.process).then_some(sender)
    }
}

/// A submission that was read from a ring.
struct NestedSubmission<'a> {
    ticket: u32,
    parent: TaskId,
    function: u32,
    options: Option<NestedOptions>,
    arguments: &'a [u32],
    payload: EncodedArguments<'a>,
}

/// The encoded arguments of a submission.
enum EncodedArguments<'a> {
    Here(&'a [u8]),
    InArena(PinnedBlocks<'a>),
}

impl Inner {
    /// Takes in a request, or a part of one.
    ///
    /// # Errors
    /// The request does not decode, or names blocks that are not the worker's.
    pub fn nested_request(
        &mut self,
        slot: SlotId,
        word: u64,
        part: &[u8],
        now: u64,
    ) -> Result<(), ReceiveError> {
        self.nested.is_used = true;
        let limit = self.nested.functions_max.max(self.nested.contexts_max);
        let session = self.nested.session(slot);
        let goes_on = word >> 32 != 0;
        if !goes_on && session.partial.is_empty() {
            return self.serve(slot, NestedRequest::decode(part)?, now);
        }
        session.partial.take(part, limit);
        if goes_on {
            return Ok(());
        }
        match session.partial.finish()? {
            WholeRequest::Kept(whole) => self.serve(slot, NestedRequest::decode(&whole)?, now)?,
            WholeRequest::OversizedFunction(function, size) => {
                functions::refuse(self, slot, function, size);
            }
            WholeRequest::OversizedContext(context, size) => {
                self.forget_nested_context(slot, context, now);
                self.refuse_nested_context(slot, context, size);
            }
        }
        Ok(())
    }

    fn serve(
        &mut self,
        slot: SlotId,
        request: NestedRequest<'_>,
        now: u64,
    ) -> Result<(), ReceiveError> {
        match request {
            NestedRequest::Define { function, name, definition } => {
                functions::define(self, slot, function, (definition, name));
            }
            NestedRequest::Forget { function } => {
                functions::forget(self, slot, function);
            }
            NestedRequest::DefineContext(terms) => self.define_nested_context(slot, &terms, now),
            NestedRequest::ForgetContext { context } => {
                self.forget_nested_context(slot, context, now);
            }
            NestedRequest::Submit {
                ticket,
                parent,
                function,
                options,
                arguments,
                payload,
                is_arena,
            } => {
                let arguments = &arguments;
                // The blocks are held even if the submission fails: the worker would never get back blocks that are not held.
                let payload = if is_arena {
                    EncodedArguments::InArena(PinnedBlocks::new(&self.port.arena, slot, payload)?)
                } else {
                    EncodedArguments::Here(payload)
                };
                let submission =
                    NestedSubmission { ticket, parent, function, options, arguments, payload };
                self.submit_nested(slot, submission, now);
            }
            NestedRequest::Release { tickets } => {
                for ticket in tickets {
                    if let Some(task) = self.nested.session(slot).tasks.remove(&ticket) {
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
        if self.port.functions.release(function) {
            self.port.freed_functions.push(function);
        }
    }

    fn submit_nested(&mut self, slot: SlotId, submission: NestedSubmission<'_>, now: u64) {
        let session = self.nested.session(slot);
        let function = session.functions.get(submission.function);
        let parents: Option<Vec<TaskId>> =
            submission.arguments.iter().map(|ticket| session.tasks.get(ticket).copied()).collect();
        let (Some(function), Some(mut parents)) = (function, parents) else {
            let text = match function {
                None => session.functions.reason(submission.function),
                Some(_) => "the engine refused a task whose result is an argument".into(),
            };
            return self.reply(slot, submission.ticket, ReplyKind::Refused, text.as_bytes());
        };
        let named = submission.options.map_or(ContextId(0), |options| options.context);
        let named = match self.named_context(slot, named) {
            Ok(named) => named,
            Err(text) => {
                return self.reply(
                    slot,
                    submission.ticket,
                    ReplyKind::ContextFailed,
                    text.as_bytes(),
                );
            }
        };
        parents.extend(self.promise_of_files(named.context));
        let word = self.nested.enter(slot, submission.ticket);
        let options = submission.options.map(|options| task_options(&options, named.context));
        let payload = match submission.payload {
            EncodedArguments::Here(bytes) => Payload::copy_from(bytes),
            EncodedArguments::InArena(opened) => self.port.bundles.insert_opened(opened),
        };
        let task = Submission {
            function,
            payload,
            handle: handle(function, word),
            submitted_ticks: self.port.now_ticks(),
            parents: &parents,
            options: options.as_ref(),
            origin: Origin::Nested { slot, parent: submission.parent },
        };
        self.port.functions.use_again(function);
        match self.core.submit(task, now, &mut self.port) {
            Ok(id) => {
                // A ticket that was used before names this task from now on.
                if let Some(old) = self.nested.session(slot).tasks.insert(submission.ticket, id) {
                    self.let_go(old);
                }
            }
            Err(error) => {
                self.forget_nested(function);
                self.nested.leave(word);
                let mut bytes = Vec::new();
                Refusal { code: error.code(), text: &error.to_string() }.encode(&mut bytes);
                self.reply(slot, submission.ticket, ReplyKind::NotAccepted, &bytes);
            }
        }
        if named.is_lent {
            self.let_context_go(named.context, now);
        }
    }

    fn cancel_nested(&mut self, slot: SlotId, ticket: u32, grace_ns: Option<u64>, now: u64) {
        let mode = grace_ns
            .map_or(CancelMode::Unstarted, |grace| CancelMode::Running { grace_ns: Some(grace) });
        let task = self.nested.session(slot).tasks.get(&ticket).copied();
        let outcome = task.map(|task| self.core.cancel(task, mode, now, &mut self.port));
        let is_cancelled =
            matches!(outcome, Some(CancelOutcome::Cancelled | CancelOutcome::Requested));
        self.reply(slot, ticket, ReplyKind::CancelAnswer, &[u8::from(is_cancelled)]);
    }

    /// Tells the worker that submitted a task that the task is final.
    pub fn reply_nested(&mut self, task: TaskId, handle: u64) {
        let (_, word) = split_handle(handle);
        let Some(Sender { slot, ticket, .. }) = self.nested.leave(word) else { return };
        if !self.nested.session(slot).tasks.contains_key(&ticket) {
            return;
        }
        if self.nested.session(slot).backlog.is_empty() {
            self.reply_end(slot, ticket, task);
        } else {
            self.nested.session(slot).backlog.push_back(DelayedReply::End { ticket, task });
        }
    }

    /// Tells a worker how a task has ended. Waiting replies come after this one.
    fn reply_end(&mut self, slot: SlotId, ticket: u32, task: TaskId) {
        let Some(ended) = self.ended(task) else { return };
        let mut bytes = Vec::new();
        let kind = describe(&ended, &mut bytes);
        let late = self.write_message(slot, &NestedReply { ticket, kind, bytes: &bytes }, true);
        let session = self.nested.session(slot);
        let is_first = session.backlog.is_empty() && !late.is_empty();
        late.into_iter().rev().for_each(|part| session.backlog.push_front(part));
        self.nested.behind += usize::from(is_first);
    }

    fn reply(&mut self, slot: SlotId, ticket: u32, kind: ReplyKind, bytes: &[u8]) {
        let was_empty = self.nested.session(slot).backlog.is_empty();
        let late = self.write_message(slot, &NestedReply { ticket, kind, bytes }, was_empty);
        let is_first = was_empty && !late.is_empty();
        self.nested.session(slot).backlog.extend(late);
        self.nested.behind += usize::from(is_first);
    }

    /// Writes the parts of a reply that fit, if `may` is true. Returns the other parts.
    fn write_message(
        &mut self,
        slot: SlotId,
        reply: &NestedReply<'_>,
        may: bool,
    ) -> Vec<DelayedReply> {
        let mut message = Vec::with_capacity(8 + reply.bytes.len());
        reply.encode(&mut message);
        let (_, largest) = self.port.task_room(slot);
        let mut parts = message.chunks((largest as usize / 2).max(64)).peekable();
        let mut late = Vec::new();
        while let Some(part) = parts.next() {
            let word = part.len() as u64 | (u64::from(parts.peek().is_some()) << 32);
            if !(may && late.is_empty() && self.write_reply(slot, word, part)) {
                late.push(DelayedReply::Part(word, part.to_vec()));
            }
        }
        late
    }

    /// Writes one part if that leaves room for tasks: replies for other tasks must never keep a task from a worker that waits.
    fn write_reply(&mut self, slot: SlotId, word: u64, part: &[u8]) -> bool {
        let (free, largest) = self.port.task_room(slot);
        free as usize > part.len() + largest as usize + 64
            && self.port.write_control(slot, RecordKind::Reply, &[word], part)
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
            while let Some(late) = self.nested.session(slot).backlog.pop_front() {
                if let DelayedReply::Part(word, part) = &late
                    && !self.write_reply(slot, *word, part)
                {
                    self.nested.session(slot).backlog.push_front(late);
                    break;
                }
                self.nested.behind -= usize::from(self.nested.session(slot).backlog.is_empty());
                if let DelayedReply::End { ticket, task } = late
                    && self.nested.session(slot).tasks.get(&ticket) == Some(&task)
                {
                    self.reply_end(slot, ticket, task);
                    if matches!(
                        self.nested.session(slot).backlog.front(),
                        Some(DelayedReply::Part(..))
                    ) {
                        break;
                    }
                }
            }
        }
    }

    /// Drops the tasks, functions and contexts of a process that is gone: no process will use them.
    pub fn drop_nested(&mut self, slot: SlotId) {
        let session = self.nested.session(slot);
        let next =
            NestedSession { process: session.process.wrapping_add(1), ..NestedSession::default() };
        let gone = std::mem::replace(session, next);
        self.nested.behind -= usize::from(!gone.backlog.is_empty());
        gone.tasks.into_values().for_each(|task| self.let_go(task));
        gone.functions.ours().for_each(|function| self.forget_nested(function));
        let now = self.port.read_clock();
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

/// Appends the content of a reply about an outcome.
fn describe(ended: &Ended, bytes: &mut Vec<u8>) -> ReplyKind {
    let (kind, details): (_, &[u8]) = match ended {
        Ended::Value(encoded) => return describe_encoded(ReplyKind::Value, encoded, bytes),
        Ended::Raised(encoded) => return describe_encoded(ReplyKind::Raised, encoded, bytes),
        Ended::Cancelled => (ReplyKind::Cancelled, &[]),
        Ended::TimedOut(text) => (ReplyKind::TimedOut, text.as_bytes()),
        Ended::Lost(text) => (ReplyKind::Lost, text.as_bytes()),
        Ended::StartFailed(text) => (ReplyKind::StartFailed, text.as_bytes()),
        Ended::Expired(text) => (ReplyKind::Expired, text.as_bytes()),
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

/// Appends encoded bytes: after a 0 as they are, after a 1 with the blocks that they name. The client holds these blocks until
/// the worker releases the ticket.
fn describe_encoded(kind: ReplyKind, encoded: &EncodedOutcome, bytes: &mut Vec<u8>) -> ReplyKind {
    let blocks: Vec<_> = encoded.parts().iter().map(BlockPart::range).collect();
    bytes.push(u8::from(!blocks.is_empty()));
    if blocks.is_empty() {
        bytes.extend_from_slice(&encoded.bytes());
    } else {
        ArenaDescriptor::write(&blocks, false, &encoded.bytes(), bytes);
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_to_a_process_that_has_ended_is_dropped() {
        let mut nested = NestedTasks::new(2);
        let (first, second) = (nested.enter(SlotId(0), 7), nested.enter(SlotId(1), 7));
        assert!(first != 0 && first != second, "0 is an ordinary task");
        nested.session(SlotId(0)).process += 1;
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
