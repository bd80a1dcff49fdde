//! Tasks that follow their parents to the peer that has these.

use gristmill_core::{Config, Payload, PeerEnd, PeerId, Status, TaskId};

use crate::fake::Engine;
use crate::faraway::{client_of, client_with, returned};

#[test]
fn a_task_follows_its_parent_to_the_peer_that_has_it() {
    let mut engine = client_of(&[4, 4]);
    let parent = engine.submit();
    let child = engine.submit_after(&[parent]);
    assert_eq!(engine.peer_of(child), engine.peer_of(parent));
    assert_eq!(engine.delegated(child).parents, [(parent, false)], "the value is there already");
    assert!(!engine.core.task(child).unwrap().is_sent, "it cannot run yet");
    let _outcome = engine.reply(parent, returned());
    assert!(engine.core.task(child).unwrap().is_sent);
    let _outcome = engine.reply(child, returned());
    assert_eq!(engine.status(child), Some(Status::Succeeded));
}

#[test]
fn a_task_whose_parents_are_at_two_peers_waits_for_their_values() {
    let mut engine = client_of(&[1, 1]);
    let parents = [engine.submit(), engine.submit()];
    assert_ne!(engine.peer_of(parents[0]), engine.peer_of(parents[1]));
    let child = engine.submit_after(&parents);
    assert_eq!(engine.peer_of(child), None);
    for parent in parents {
        let _outcome = engine.reply(parent, returned());
    }
    let values: Vec<_> = engine.delegated(child).parents.iter().map(|parent| parent.1).collect();
    assert_eq!(values, [true, true]);
}

#[test]
fn a_task_that_was_submitted_before_its_parent_went_follows_too() {
    let mut engine = client_of(&[]);
    let parent = engine.submit();
    let child = engine.submit_after(&[parent]);
    let grandchild = engine.submit_after(&[child]);
    engine.join(0, 4, 0);
    assert!([parent, child, grandchild].iter().all(|&task| engine.peer_of(task) == Some(0)));
}

#[test]
fn what_a_peer_gives_back_because_its_parent_came_back_waits_as_before() {
    let mut engine = client_of(&[1]);
    let parent = engine.submit();
    let child = engine.submit_after(&[parent]);
    engine.port.full_peers = vec![0];
    let _outcome = engine.reply(parent, PeerEnd::Unstarted);
    let _outcome = engine.reply(child, PeerEnd::Unstarted);
    assert_eq!(engine.core.stats().blocked, 1);
    engine.port.full_peers.clear();
    engine.join(1, 1, 0);
    assert_eq!(engine.peer_of(parent), Some(1));
    assert_eq!(engine.peer_of(child), Some(1), "it follows again");
    assert_eq!(engine.delegated(child).attempt.0, 1);
}

#[test]
fn a_task_that_went_ahead_fails_with_its_parent() {
    let mut engine = client_of(&[1]);
    let parent = engine.submit();
    let child = engine.submit_after(&[parent]);
    let ahead = engine.delegated(child);
    let _outcome = engine.reply(parent, PeerEnd::Raised(Payload::EMPTY));
    assert_eq!(engine.status(child), Some(Status::DependencyFailed));
    let late = engine.reply_as(&ahead, PeerEnd::Unstarted, 0);
    assert_eq!(late, gristmill_core::AnswerOutcome::Stale);
}

#[test]
fn a_task_that_is_too_large_for_the_peer_of_its_parent_fails_alone() {
    let mut engine = client_of(&[]);
    let parent = engine.submit();
    let child = engine.submit_after(&[parent]);
    let (grandchild, other) = (engine.submit_after(&[child]), engine.submit_after(&[parent]));
    engine.port.unsendable = Some(child);
    engine.join(0, 4, 0);
    assert_eq!([parent, other].map(|task| engine.peer_of(task)), [Some(0); 2]);
    assert_eq!(engine.status(child), Some(Status::Failed));
    assert_eq!(engine.status(grandchild), Some(Status::DependencyFailed));
    for task in [parent, other] {
        let _outcome = engine.reply(task, returned());
        assert_eq!(engine.status(task), Some(Status::Succeeded));
    }
    engine.core.audit();
}

#[test]
fn followers_without_room_go_when_there_is_some() {
    let config = Config { depth_min: 1, depth_max: 1, ..Config::default() };
    let mut engine = client_with(&[2], config);
    let (parent, other) = (engine.submit(), engine.submit());
    let child = engine.submit_after(&[parent]);
    assert_eq!(engine.peer_of(child), None, "two workers, two tasks");
    let _outcome = engine.reply(other, returned());
    assert_eq!(engine.peer_of(child), Some(0));
}

