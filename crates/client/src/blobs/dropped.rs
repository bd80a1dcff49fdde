//! Test of a node that cannot give a result which it has named, because its disk has failed.

use gristmill_wire::peer::{BlobMessage, MessageKind};

use crate::workerless::WorkerlessEngine;

#[test]
fn a_result_that_its_node_cannot_give_is_made_again() {
    let mut engine = WorkerlessEngine::new();
    let mut node = engine.join("n1", 1);
    let name = engine.name(b"the result that was made");
    let task = engine.submit_one();
    node.until_sent(&mut engine);
    assert_eq!(node.answer(name), task);
    // The result could stay on its node, but the client requests it at once, because no other task needs it.
    node.until_told(&mut engine, MessageKind::Need);
    let text = "the disk does not give it back".to_owned();
    BlobMessage::Dropped { digest: name.digest, text }.write(&mut node.link().out);
    node.until_sent(&mut engine);
    let is_received = |(kind, _): &(MessageKind, _)| *kind == MessageKind::Received;
    assert!(node.heard.iter().any(is_received), "nothing is kept there for that answer");
    assert_eq!(node.answer_plainly(), task);
    engine.until(&mut [&mut node], |inner| inner.is_final(task));
    assert_eq!(engine.result(task), Ok(Vec::new()));
    engine.release(task);
    engine.check_empty();
}
