//! An arbitrary chunk as the messages of a peer: each is read whole or refused.

use gristmill_wire::DefinitionHead;
use gristmill_wire::peer::{
    AnswerMessage, BlobMessage, ContextState, ContextTerms, Control, Definition, Greeting,
    Heartbeat, LeaseGrant, LeaseRequest, MessageKind, Messages, Piece, TaskMessage,
};

/// Runs the target on one input.
pub(crate) fn run(chunk: &[u8]) {
    for (kind, body) in Messages::new(chunk).map_while(Result::ok) {
        match kind {
            MessageKind::Greeting => drop(Greeting::read(body)),
            MessageKind::LeaseRequest => drop(LeaseRequest::read(body)),
            MessageKind::Grant => drop(LeaseGrant::read(body)),
            MessageKind::Heartbeat => drop(Heartbeat::read(body)),
            MessageKind::Define => {
                if let Ok(message) = Definition::read(body) {
                    let needs = DefinitionHead::read(message.definition).needs();
                    assert!(needs.count() * 32 <= message.definition.len(), "each is there");
                }
            }
            MessageKind::DefineContext => drop(ContextTerms::read(body)),
            MessageKind::ContextState => drop(ContextState::read(body)),
            MessageKind::Answer => drop(AnswerMessage::read(body)),
            MessageKind::Task => {
                if let Ok(task) = TaskMessage::read(body) {
                    assert!(task.parents.clone().all(|parent| parent.is_ok()), "read whole");
                }
            }
            MessageKind::Piece => drop(Piece::read(body)),
            other => {
                let _ = Control::read(other, body);
                let _ = BlobMessage::read(other, body);
            }
        }
    }
}