#[test]
fn followers_of_a_peer_that_drains_go_when_it_lasts_longer() {
    let config = Config { depth_min: 1, depth_max: 1, ..Config::default() };
    let mut engine = client_with(&[2], config);
    let (parent, other) = (engine.submit(), engine.submit());
    let child = engine.submit_after(&[parent]);
    engine.core.peer_draining(PeerId(0), engine.now, &mut engine.port);
    let _outcome = engine.reply(other, returned());
    assert_eq!(engine.peer_of(child), None);
    engine.core.peer_lasts(PeerId(0), u64::MAX, engine.now, &mut engine.port);
    assert_eq!(engine.peer_of(child), Some(0));
}

#[test]
fn a_follower_whose_parents_have_ended_goes_to_any_peer() {
    let config = Config { depth_min: 1, depth_max: 1, ..Config::default() };
    let mut engine = client_with(&[1, 1], config);
    let (parent, other) = (engine.submit(), engine.submit());
    let child = engine.submit_after(&[parent]);
    let busy = engine.peer_of(other);
    let home = engine.peer_of(parent);
    let _outcome = engine.reply(other, returned());
    assert_eq!(engine.peer_of(child), None, "its parent's peer has no room");
    let next = engine.submit();
    assert_eq!(engine.peer_of(next), busy);
    let _outcome = engine.reply(parent, returned());
    assert_eq!(engine.peer_of(child), home);
    assert_eq!(engine.delegated(child).parents, [(parent, true)]);
}

#[test]
fn a_chain_does_not_fill_a_peer_without_end() {
    let mut engine = client_of(&[1]);
    engine.teach_peers(20_000);
    let mut last = engine.submit();
    for _ in 0..100 {
        last = engine.submit_after(&[last]);
    }
    assert_eq!(engine.port.delegated.len(), 10, "a window of work");
    engine.core.audit();
    while let Some(first) = engine.port.delegated.first().map(|one| one.task) {
        let _outcome = engine.reply_in(first, returned(), 20_000);
    }
    assert_eq!(engine.status(last), Some(Status::Succeeded));
}

/// Returns a client with one peer of three workers that takes no more tasks than it can run. The peer has a task and
/// two tasks that wait for it.
fn family_at_a_peer() -> (Engine, TaskId, [TaskId; 2]) {
    let mut engine = client_with(&[3], Config { depth_min: 1, depth_max: 1, ..Config::default() });
    let parent = engine.submit();
    let children = [(); 2].map(|()| engine.submit_after(&[parent]));
    assert_eq!(children.map(|child| engine.peer_of(child)), [Some(0); 2]);
    (engine, parent, children)
}

/// Submits four tasks that need nothing, and returns how many go to the peer at once.
fn taken_of_four(engine: &mut Engine) -> usize {
    let ready = [(); 4].map(|()| engine.submit());
    engine.core.audit();
    ready.iter().filter(|&&task| engine.peer_of(task).is_some()).count()
}

#[test]
fn what_waits_at_a_peer_leaves_its_workers_to_tasks_that_are_ready() {
    let (mut engine, ..) = family_at_a_peer();
    assert_eq!(engine.core.idle_at(PeerId(0)), 2);
    assert_eq!(taken_of_four(&mut engine), 2, "one worker runs the parent");
}

#[test]
fn what_has_waited_at_a_peer_takes_workers_once_its_parents_have_ended() {
    let (mut engine, parent, children) = family_at_a_peer();
    let _outcome = engine.reply(parent, returned());
    assert_eq!(engine.core.idle_at(PeerId(0)), 1);
    assert_eq!(taken_of_four(&mut engine), 1);
    let _outcome = engine.reply(children[0], returned());
    assert_eq!(engine.core.stats().ready, 2, "the next one has the worker of the child");
}

#[test]
fn what_came_to_nothing_at_a_peer_waits_there_no_more() {
    let (mut engine, parent, _) = family_at_a_peer();
    let _outcome = engine.reply(parent, PeerEnd::Raised(Payload::EMPTY));
    assert_eq!(engine.core.idle_at(PeerId(0)), 3);
    assert_eq!(taken_of_four(&mut engine), 3);
}

#[test]
fn what_a_peer_gives_back_waits_there_no_more() {
    let (mut engine, parent, children) = family_at_a_peer();
    engine.port.full_peers = vec![0];
    for task in [parent, children[0], children[1]] {
        let _outcome = engine.reply(task, PeerEnd::Unstarted);
    }
    assert_eq!(engine.core.idle_at(PeerId(0)), 3);
}

#[test]
fn a_peer_is_asked_for_nothing_that_waits_for_others_there() {
    let mut engine = client_of(&[1]);
    engine.teach_peers(1_000_000);
    let parent = engine.submit();
    let child = engine.submit_after(&[parent]);
    engine.join(1, 4, 0);
    assert_eq!(engine.peer_of(child), Some(0));
    assert_eq!(engine.core.next_wake(engine.now), None, "there is nothing that it could give");
}
