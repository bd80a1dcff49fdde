//! What happens when one peer has nothing to do while tasks wait at another; and what an engine gives back when it is asked.

use gristmill_core::{Attempt, CancelMode, CancelOutcome, Config, PeerEnd, PeerId, Status, TaskId};
use gristmill_wire::Verdict::{Returned, Skipped};

use crate::fake::{Engine, engine, engine_with};
use crate::faraway::{client_of, returned};

const RUNNING: CancelMode = CancelMode::Running { grace_ns: None };

fn cancel(engine: &mut Engine, task: TaskId, mode: CancelMode) -> CancelOutcome {
    engine.core.cancel(task, mode, engine.now, &mut engine.port)
}

/// A client, one of whose peers has eight tasks for one worker while the other one idles.
fn lopsided() -> (Engine, Vec<TaskId>) {
    let mut engine = client_of(&[1]);
    engine.teach_peers(20_000);
    let tasks: Vec<_> = (0..8).map(|_| engine.submit()).collect();
    engine.join(1, 1, 0);
    engine.pass(1_000_000);
    (engine, tasks)
}

#[test]
fn an_idle_peer_gets_half_of_what_waits_at_another() {
    let (mut engine, tasks) = lopsided();
    assert_eq!(engine.port.recalled, [(0, 4)], "half of the seven that wait");
    assert!(engine.core.is_recalling());
    for &task in &tasks[4..] {
        let _outcome = engine.reply(task, PeerEnd::Unstarted);
    }
    engine.recalled(0);
    assert!(!engine.core.is_recalling());
    assert!(tasks[4..].iter().all(|&task| engine.peer_of(task) == Some(1)));
    assert!(tasks[..4].iter().all(|&task| engine.peer_of(task) == Some(0)));
}

#[test]
fn a_peer_that_has_nothing_to_give_is_asked_again_only_after_something_has_changed() {
    let (mut engine, tasks) = lopsided();
    engine.recalled(0);
    engine.pass(50_000_000);
    assert_eq!(engine.port.recalled.len(), 1, "it has said that it can give nothing");
    assert!(engine.core.next_wake(engine.now).is_none(), "and nobody is woken for it");
    let _outcome = engine.reply(tasks[0], returned());
    engine.pass(1_000_000);
    assert_eq!(engine.port.recalled.len(), 2);
}

#[test]
fn a_peer_that_gives_a_task_back_unasked_gets_nothing_before_it_has_answered_another() {
    let mut engine = client_of(&[1]);
    let [first, second, third] = [(); 3].map(|()| engine.submit());
    assert_eq!(engine.peer_of(second), Some(0));
    let _outcome = engine.reply(second, PeerEnd::Unstarted);
    assert_eq!(engine.peer_of(second), None, "it would come back at once, again and again");
    let _outcome = engine.reply(first, returned());
    assert_eq!((engine.peer_of(second), engine.peer_of(third)), (Some(0), Some(0)));
}

#[test]
fn what_an_idle_worker_is_about_to_begin_is_not_given_back() {
    let mut engine = engine_with(Config { workers: 1, spare_max: 0, ..Config::default() });
    let (first, second) = (engine.submit(), engine.submit());
    engine.core.withdraw(2, engine.now, &mut engine.port);
    assert_eq!((engine.status(first), engine.status(second)), (None, Some(Status::Cancelled)));
    engine.core.withdraw(2, engine.now, &mut engine.port);
    assert_eq!(engine.status(first), None, "or two engines send it to each other for ever");
}

#[test]
fn everything_that_has_not_started_is_given_back_when_all_is_wanted() {
    let mut engine = engine_with(Config { workers: 2, spare_max: 0, ..Config::default() });
    let tasks: Vec<_> = (0..9).map(|_| engine.submit()).collect();
    engine.start(tasks[0]);
    engine.core.withdraw(u32::MAX, engine.now, &mut engine.port);
    assert_eq!(engine.status(tasks[0]), None);
    assert!(tasks[1..].iter().all(|&task| engine.status(task) == Some(Status::Cancelled)));
}

#[test]
fn those_that_would_run_last_are_given_back_first() {
    let mut engine = engine(1);
    let tasks: Vec<_> = (0..6).map(|_| engine.submit()).collect();
    engine.start(tasks[0]);
    engine.core.withdraw(3, engine.now, &mut engine.port);
    let kept: Vec<_> = tasks.iter().filter(|&&task| engine.status(task).is_none()).collect();
    assert_eq!(kept, [&tasks[0], &tasks[1], &tasks[2]]);
}

