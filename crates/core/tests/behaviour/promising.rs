//! Tasks that wait for promised values.

use gristmill_core::{CancelMode, CancelOutcome, Payload, Status, TaskOutcome};
use gristmill_wire::Verdict::Returned;

use crate::fake::engine;

#[test]
fn tasks_wait_for_a_promise_as_for_a_parent() {
    let mut engine = engine(1);
    let promise = engine.core.promise();
    assert!(!engine.core.is_awaited(promise));
    let (first, second) = (engine.submit_after(&[promise]), engine.submit_after(&[promise]));
    let behind = engine.submit_after(&[first]);
    assert!(engine.core.is_awaited(promise) && !engine.is_sent(first));
    assert_eq!(engine.core.stats().outstanding, 3, "a promise is no task");
    engine.core.keep_promise(promise, engine.now, &mut engine.port);
    for task in [first, second, behind] {
        let _outcome = engine.answer(task, Returned);
        assert_eq!(engine.status(task), Some(Status::Succeeded));
    }
    engine.core.audit();
    assert_eq!(engine.core.record_count(), 3, "the promise is gone");
}

#[test]
fn a_promise_is_one_among_other_parents() {
    let mut engine = engine(1);
    let (parent, promise) = (engine.submit(), engine.core.promise());
    let task = engine.submit_after(&[parent, promise]);
    let _outcome = engine.answer(parent, Returned);
    assert!(!engine.is_sent(task));
    engine.core.audit();
    engine.core.keep_promise(promise, engine.now, &mut engine.port);
    assert!(engine.is_sent(task));
}

#[test]
fn who_waits_for_a_broken_promise_fails_and_who_waits_for_those_does_not_run() {
    let mut engine = engine(1);
    let promise = engine.core.promise();
    let (first, second) = (engine.submit_after(&[promise]), engine.submit_after(&[promise]));
    let behind = engine.submit_after(&[first]);
    engine.core.break_promise(promise, Some(b"why"), engine.now, &mut engine.port);
    let why = Payload::copy_from(b"why");
    for task in [first, second] {
        assert_eq!(engine.core.task(task).unwrap().outcome, Some(TaskOutcome::Raised(&why)));
    }
    assert_eq!(engine.status(behind), Some(Status::DependencyFailed));
    engine.core.audit();
    assert_eq!(engine.core.record_count(), 3, "the promise is gone");
}

#[test]
fn a_waiting_task_can_be_cancelled_and_its_promise_kept_without_dependants() {
    let mut engine = engine(1);
    let promise = engine.core.promise();
    let task = engine.submit_after(&[promise]);
    let outcome = engine.core.cancel(task, CancelMode::Unstarted, engine.now, &mut engine.port);
    assert_eq!(outcome, CancelOutcome::Cancelled);
    assert!(!engine.core.is_awaited(promise));
    engine.core.audit();
    engine.core.keep_promise(promise, engine.now, &mut engine.port);
    engine.core.keep_promise(promise, engine.now, &mut engine.port);
    assert_eq!(engine.core.record_count(), 1, "the promise is gone");
}

#[test]
fn an_engine_that_breaks_down_gives_up_who_waits() {
    let mut engine = engine(1);
    let promise = engine.core.promise();
    let task = engine.submit_after(&[promise]);
    engine.core.poison("broken", engine.now, &mut engine.port);
    assert_eq!(engine.status(task), Some(Status::Refused));
    engine.core.audit();
    engine.core.break_promise(promise, Some(b"why"), engine.now, &mut engine.port);
    assert_eq!(engine.core.record_count(), 1);
}
