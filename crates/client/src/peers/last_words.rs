//! What a node had when it said its last word, and what was on its way to it.

use gristmill_wire::peer::Control;

use crate::workless::{Node, Workless};

/// A task that the node has received, and one that it has not.
fn submit_two(engine: &mut Workless, node: &mut Node) -> [gristmill_wire::TaskId; 2] {
    let received = engine.submit(b"one", &[], &[], 0);
    node.until_sent(engine);
    [received, engine.submit(b"two", &[], &[], 0)]
}

#[test]
fn what_a_node_had_not_received_when_it_ended_costs_nothing() {
    let words = [
        Control::End { text: "that is all".to_owned() },
        Control::Refuse { text: "no worker starts".to_owned(), is_final: true },
    ];
    for word in words {
        let mut engine = Workless::new();
        let mut node = engine.join("n1", 1);
        let [received, under_way] = submit_two(&mut engine, &mut node);
        node.say(&word);
        let _ = node.link().flush();
        engine.until(&mut [], |inner| !inner.news.is_empty());
        let text = engine.result(received).expect_err("it may have run");
        assert!(text.contains("Lost"), "{text}");
        assert!(!engine.is_final(under_way), "it waits for another node");
    }
}

#[test]
fn what_was_on_its_way_to_a_node_that_is_lost_may_have_run() {
    let mut engine = Workless::new();
    let mut node = engine.join("n1", 1);
    let tasks = submit_two(&mut engine, &mut node);
    engine.part(node.peer);
    for task in tasks {
        let text = engine.result(task).expect_err("nobody knows");
        assert!(text.contains("Lost"), "{text}");
    }
}
