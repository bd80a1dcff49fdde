//! Tests of a node's last message: tasks that the node had received by then, and tasks that were on their way to it.

use gristmill_wire::peer::Control;

use crate::workerless::{Node, WorkerlessEngine};

/// Submits a task that the node receives, and one that it does not receive.
fn submit_two(engine: &mut WorkerlessEngine, node: &mut Node) -> [gristmill_wire::TaskId; 2] {
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
        let mut engine = WorkerlessEngine::new();
        let mut node = engine.join("n1", 1);
        let [received, under_way] = submit_two(&mut engine, &mut node);
        node.say(&word);
        let _ = node.link().flush();
        engine.until(&mut [], |inner| !inner.peer_events.is_empty());
        let text = engine.result(received).expect_err("it may have run");
        assert!(text.contains("Lost"), "{text}");
        assert!(!engine.is_final(under_way), "it waits for another node");
    }
}

#[test]
fn what_was_on_its_way_to_a_node_that_is_lost_may_have_run() {
    let mut engine = WorkerlessEngine::new();
    let mut node = engine.join("n1", 1);
    let tasks = submit_two(&mut engine, &mut node);
    engine.part(node.peer);
    for task in tasks {
        let text = engine.result(task).expect_err("the end of the task is unknown");
        assert!(text.contains("Lost"), "{text}");
    }
}
