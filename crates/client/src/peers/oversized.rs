//! Messages and definitions that are too large to be kept: the tasks that they belong to fail, and the link goes on.

use std::sync::Arc;

use gristmill_core::{Payload, PeerAnswer, PeerEnd};
use gristmill_wire::peer::{AnswerMessage, Definition, EndKind, MessageKind, TaskMessage};
use gristmill_wire::{Attempt, FailureKind, FunctionId, PeerId, TaskFailure, TaskId};

use super::answers::AnswerWork;
use super::home::{EngineParts, LinkHome};
use super::inbound::InboundWork;
use super::link::{LinkError, OversizedMessage};

/// Advice for values that travel as one message.
const ADVICE: &str = "arrays and other buffers of a megabyte or more have no such limit; so use these, several smaller \
                      values, or files";

/// Advice for functions.
const FUNCTION_ADVICE: &str = "pass large data to tasks as arguments, load a large library from a file in the task, or run the \
                               task where there is more memory";

/// Methods that handle messages and definitions which are too large.
pub(super) trait OversizedWork: LinkHome {
    /// Fails the task that a message belongs to, which was too large to be kept; of a definition, all tasks that need it.
    ///
    /// # Errors
    /// The message belongs to no task, or its peer must not send it.
    fn take_oversized(
        &mut self,
        peer: PeerId,
        message: OversizedMessage,
        now: u64,
    ) -> Result<(), LinkError> {
        match message.kind {
            MessageKind::Answer => self.fail_answered(peer, &message, now),
            MessageKind::Task => {
                let name = TaskMessage::task_of(&message.body)?;
                let receiver = self.own_name(peer);
                let text = format!(
                    "the arguments of the task are too large for {receiver}: {}; {ADVICE}",
                    sizes(&message, "its memory")
                );
                self.fail_task(peer, name, &no_memory(&text))
            }
            MessageKind::Define => {
                let function = Definition::function_of(&message.body)?;
                self.refuse_function(peer, function, &sizes(&message, "its memory"));
                Ok(())
            }
            _ => Err(message.into()),
        }
    }

    /// Notes that a peer's function id stands for no function: its definition is too large, as `sizes` says.
    fn refuse_function(&mut self, peer: PeerId, function: FunctionId, sizes: &str) {
        let reason = format!(
            "the function, or a library that it needs, is too large for {}: {sizes}; {FUNCTION_ADVICE}",
            self.own_name(peer)
        );
        self.refuse_function_for(peer, function, reason.into());
    }

    /// Notes that a peer's function id stands for no function, for a reason.
    fn refuse_function_for(&mut self, peer: PeerId, function: FunctionId, reason: Arc<str>) {
        let link = self.links_mut().get_mut(peer);
        if let Some(before) = link.and_then(|link| link.functions.refuse(function, reason)) {
            self.release_function(before);
        }
    }

    /// Answers a peer's task whose function is not here.
    ///
    /// # Errors
    /// [`LinkError::Undefined`]: the peer has not defined the function; [`LinkError::Again`].
    fn fail_without_function(
        &mut self,
        peer: PeerId,
        task: (TaskId, Attempt),
        function: FunctionId,
    ) -> Result<(), LinkError> {
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let reason = link.functions.refusal(function).ok_or(LinkError::Undefined(function))?;
        self.fail_task(peer, task, &no_memory(&reason))
    }

    /// Returns what a peer's program knows this end as, in words.
    fn own_name(&self, peer: PeerId) -> String {
        match self.links().get(peer).map_or("", |link| &link.own_name) {
            "" => "the program".to_owned(),
            name => format!("node {name}"),
        }
    }

    /// Fails a task here whose result is too large.
    fn fail_answered(
        &mut self,
        peer: PeerId,
        message: &OversizedMessage,
        now: u64,
    ) -> Result<(), LinkError> {
        let head = AnswerMessage::head_of(&message.body)?;
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let node = &link.name;
        let text = format!(
            "the result of the task from node {node} is too large: {}; {ADVICE}",
            sizes(message, "this program's memory")
        );
        let timings = self.peer_timings(&head, link.heartbeat.own_ns(head.started_ns));
        let raised = Payload::from(no_memory(&text));
        let end = match head.end {
            EndKind::TimedOut => PeerEnd::TimedOut(Some(raised)),
            _ => PeerEnd::Raised(raised),
        };
        let answer = PeerAnswer { task: head.task, attempt: head.attempt, end, timings };
        let EngineParts { core, port, .. } = self.parts();
        let _ = core.peer_answered(peer, answer, now, port);
        Ok(())
    }
}

impl<H: LinkHome> OversizedWork for H {}

fn no_memory(text: &str) -> Vec<u8> {
    TaskFailure::of_text(FailureKind::NoMemory, text).encode()
}

/// Returns the size of a message and the limit that it exceeds, in words; `memory` is what the limit is a part of.
fn sizes(message: &OversizedMessage, memory: &str) -> String {
    let OversizedMessage { size, limit, .. } = message;
    match message.held {
        None => format!(
            "it takes a message of {size} bytes, and the limit is {limit}, an eighth of {memory}"
        ),
        Some(held) => format!(
            "it takes a message of {size} bytes while others that are not complete take {held}, and the limit of all \
             is {limit}, half of {memory}"
        ),
    }
}
