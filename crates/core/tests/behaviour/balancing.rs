//! Balancing: a peer idles while tasks wait at another one, and an engine returns tasks when it is asked to.

use gristmill_core::{
    Attempt, CancelMode, CancelOutcome, Config, Epoch, Origin, PeerEnd, PeerId, PeerOffer, Status,
    TaskId, TaskOptions,
};
use gristmill_wire::ResourceRequest;
use gristmill_wire::Verdict::{Returned, Skipped};

use crate::contexts::{MODEL, define, submit_in};
use crate::fake::{Engine, engine, engine_with};
use crate::faraway::{client_of, returned};

const RUNNING: CancelMode = CancelMode::Running { grace_ns: None };

fn cancel(engine: &mut Engine, task: TaskId, mode: CancelMode) -> CancelOutcome {
    engine.core.cancel(task, mode, engine.now, &mut engine.port)
}

/// Returns a client with two peers: one has eight tasks for one worker, the other idles.
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
    assert!(engine.core.next_wake(engine.now).is_none(), "and no thread is woken for it");
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
fn what_waits_for_others_is_given_back_when_all_is_wanted() {
    let mut engine = engine_with(Config { workers: 2, spare_max: 0, ..Config::default() });
    let parent = engine.submit();
    engine.start(parent);
    let child = engine.submit_after(&[parent]);
    let grandchild = engine.submit_after(&[parent, child]);
    let own = engine.submit_from(parent);
    engine.start(own);
    let slot = engine.core.task(parent).unwrap().slot.unwrap();
    let nested = engine.submit_as(&[own], None, Origin::Nested { slot, parent }).unwrap();
    engine.core.withdraw(2, engine.now, &mut engine.port);
    assert_eq!(engine.status(child), None, "a few are those that could run elsewhere now");
    engine.core.withdraw(u32::MAX, engine.now, &mut engine.port);
    let statuses = [parent, child, grandchild, own, nested].map(|task| engine.status(task));
    let (cancelled, behind) = (Some(Status::Cancelled), Some(Status::DependencyFailed));
    assert_eq!(statuses, [None, cancelled, behind, None, None]);
    engine.core.audit();
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
    let (parent, other) = (engine.submit(), engine.submit());
    engine.start(parent);
    let child = engine.submit_from(parent);
    assert!(!engine.is_sent(child), "both workers have something to do");
    engine.core.withdraw(u32::MAX, engine.now, &mut engine.port);
    assert_eq!(engine.status(other), Some(Status::Cancelled));
    assert!(engine.is_sent(child), "no other call would send it");
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
    engine.core.peer_kept_task(PeerId(0), task, Attempt(7), engine.now, &mut engine.port);
    assert!(engine.core.is_withdrawn(task), "that was said of another placement");
    engine.core.peer_kept_task(PeerId(0), task, Attempt(0), engine.now, &mut engine.port);
    assert!(!engine.core.is_withdrawn(task));
    let _outcome = engine.reply(task, returned());
    assert_eq!(engine.status(task), Some(Status::Succeeded));
}

#[test]
fn a_second_cancel_waits_for_the_same_answer() {
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
    engine.core.peer_kept_task(PeerId(0), task, Attempt(0), engine.now, &mut engine.port);
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
    assert!(engine.is_sent(task), "the engine does not want it back for good");
    let _outcome = engine.answer(task, Returned);
    assert_eq!(engine.status(task), Some(Status::Succeeded));
}

#[test]
fn what_is_cancelled_in_order_costs_a_round_trip_only_where_it_had_gone() {
    let mut engine = client_of(&[1]);
    let tasks: Vec<_> = (0..6).map(|_| engine.submit()).collect();
    assert_eq!(engine.port.delegated.len(), 2, "one runs there, one waits");
    assert_eq!(cancel(&mut engine, tasks[1], CancelMode::Unstarted), CancelOutcome::Asked);
    let _outcome = engine.reply(tasks[1], PeerEnd::Unstarted);
    let outcome = cancel(&mut engine, tasks[2], CancelMode::Unstarted);
    assert_eq!(outcome, CancelOutcome::Cancelled, "it was not sent meanwhile");
    let outcome = cancel(&mut engine, tasks[3], CancelMode::Unstarted);
    assert_eq!(outcome, CancelOutcome::Cancelled);
    engine.pass(2_000_000);
    assert_eq!(engine.peer_of(tasks[4]), Some(0), "nothing more is cancelled");
    let _outcome = engine.reply(tasks[0], returned());
    assert_eq!(engine.peer_of(tasks[5]), Some(0));
}

#[test]
fn a_peer_that_gave_back_what_its_other_tasks_waited_for_gets_more() {
    let mut engine = client_of(&[1]);
    let options = TaskOptions { deadline_ns: Some(500_000), ..TaskOptions::default() };
    let parent = engine.submit_with(options);
    let child = engine.submit_after(&[parent]);
    assert_eq!(engine.peer_of(child), Some(0));
    engine.now += 600_000;
    let _outcome = engine.reply(parent, PeerEnd::Unstarted);
    engine.pass(0);
    assert_eq!(engine.status(parent), Some(Status::TimedOut));
    assert_eq!(engine.status(child), Some(Status::DependencyFailed));
    let next = engine.submit();
    assert_eq!(engine.peer_of(next), Some(0));
}

