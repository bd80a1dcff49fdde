//! Any chunk as the messages of a peer: each is read whole or refused.

#![no_main]

use gristmill_wire::peer::{
    AnswerMessage, Ask, Beat, Control, Definition, Grant, Greeting, MessageKind, Messages,
    TaskMessage,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|chunk: &[u8]| {
    for (kind, body) in Messages::new(chunk).map_while(Result::ok) {
        match kind {
            MessageKind::Greeting => drop(Greeting::read(body)),
            MessageKind::Ask => drop(Ask::read(body)),
            MessageKind::Grant => drop(Grant::read(body)),
            MessageKind::Beat => drop(Beat::read(body)),
            MessageKind::Define => drop(Definition::read(body)),
            MessageKind::Answer => drop(AnswerMessage::read(body)),
            MessageKind::Task => {
                if let Ok(task) = TaskMessage::read(body) {
                    assert!(task.parents.clone().all(|parent| parent.is_ok()), "read whole");
                }
            }
            other => drop(Control::read(other, body)),
        }
    }
});