#[test]
fn tasks_that_a_task_here_submitted_are_not_given_back() {
    let mut engine = engine(1);
    let parent = engine.submit();
    engine.start(parent);
    let child = engine.submit_from(parent);
    engine.core.withdraw(u32::MAX, engine.now, &mut engine.port);
    assert_eq!(engine.status(child), None);
}

#[test]
fn what_is_given_back_makes_room_for_what_stays() {
    let config =
        Config { workers: 2, spare_max: 0, depth_min: 1, depth_max: 1, ..Config::default() };
    let mut engine = engine_with(config);
    let (parent, guest) = (engine.submit(), engine.submit());
    engine.start(parent);
    let child = engine.submit_from(parent);
    assert!(!engine.is_sent(child), "both workers have something to do");
    engine.core.withdraw(u32::MAX, engine.now, &mut engine.port);
    assert_eq!(engine.status(guest), Some(Status::Cancelled));
    assert!(engine.is_sent(child), "nobody else would send it");
    engine.core.audit();
}

#[test]
fn a_task_at_a_peer_is_cancelled_if_the_peer_has_not_begun_it() {
    let mut engine = client_of(&[1]);
    let task = engine.submit();
    assert_eq!(cancel(&mut engine, task, CancelMode::Unstarted), CancelOutcome::Asked);
    assert_eq!(engine.port.withdrawn, [task]);
    assert!(engine.core.is_withdrawn(task));
    let _outcome = engine.reply(task, PeerEnd::Unstarted);
    assert_eq!(engine.status(task), Some(Status::Cancelled));
    assert!(!engine.core.is_withdrawn(task));
}

#[test]
fn a_task_that_a_peer_keeps_is_not_cancelled() {
    let mut engine = client_of(&[1]);
    let task = engine.submit();
    let _asked = cancel(&mut engine, task, CancelMode::Unstarted);
    engine.core.peer_kept(PeerId(0), task, Attempt(7));
    assert!(engine.core.is_withdrawn(task), "that was said of another placement");
    engine.core.peer_kept(PeerId(0), task, Attempt(0));
    assert!(!engine.core.is_withdrawn(task));
    let _outcome = engine.reply(task, returned());
    assert_eq!(engine.status(task), Some(Status::Succeeded));
}

#[test]
fn whoever_asks_a_second_time_waits_for_the_same_word() {
    let mut engine = client_of(&[1]);
    let task = engine.submit();
    let _asked = cancel(&mut engine, task, CancelMode::Unstarted);
    assert_eq!(cancel(&mut engine, task, CancelMode::Unstarted), CancelOutcome::Asked);
    assert_eq!(engine.port.withdrawn, [task], "and the peer is asked once");
}

#[test]
fn a_task_at_a_peer_is_stopped_there_on_request() {
    let mut engine = client_of(&[1]);
    let task = engine.submit();
    let _asked = cancel(&mut engine, task, CancelMode::Unstarted);
    assert_eq!(cancel(&mut engine, task, RUNNING), CancelOutcome::Requested);
    assert_eq!(engine.port.stopped, [task]);
    engine.core.peer_kept(PeerId(0), task, Attempt(0));
    let _outcome = engine.reply(task, PeerEnd::Stopped);
    assert_eq!(engine.status(task), Some(Status::Cancelled));
}

#[test]
fn a_shutdown_that_cancels_has_peers_give_everything_back() {
    let mut engine = client_of(&[2]);
    let (runs, waits) = (engine.submit(), engine.submit());
    let ahead = engine.submit_after(&[waits]);
    engine.core.shut_down(true, engine.now, &mut engine.port);
    assert_eq!(engine.port.recalled, [(0, u32::MAX)]);
    let _outcome = engine.reply(ahead, PeerEnd::Unstarted);
    assert_eq!(engine.status(ahead), Some(Status::Cancelled), "whatever becomes of its parent");
    let _outcome = engine.reply(waits, PeerEnd::Unstarted);
    assert_eq!(engine.status(waits), Some(Status::Cancelled));
    let _outcome = engine.reply(runs, returned());
    assert_eq!(engine.status(runs), Some(Status::Succeeded));
    assert!(engine.core.is_drained());
}

#[test]
fn a_worker_that_was_asked_for_all_answers_what_it_had_claimed() {
    let mut engine = engine(1);
    let task = engine.submit();
    let record = engine.record(task);
    engine.port.progress[0].claimed = record.sequence + 1;
    engine.core.withdraw(u32::MAX, engine.now, &mut engine.port);
    assert_eq!(engine.status(task), None);
    let _outcome = engine.answer(task, Skipped);
    assert!(engine.is_sent(task), "nobody wants it back for good");
    let _outcome = engine.answer(task, Returned);
    assert_eq!(engine.status(task), Some(Status::Succeeded));
}
