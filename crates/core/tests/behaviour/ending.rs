//! How tasks end, and what that does to others.

use gristmill_core::{
    AnswerOutcome, Block, Budgets, Config, Origin, Outcome, Payload, Status, Submission,
    SubmitError, TaskOptions,
};
use gristmill_wire::Verdict::{Expired, Interrupted, Raised, Returned, Skipped};

use crate::fake::{engine, engine_with};

#[test]
fn a_result_is_kept_until_it_is_released() {
    let mut engine = engine(1);
    let task = engine.submit();
    assert_eq!(engine.answer(task, Returned), AnswerOutcome::Finished(Status::Succeeded));
    let value = Payload::copy_from(b"x");
    assert_eq!(engine.core.task(task).unwrap().outcome, Some(Outcome::Returned(&value)));
    engine.core.release(task);
    assert!(engine.core.task(task).is_none());
    assert_eq!(engine.core.record_count(), 0);
}

#[test]
fn how_long_a_task_ran_is_kept_with_tags_and_without() {
    let mut engine = engine(1);
    let task = engine.submit();
    let record = engine.record(task);
    let _outcome = engine.answer_record(&record, Returned, 700);
    assert_eq!(engine.core.task(task).unwrap().tags.ran.ticks(), 700);
}

#[test]
fn the_id_of_a_released_task_does_not_name_its_successor() {
    let mut engine = engine(1);
    let old = engine.submit();
    let _outcome = engine.answer(old, Returned);
    engine.core.release(old);
    let new = engine.submit();
    assert_eq!(new.index(), old.index());
    assert!(engine.core.task(old).is_none() && engine.core.task(new).is_some());
}

#[test]
fn an_answer_of_an_earlier_placement_changes_nothing() {
    let mut engine = engine(1);
    let task = engine.submit();
    let record = engine.record(task);
    assert_eq!(engine.answer(task, Skipped), AnswerOutcome::Requeued);
    assert_eq!(engine.answer_record(&record, Returned, 1), AnswerOutcome::Stale);
    assert_eq!((engine.status(task), engine.core.stats().stale_answers), (None, 1));
}

#[test]
fn a_dependant_starts_after_its_parents_with_their_results() {
    let mut engine = engine(1);
    let (left, right) = (engine.submit(), engine.submit());
    let child = engine.submit_after(&[right, left, right]);
    engine.core.release(left);
    engine.core.release(right);
    let _outcome = engine.answer(left, Returned);
    assert!(!engine.is_sent(child));
    let _outcome = engine.answer(right, Returned);
    assert_eq!(engine.record(child).parents, [right, left, right]);
    let _outcome = engine.answer(child, Returned);
    assert_eq!(engine.core.record_count(), 1, "released parents go with their last dependant");
}

#[test]
fn a_chain_of_a_million_fails_and_goes_without_recursion() {
    let mut engine = engine(1);
    let root = engine.submit();
    let mut last = root;
    for _ in 0..1_000_000 {
        let next = engine.submit_after(&[last]);
        if last != root {
            engine.core.release(last);
        }
        last = next;
    }
    let _outcome = engine.answer(root, Raised);
    assert_eq!(engine.core.task(last).unwrap().outcome, Some(Outcome::DependencyFailed { root }));
    engine.core.release(root);
    assert!(engine.core.task(root).is_some(), "the cause stays as long as what it caused");
    engine.core.release(last);
    assert_eq!(engine.core.record_count(), 0);
}

#[test]
fn a_dependant_of_a_failed_task_fails_at_once() {
    let mut engine = engine(1);
    let root = engine.submit();
    let _outcome = engine.answer(root, Raised);
    let child = engine.submit_after(&[root]);
    assert_eq!(engine.status(child), Some(Status::DependencyFailed));
}

#[test]
fn retries_are_for_exceptions_only_and_run_out() {
    let mut engine = engine(1);
    let budgets = Some(Budgets { retries: 1, ..Budgets::default() });
    let task = engine.submit_with(TaskOptions { budgets, ..TaskOptions::default() });
    assert_eq!(engine.answer(task, Raised), AnswerOutcome::Requeued);
    assert_eq!(engine.record(task).attempt.0, 1);
    assert_eq!(engine.answer(task, Raised), AnswerOutcome::Finished(Status::Failed));
    assert_eq!(engine.core.stats().retries, 1);
}

#[test]
fn a_task_that_can_never_be_sent_fails_with_the_reason() {
    let mut engine = engine(1);
    engine.port.refuses = true;
    let task = engine.submit();
    let reason = Payload::copy_from(b"too large");
    assert_eq!(engine.core.task(task).unwrap().outcome, Some(Outcome::Raised(&reason)));
}

