//! Messages and definitions that are too large to be kept: the tasks that they belong to fail, and the link goes on.

use gristmill_core::{Payload, PeerAnswer, PeerEnd};
use gristmill_wire::PeerId;
use gristmill_wire::peer::{
    AnswerMessage, ContextTerms, Definition, EndKind, MessageKind, TaskMessage,
};

use super::answers::AnswerWork;
use super::contexts::ContextWork;
use super::definitions::DefinitionWork;
use super::home::{EngineParts, LinkHome};
use super::inbound::InboundWork;
use super::link::{LinkError, OversizedMessage};
use super::size_errors::{SizeExcess, large_arguments, large_result};

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
                let raised = large_arguments(
                    "the task",
                    &receiver,
                    &message.excess("its memory").to_string(),
                );
                self.fail_task(peer, name, &raised)
            }
            MessageKind::Define => {
                let function = Definition::function_of(&message.body)?;
                self.refuse_function(peer, function, &message.excess("its memory").to_string());
                Ok(())
            }
            MessageKind::DefineContext => {
                let context = ContextTerms::context_of(&message.body)?;
                self.check_new_context(peer, context)?;
                let sizes = message.excess("its memory").to_string();
                self.refuse_context(peer, (context, None), &sizes);
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
        let raised = large_result(
            &format!("from node {} is too large", link.names.theirs),
            &message.excess("this program's memory"),
        );
        let timings = self.peer_timings(&head, link.heartbeat.own_ns(head.started_ns));
        let raised = Payload::from(raised);
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

impl OversizedMessage {
    /// Returns the size, and the limit that it exceeds; `memory` is what the limit is a part of.
    const fn excess<'a>(&self, memory: &'a str) -> SizeExcess<'a> {
        let Self { size, limit, held, .. } = *self;
        SizeExcess { size, limit, held, memory }
    }
}