#[test]
fn a_task_in_a_context_that_such_a_peer_gave_back_goes_there_again() {
    let mut engine = client_of(&[1]);
    define(&mut engine, MODEL);
    let options = TaskOptions { deadline_ns: Some(500_000), ..TaskOptions::default() };
    let parent = engine.submit_with(options);
    let _child = engine.submit_after(&[parent]);
    let own = submit_in(&mut engine, MODEL);
    assert_eq!(engine.peer_of(own), Some(0));
    let _outcome = engine.reply(own, PeerEnd::Unstarted);
    assert_eq!(engine.peer_of(own), None, "no worker there could begin it");
    engine.now += 600_000;
    let _outcome = engine.reply(parent, PeerEnd::Unstarted);
    engine.pass(0);
    assert_eq!(engine.peer_of(own), Some(0));
}

/// Lets peers return the last of their tasks, as many as they were asked for.
fn give_back_what_is_wanted(engine: &mut Engine) {
    for (peer, count) in std::mem::take(&mut engine.port.recalled) {
        let there = engine.port.delegated.iter().filter(|one| one.peer == peer);
        let last: Vec<_> = there.rev().take(count as usize).map(|one| one.task).collect();
        for task in last {
            let _outcome = engine.reply(task, PeerEnd::Unstarted);
        }
        engine.core.peer_recalled(PeerId(peer), engine.now, &mut engine.port);
    }
}

/// Cancels tasks in order at two peers whose workers are busy, and lets the peers return the tasks that they are asked
/// for. Returns how many messages that took, and whether the last tasks go there once the cancels have ended.
fn messages_to_cancel(
    count: usize,
    options: impl Fn(usize) -> TaskOptions,
    round_trip_ns: u64,
) -> (usize, bool) {
    let mut engine = client_of(&[]);
    define(&mut engine, MODEL);
    let offer = PeerOffer { memory: 1_000, ..PeerOffer::of_workers(2) };
    for peer in [0, 1] {
        engine.core.peer_joined(PeerId(peer), Epoch(1), offer, engine.now, &mut engine.port);
    }
    engine.teach_peers(100_000_000);
    let busy = [(); 4].map(|()| engine.submit());
    assert_eq!(busy.map(|task| engine.peer_of(task)), [0, 0, 1, 1].map(Some));
    let tasks: Vec<_> = (0..count).map(|one| engine.submit_with(options(one))).collect();
    let (cancelled, last) = tasks.split_at(count - 4);
    let before = engine.port.floors_of_peers.len();
    for &task in cancelled {
        if cancel(&mut engine, task, CancelMode::Unstarted) == CancelOutcome::Asked {
            engine.pass(round_trip_ns);
            let _outcome = engine.reply(task, PeerEnd::Unstarted);
        }
        give_back_what_is_wanted(&mut engine);
        engine.pass(2_000);
        assert_eq!(engine.status(task), Some(Status::Cancelled));
        engine.core.audit();
    }
    let messages = engine.port.withdrawn.len() + engine.port.floors_of_peers.len() - before;
    engine.pass(2_000_000 + 4 * round_trip_ns);
    (messages, last.iter().any(|&task| engine.peer_of(task).is_some()))
}

#[test]
fn what_is_cancelled_in_order_costs_few_messages_whatever_it_asks_for() {
    let none = TaskOptions::default();
    let with = |demand| TaskOptions { demand, ..TaskOptions::default() };
    let memory = ResourceRequest { memory: 10, ..ResourceRequest::NONE };
    let cores = ResourceRequest { cores: 2, ..ResourceRequest::NONE };
    let kinds: [(&str, &dyn Fn(usize) -> TaskOptions); 8] = [
        ("plain", &|_| none),
        ("priority", &|_| TaskOptions { priority: 5, ..none }),
        ("low priority", &|_| TaskOptions { priority: -5, ..none }),
        ("priorities", &|one| TaskOptions { priority: i32::try_from(one % 7).unwrap(), ..none }),
        ("context", &|_| TaskOptions { context: MODEL, ..none }),
        ("priority and context", &|_| TaskOptions { context: MODEL, priority: 5, ..none }),
        ("memory", &|_| with(memory)),
        ("cores", &|_| with(cores)),
    ];
    for (kind, options) in kinds {
        for round_trip_ns in [100_000, 5_000_000] {
            let messages = |count| messages_to_cancel(count, options, round_trip_ns);
            let (few, many) = (messages(300), messages(2_400));
            assert!(few.0 <= 40 && many.0 <= 60, "{kind}: {} messages, then {}", few.0, many.0);
            assert!(few.1 && many.1, "{kind}: nothing more is cancelled");
        }
    }
}

#[test]
fn what_is_more_urgent_than_what_is_cancelled_goes_to_the_peer_at_once() {
    let mut engine = client_of(&[1]);
    let with = |priority| TaskOptions { priority, ..TaskOptions::default() };
    let _busy = [(); 4].map(|()| engine.submit());
    let cancelled = engine.submit_with(with(5));
    let _asked = cancel(&mut engine, cancelled, CancelMode::Unstarted);
    let _outcome = engine.reply(cancelled, PeerEnd::Unstarted);
    let like_it = engine.submit_with(with(5));
    assert_eq!(engine.peer_of(like_it), None, "it may be cancelled next");
    let urgent = engine.submit_with(with(6));
    assert_eq!(engine.peer_of(urgent), Some(0));
}