#[test]
fn a_deadline_that_passes_ends_a_task_that_has_not_started() {
    let mut engine = engine(1);
    let options = TaskOptions { deadline_ns: Some(500_000), ..TaskOptions::default() };
    let first = engine.submit();
    engine.start(first);
    let (sent, queued) = (engine.submit_with(options), engine.submit_with(options));
    engine.pass(600_000);
    for task in [sent, queued] {
        let outcome = engine.core.task(task).unwrap().outcome;
        assert_eq!(outcome, Some(Outcome::TimedOut { started: false, raised: None }));
    }
    assert_eq!(engine.status(first), None);
}

#[test]
fn a_worker_that_finds_the_deadline_passed_says_so() {
    let mut engine = engine(1);
    let options = TaskOptions { deadline_ns: Some(500_000), ..TaskOptions::default() };
    let task = engine.submit_with(options);
    assert_eq!(engine.answer(task, Expired), AnswerOutcome::Finished(Status::TimedOut));
    assert_eq!(engine.core.task(task).unwrap().tags.started_ticks, 0, "it has not run");
}

#[test]
fn a_timeout_counts_from_the_start_and_interrupts() {
    let mut engine = engine(1);
    let options = TaskOptions { timeout_ns: Some(1_000_000), ..TaskOptions::default() };
    let task = engine.submit_with(options);
    engine.pass(5_000_000);
    assert!(engine.port.interrupted.is_empty(), "it has not started");
    engine.start(task);
    engine.pass(900_000);
    assert!(engine.port.interrupted.is_empty());
    engine.pass(200_000);
    assert_eq!(engine.port.interrupted, [(0, 0)]);
    assert_eq!(engine.answer(task, Interrupted), AnswerOutcome::Finished(Status::TimedOut));
    let outcome = engine.core.task(task).unwrap().outcome;
    assert!(matches!(outcome, Some(Outcome::TimedOut { started: true, raised: Some(_) })));
}

#[test]
fn at_the_limit_external_submitters_are_told_and_others_overflow() {
    let config = Config { outstanding_max: 2, overflow_max: 1, ..Config::default() };
    let mut engine = engine_with(Config { spare_max: 0, ..config });
    let first = engine.submit();
    engine.submit();
    let refused = SubmitError::LimitReached { outstanding: 2, limit: 2 };
    assert_eq!(engine.submit_as(&[], None, Origin::External), Err(refused));
    assert!(engine.submit_as(&[], None, Origin::Unblockable).is_ok());
    assert_eq!(engine.core.stats().overflow, 1);
    let refused = SubmitError::LimitReached { outstanding: 3, limit: 3 };
    assert_eq!(engine.submit_as(&[], None, Origin::Unblockable), Err(refused));
    let _outcome = engine.answer(first, Returned);
    assert_eq!(engine.core.stats().overflow, 0);
}

#[test]
fn a_shut_down_lets_what_is_there_run_and_then_lets_the_workers_go() {
    let mut engine = engine(1);
    let task = engine.submit();
    engine.core.shut_down(false, engine.now, &mut engine.port);
    assert_eq!(engine.submit_as(&[], None, Origin::External), Err(SubmitError::ShutDown));
    assert!(engine.port.retired.is_empty());
    let _outcome = engine.answer(task, Returned);
    assert_eq!(engine.port.retired, [0]);
    engine.lose(0);
    assert!(engine.core.is_drained() && engine.core.is_empty());
}

#[test]
fn a_shut_down_that_cancels_keeps_what_had_started() {
    let mut engine = engine(1);
    let (running, queued) = (engine.submit(), engine.submit());
    let blocked = engine.submit_after(&[running]);
    engine.start(running);
    engine.core.shut_down(true, engine.now, &mut engine.port);
    assert_eq!(engine.status(queued), Some(Status::Cancelled));
    assert_eq!(engine.status(blocked), Some(Status::Cancelled));
    let _outcome = engine.answer(running, Returned);
    assert_eq!(engine.status(running), Some(Status::Succeeded));
}

#[test]
fn a_poisoned_engine_ends_everything_with_the_reason() {
    let mut engine = engine(1);
    let (sent, queued) = (engine.submit(), engine.submit());
    engine.core.poison("a panic", engine.now, &mut engine.port);
    for task in [sent, queued] {
        assert_eq!(engine.core.task(task).unwrap().outcome, Some(Outcome::Poisoned("a panic")));
    }
    let refused = SubmitError::Poisoned("a panic".into());
    assert_eq!(engine.submit_as(&[], None, Origin::External), Err(refused));
}

#[test]
fn the_arena_blocks_of_dropped_payloads_come_back() {
    let mut engine = engine(1);
    let block = Block { offset: 4096, size: 10 };
    let submission = Submission {
        function: gristmill_core::FunctionId(0),
        payload: Payload::in_arena(block),
        handle: 0,
        submitted_ticks: 0,
        parents: &[],
        options: None,
        origin: Origin::External,
    };
    let task = engine.core.submit(submission, engine.now, &mut engine.port).unwrap();
    assert!(engine.core.freed_blocks().is_empty(), "another attempt may need the arguments");
    let _outcome = engine.answer(task, Returned);
    assert_eq!(*engine.core.freed_blocks(), [block]);
}
