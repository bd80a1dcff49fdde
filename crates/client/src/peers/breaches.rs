//! Tests of nodes that send messages which only clients may send, or more than can be kept.

use gristmill_core::Attempt;
use gristmill_wire::TaskId;
use gristmill_wire::peer::{Control, Definition, Parted, TaskMessage};

use super::backlog::BacklogLimits;
use super::intake::LinkWork as _;
use crate::workerless::{Node, WorkerlessEngine};

/// Returns the reason why the only link ended.
fn ending(engine: &mut WorkerlessEngine, node: &mut Node) -> String {
    engine.until(&mut [node], |inner| !inner.peer_events.is_empty());
    let [(peer, text)] = &engine.departures()[..] else { panic!("{:?}", engine.inner.peer_events) };
    assert_eq!(*peer, node.peer);
    text.clone()
}

#[test]
fn a_node_cannot_change_how_much_it_was_granted_with() {
    let mut engine = WorkerlessEngine::new();
    let mut node = engine.join("n1", 1);
    node.say(&Control::Want { count: 1_000_000 });
    let text = ending(&mut engine, &mut node);
    assert_eq!(text, "it requested 1000000 tasks, and only a client may do that");
}

#[test]
fn a_node_that_has_words_answered_and_reads_none_is_given_up() {
    let mut engine = WorkerlessEngine::new();
    engine.inner.port.links.sizes.backlog = BacklogLimits { words: 10_000, ..Default::default() };
    // Bytes that have left do not count as waiting: here, nothing leaves.
    engine.inner.port.links.sizes.session.unacknowledged_chunks_max = 0;
    let mut node = engine.join("n1", 1);
    for place in 0..1_000 {
        node.say(&Control::Withdraw { task: TaskId::new(place, 1), attempt: Attempt(0) });
    }
    let text = ending(&mut engine, &mut node);
    assert!(
        text.ends_with("and the limit is 10000: it does not read the answers to its requests"),
        "{text}"
    );
}

/// Sends tasks to the program, which has no worker for them and gives all of them back.
fn send_tasks(node: &mut Node, count: u32) {
    use gristmill_wire::FunctionId;
    let function = FunctionId(0);
    let out = &mut node.link().out;
    Definition { function, definition: b"code", name: b"f" }.write(out);
    for place in 0..count {
        let name = (TaskId::new(place, 1), function, Attempt(0));
        TaskMessage::write(out, name, None, (0, false), |out| Parted::put_plain(out, b""));
    }
}

#[test]
fn a_peer_that_confirms_no_answers_is_given_up() {
    let mut engine = WorkerlessEngine::new();
    engine.inner.port.links.sizes.backlog = BacklogLimits { answers: 99, ..Default::default() };
    engine.inner.port.links.sizes.session.unacknowledged_chunks_max = 0;
    let mut node = engine.join("n1", 1);
    engine.inner.drain_inbound("");
    send_tasks(&mut node, 100);
    let text = ending(&mut engine, &mut node);
    assert_eq!(text, "it has not confirmed 100 answers to its tasks, and the limit is 99");
    assert_eq!(engine.inner.inbound.count(), 0, "nothing is kept of it");
}
