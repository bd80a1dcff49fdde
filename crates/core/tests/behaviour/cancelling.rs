//! Effects of a cancel.

use gristmill_core::{
    AnswerOutcome, Budgets, CancelMode, CancelOutcome, Payload, PeerEnd, Status, TaskId,
    TaskOptions,
};
use gristmill_wire::Verdict::{Interrupted, Raised, Returned, Skipped};

use crate::fake::{Engine, engine};
use crate::faraway::client_of;

const RUNNING: CancelMode = CancelMode::Running { grace_ns: Some(1_000_000) };

fn cancel(engine: &mut Engine, task: TaskId, mode: CancelMode) -> CancelOutcome {
    engine.core.cancel(task, mode, engine.now, &mut engine.port)
}

#[test]
fn a_task_that_has_not_started_is_cancelled_at_once_wherever_it_is() {
    let mut engine = engine(1);
    let (running, in_ring, queued) = (engine.submit(), engine.submit(), engine.submit());
    let blocked = engine.submit_after(&[running]);
    engine.start(running);
    for task in [in_ring, queued, blocked] {
        assert_eq!(cancel(&mut engine, task, CancelMode::Unstarted), CancelOutcome::Cancelled);
        assert_eq!(engine.status(task), Some(Status::Cancelled));
    }
    assert_eq!(cancel(&mut engine, queued, CancelMode::Unstarted), CancelOutcome::AlreadyFinal);
}

#[test]
fn dependants_of_a_cancelled_task_do_not_run() {
    let mut engine = engine(1);
    let task = engine.submit();
    let child = engine.submit_after(&[task]);
    let _outcome = cancel(&mut engine, task, CancelMode::Unstarted);
    assert_eq!(engine.status(child), Some(Status::DependencyFailed));
}

#[test]
fn a_running_task_is_left_alone_unless_asked_for() {
    let mut engine = engine(1);
    let task = engine.submit();
    engine.start(task);
    assert_eq!(cancel(&mut engine, task, CancelMode::Unstarted), CancelOutcome::AlreadyRunning);
    assert!(engine.port.interrupted.is_empty());
    let _outcome = engine.answer(task, Returned);
    assert_eq!(engine.status(task), Some(Status::Succeeded));
}

#[test]
fn a_running_task_is_interrupted_then_killed() {
    let mut engine = engine(1);
    let task = engine.submit();
    engine.start(task);
    assert_eq!(cancel(&mut engine, task, RUNNING), CancelOutcome::Requested);
    assert_eq!(engine.port.interrupted, [(0, 0)]);
    engine.pass(2_000_000);
    assert_eq!(engine.port.killed, [0]);
    engine.lose(0);
    assert_eq!(engine.status(task), Some(Status::Cancelled));
}

#[test]
fn a_running_task_without_grace_is_killed_and_not_interrupted() {
    let mut engine = engine(1);
    let task = engine.submit();
    engine.start(task);
    let mode = CancelMode::Running { grace_ns: Some(0) };
    assert_eq!(cancel(&mut engine, task, mode), CancelOutcome::Requested);
    engine.pass(0);
    assert!(engine.port.interrupted.is_empty(), "it might end in time, and spare its worker");
    assert_eq!(engine.port.killed, [0]);
    engine.lose(0);
    assert_eq!(engine.status(task), Some(Status::Cancelled));
}

#[test]
fn an_interrupted_task_is_cancelled_and_its_worker_lives() {
    let mut engine = engine(1);
    let task = engine.submit();
    engine.start(task);
    let _outcome = cancel(&mut engine, task, RUNNING);
    assert_eq!(engine.answer(task, Interrupted), AnswerOutcome::Finished(Status::Cancelled));
    engine.pass(10_000_000);
    assert!(engine.port.killed.is_empty());
}

#[test]
fn a_task_that_ends_before_it_is_stopped_is_cancelled_all_the_same() {
    let mut engine = engine(1);
    let task = engine.submit();
    engine.start(task);
    let _outcome = cancel(&mut engine, task, RUNNING);
    assert_eq!(engine.answer(task, Returned), AnswerOutcome::Finished(Status::Cancelled));
    let mut there = client_of(&[1]);
    let task = there.submit();
    assert_eq!(cancel(&mut there, task, RUNNING), CancelOutcome::Requested);
    let returned = PeerEnd::Returned(Payload::EMPTY);
    assert_eq!(there.reply(task, returned), AnswerOutcome::Finished(Status::Cancelled));
}

#[test]
fn a_record_whose_claim_is_undecided_ends_as_the_worker_says() {
    for (mode, expected) in [(RUNNING, Some(Status::Cancelled)), (CancelMode::Unstarted, None)] {
        let mut engine = engine(1);
        let task = engine.submit();
        engine.port.progress[0].claimed = 1;
        let _outcome = cancel(&mut engine, task, mode);
        let _outcome = engine.answer(task, Skipped);
        assert_eq!(engine.status(task), expected, "{mode:?}");
    }
}

#[test]
fn a_task_that_raises_when_it_must_be_stopped_is_not_repeated() {
    let budgets = Some(Budgets { retries: 3, ..Budgets::default() });
    let options = TaskOptions { budgets, ..TaskOptions::default() };
    let mut here = engine(1);
    let task = here.submit_with(options);
    here.start(task);
    assert_eq!(cancel(&mut here, task, RUNNING), CancelOutcome::Requested);
    assert_eq!(here.answer(task, Raised), AnswerOutcome::Finished(Status::Cancelled));
    let mut there = client_of(&[1]);
    let task = there.submit_with(options);
    assert_eq!(cancel(&mut there, task, RUNNING), CancelOutcome::Requested);
    let raised = PeerEnd::Raised(Payload::EMPTY);
    assert_eq!(there.reply(task, raised), AnswerOutcome::Finished(Status::Cancelled));
}

#[test]
fn a_second_cancel_does_not_prolong_the_grace() {
    let mut engine = engine(1);
    let batch = engine.submit_batch(3);
    engine.start(batch);
    for _ in 0..2 {
        assert_eq!(cancel(&mut engine, batch, RUNNING), CancelOutcome::Requested);
        engine.pass(600_000);
    }
    assert_eq!(engine.port.killed, [0], "a millisecond after the first time");
}
