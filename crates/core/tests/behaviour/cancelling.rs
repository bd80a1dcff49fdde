//! What a cancel does.

use gristmill_core::{AnswerOutcome, CancelMode, CancelOutcome, Status, TaskId};
use gristmill_wire::Verdict::{Interrupted, Returned, Skipped};

use crate::fake::{Engine, engine};

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
fn a_task_that_ends_before_it_is_stopped_has_its_real_result() {
    let mut engine = engine(1);
    let task = engine.submit();
    engine.start(task);
    let _outcome = cancel(&mut engine, task, RUNNING);
    assert_eq!(engine.answer(task, Returned), AnswerOutcome::Finished(Status::Succeeded));
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
