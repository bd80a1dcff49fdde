//! A node that cannot give a result which it has named, as its disk has failed.

use gristmill_wire::peer::{BlobMessage, MessageKind};

use crate::workless::Workless;

#[test]
fn a_result_that_its_node_cannot_give_is_made_again() {
    let mut engine = Workless::new();
    let mut node = engine.join("n1", 1);
    let name = engine.name(b"what was made");
    let task = engine.submit_one();
    node.until_sent(&mut engine);
    assert_eq!(node.answer(name), task);
    // It could stay where it is, and is brought home at once: nothing needs it elsewhere.
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
