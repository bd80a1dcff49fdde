//! Messages and definitions that are too large to be kept: the tasks that they belong to fail, and the link goes on.

use gristmill_core::{Payload, PeerAnswer, PeerEnd};
use gristmill_wire::PeerId;
use gristmill_wire::peer::{AnswerMessage, Definition, EndKind, MessageKind, TaskMessage};

use super::answers::AnswerWork;
use super::definitions::DefinitionWork;
use super::home::{EngineParts, LinkHome};
use super::inbound::{InboundWork, no_memory};
use super::link::{LinkError, OversizedMessage};

/// Advice for values that travel as one message.
const ADVICE: &str = "arrays and other buffers of a megabyte or more have no such limit; so use these, several smaller \
                      values, or files";

/// Methods that handle messages which are too large.
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

    /// Fails a task here whose result is too large.
    fn fail_answered(
        &mut self,
        peer: PeerId,
        message: &OversizedMessage,
        now: u64,
    ) -> Result<(), LinkError> {
        let head = AnswerMessage::head_of(&message.body)?;
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let node = &link.names.theirs;
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
