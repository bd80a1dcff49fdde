//! Nodes that say what is not theirs to say, or more than anybody can keep.

use gristmill_core::Attempt;
use gristmill_wire::TaskId;
use gristmill_wire::peer::{Control, Definition, Parted, TaskMessage};

use super::backlog::BacklogLimits;
use super::intake::LinkWork as _;
use crate::workless::{Node, Workless};

/// What ended the only link.
fn ending(engine: &mut Workless, node: &mut Node) -> String {
    engine.until(&mut [node], |inner| !inner.news.is_empty());
    let [(peer, text)] = &engine.departures()[..] else { panic!("{:?}", engine.inner.news) };
    assert_eq!(*peer, node.peer);
    text.clone()
}

#[test]
fn a_node_cannot_change_how_much_it_was_granted_with() {
    let mut engine = Workless::new();
    let mut node = engine.join("n1", 1);
    node.say(&Control::Want { count: 1_000_000 });
    let text = ending(&mut engine, &mut node);
    assert_eq!(text, "it asked for 1000000 tasks, as only a client does of its nodes");
}

#[test]
fn a_node_that_has_words_answered_and_reads_none_is_given_up() {
    let mut engine = Workless::new();
    engine.inner.lanes.links.sizes.backlog = BacklogLimits { words: 10_000, ..Default::default() };
    // What has left does not wait: nothing leaves here.
    engine.inner.lanes.links.sizes.session.unacknowledged_chunks_max = 0;
    let mut node = engine.join("n1", 1);
    for place in 0..1_000 {
        node.say(&Control::Withdraw { task: TaskId::new(place, 1), attempt: Attempt(0) });
    }
    let text = ending(&mut engine, &mut node);
    assert!(text.ends_with("of which 10000 may: it does not read what it asks for"), "{text}");
}

/// Sends tasks to the program, which has no worker for them and gives all back.
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
    let mut engine = Workless::new();
    engine.inner.lanes.links.sizes.backlog = BacklogLimits { answers: 99, ..Default::default() };
    engine.inner.lanes.links.sizes.session.unacknowledged_chunks_max = 0;
    let mut node = engine.join("n1", 1);
    engine.inner.drain_guests("");
    send_tasks(&mut node, 100);
    let text = ending(&mut engine, &mut node);
    assert_eq!(text, "it has not confirmed 100 answers to its tasks, of which 99 may be under way");
    assert_eq!(engine.inner.guests.count(), 0, "nothing is kept of it");
}
