//! Tests of nodes that name a large result and send other bytes.

use gristmill_wire::peer::MessageKind;
use gristmill_wire::{BlobName, TaskId};

use crate::outcome::Ended;
use crate::peers::{Departure, LinkWork as _};
use crate::workerless::{Node, WorkerlessEngine};

const RIGHT: &[u8] = b"right results";
const WRONG: &[u8] = b"wrong results";

fn right_name(engine: &WorkerlessEngine) -> BlobName {
    engine.name(RIGHT)
}

/// Submits a task. Its node names the right bytes, and sends `bytes`.
fn answered(engine: &mut WorkerlessEngine, node: &mut Node, bytes: &[u8]) -> TaskId {
    let name = right_name(engine);
    let task = engine.submit_one();
    node.until_sent(engine);
    assert_eq!(node.answer(name), task);
    let (first, rest) = bytes.split_at(5);
    node.give(name, 0, first);
    node.give(name, 5, rest);
    task
}

#[test]
fn a_result_comes_home_if_its_bytes_are_what_was_named() {
    let mut engine = WorkerlessEngine::new();
    let mut node = engine.join("n1", 1);
    let task = answered(&mut engine, &mut node, RIGHT);
    engine.until(&mut [&mut node], |inner| inner.is_final(task));
    assert_eq!(engine.result(task), Ok(vec![RIGHT.to_vec()]));
    node.until_told(&mut engine, MessageKind::Received);
}

#[test]
fn a_node_that_sends_other_bytes_than_it_named_is_lost_with_its_task() {
    let mut engine = WorkerlessEngine::new();
    let mut node = engine.join("n1", 1);
    let task = answered(&mut engine, &mut node, WRONG);
    engine.until(&mut [&mut node], |inner| !inner.peer_events.is_empty());
    let [(peer, text)] = &engine.departures()[..] else { panic!("{:?}", engine.inner.peer_events) };
    assert_eq!(*peer, node.peer);
    assert!(text.contains("13 bytes") && text.contains("do not hash to"), "{text}");
    assert!(!engine.inner.is_final(task), "the program allows the task one loss");
    let mut other = engine.join("n2", 1);
    other.until_sent(&mut engine);
    assert_eq!(other.tasks[0].0, task);
    engine.inner.peer_gone(other.peer, "the peer has left", Departure::Lost);
    let Some(Ended::Lost(text)) = engine.inner.ended(task) else { panic!("it is not final") };
    assert!(text.contains("n2"), "{text}");
}

#[test]
fn no_peer_can_name_the_right_bytes_with_a_wrong_size() {
    let mut engine = WorkerlessEngine::new();
    let mut node = engine.join("n1", 1);
    let task = engine.submit_one();
    node.until_sent(&mut engine);
    let name = right_name(&engine);
    node.answer(BlobName { size: name.size - 1, ..name });
    engine.until(&mut [&mut node], |inner| !inner.peer_events.is_empty());
    let text =
        "it sent bytes that are no message: a blob of 12 bytes has the name of a blob of 13 bytes";
    assert_eq!(engine.departures(), [(node.peer, text.to_owned())]);
    assert!(!engine.inner.is_final(task), "the program allows the task one loss");
}

#[test]
fn the_same_name_is_good_where_the_right_bytes_come_under_it() {
    let mut engine = WorkerlessEngine::new();
    let mut liar = engine.join("liar", 1);
    let poisoned = answered(&mut engine, &mut liar, WRONG);
    engine.until(&mut [&mut liar], |inner| !inner.peer_events.is_empty());
    let mut honest = engine.join("honest", 1);
    honest.until_sent(&mut engine);
    let name = right_name(&engine);
    assert_eq!(honest.answer(name), poisoned);
    honest.give(name, 0, RIGHT);
    engine.until(&mut [&mut honest], |inner| inner.is_final(poisoned));
    assert_eq!(engine.result(poisoned), Ok(vec![RIGHT.to_vec()]));
}

#[test]
fn a_lie_under_way_does_not_reach_who_names_the_same_bytes() {
    let mut engine = WorkerlessEngine::new();
    let (mut liar, mut honest) = (engine.join("liar", 1), engine.join("honest", 9));
    let name = right_name(&engine);
    let tasks = [engine.submit_one(), engine.submit_one()];
    liar.until_sent(&mut engine);
    honest.until_sent(&mut engine);
    liar.answer(name);
    liar.give(name, 0, WRONG);
    engine.until(&mut [&mut liar], |_| true);
    let good = honest.answer(name);
    honest.give(name, 0, RIGHT);
    engine.until(&mut [&mut liar, &mut honest], |inner| {
        inner.is_final(good) && !inner.peer_events.is_empty()
    });
    assert_eq!(engine.result(good), Ok(vec![RIGHT.to_vec()]));
    assert!(tasks.iter().filter(|&&task| engine.inner.is_final(task)).count() == 1);
}
