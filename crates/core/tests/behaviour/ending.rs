//! Ends of tasks, and their effects on other tasks.

use gristmill_core::{
    AnswerOutcome, Block, Budgets, Config, Origin, Payload, Status, Submission, SubmitError,
    TaskOptions, TaskOutcome,
};
use gristmill_wire::FunctionId;
use gristmill_wire::Verdict::{Expired, Interrupted, Raised, Returned, Skipped};

use crate::fake::{Engine, engine, engine_with};

#[test]
fn a_result_is_kept_until_it_is_released() {
    let mut engine = engine(1);
    let task = engine.submit();
    assert_eq!(engine.answer(task, Returned), AnswerOutcome::Finished(Status::Succeeded));
    let value = Payload::copy_from(b"x");
    assert_eq!(engine.core.task(task).unwrap().outcome, Some(TaskOutcome::Returned(&value)));
    engine.core.release(task);
    assert!(engine.core.task(task).is_none());
    assert_eq!(engine.core.record_count(), 0);
}

#[test]
fn how_long_a_task_ran_is_kept_with_timings_and_without() {
    let mut engine = engine(1);
    let task = engine.submit();
    let record = engine.record(task);
    let _outcome = engine.answer_record(&record, Returned, 700);
    assert_eq!(engine.core.task(task).unwrap().timings.ran.ticks(), 700);
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
    assert_eq!(
        engine.core.task(last).unwrap().outcome,
        Some(TaskOutcome::DependencyFailed { root })
    );
    engine.core.release(root);
    assert!(engine.core.task(root).is_some(), "the cause stays as long as its effect");
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
    assert_eq!(engine.core.task(task).unwrap().outcome, Some(TaskOutcome::Raised(&reason)));
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
        assert_eq!(outcome, Some(TaskOutcome::TimedOut { started: false, raised: None }));
    }
    assert_eq!(engine.status(first), None);
}

#[test]
fn a_worker_that_finds_the_deadline_passed_says_so() {
    let mut engine = engine(1);
    let options = TaskOptions { deadline_ns: Some(500_000), ..TaskOptions::default() };
    let task = engine.submit_with(options);
    assert_eq!(engine.answer(task, Expired), AnswerOutcome::Finished(Status::TimedOut));
    assert_eq!(engine.core.task(task).unwrap().timings.started_ticks, 0, "it has not run");
}

#[test]
fn a_timeout_counts_from_the_start_and_interrupts() {
    let mut engine = engine(1);
    let options = TaskOptions { timeout_ns: Some(1_000_000), ..TaskOptions::default() };
    let task = engine.submit_with(options);
    assert_eq!(engine.record(task).timeout_ns, 1_000_000, "its worker knows");
    engine.pass(5_000_000);
    assert!(engine.port.interrupted.is_empty(), "it has not started");
    engine.start(task);
    engine.pass(900_000);
    assert!(engine.port.interrupted.is_empty());
    engine.pass(200_000);
    assert_eq!(engine.port.interrupted, [(0, 0)]);
    assert_eq!(engine.answer(task, Interrupted), AnswerOutcome::Finished(Status::TimedOut));
    let outcome = engine.core.task(task).unwrap().outcome;
    assert!(matches!(outcome, Some(TaskOutcome::TimedOut { started: true, raised: Some(_) })));
}

#[test]
fn a_value_counts_if_its_task_sent_it_before_the_timeout_stopped_that() {
    for (ran_ns, expected, ended) in
        [(400, Status::Succeeded, vec![]), (600, Status::TimedOut, vec![0])]
    {
        let mut engine = engine(1);
        let options = TaskOptions { timeout_ns: Some(1_000_000), ..TaskOptions::default() };
        let task = engine.submit_with(options);
        engine.start(task);
        engine.port.ticks = 500;
        engine.pass(1_100_000);
        assert_eq!(engine.port.interrupted, [(0, 0)]);
        engine.port.ticks = 1_000;
        let outcome = engine.answer_in(task, Returned, ran_ns);
        assert_eq!(outcome, AnswerOutcome::Finished(expected));
        assert_eq!(engine.port.ended_runs, ended, "the task that it started");
    }
}

#[test]
fn a_value_that_came_too_late_is_charged_to_the_budget_for_timeouts() {
    let budgets = Some(Budgets { timeout_retries: 1, ..Budgets::default() });
    let timeout_ns = Some(1_000_000);
    let mut engine = engine(1);
    let task = engine.submit_with(TaskOptions { timeout_ns, budgets, ..TaskOptions::default() });
    for expected in [AnswerOutcome::Requeued, AnswerOutcome::Finished(Status::TimedOut)] {
        engine.start(task);
        engine.pass(1_100_000);
        assert_eq!(engine.answer(task, Returned), expected);
    }
    let outcome = engine.core.task(task).unwrap().outcome;
    assert!(matches!(outcome, Some(TaskOutcome::TimedOut { started: true, raised: None })));
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
fn while_arguments_fill_their_share_external_submitters_are_told_and_others_go_on() {
    let config = Config { arguments_max: 100, spare_max: 0, ..Config::default() };
    let mut engine = engine_with(config);
    let submit = |engine: &mut Engine, size: usize, origin| {
        let submission = Submission {
            function: FunctionId(0),
            payload: Payload::from(vec![0; size]),
            handle: 0,
            submitted_ticks: 0,
            parents: &[],
            options: None,
            origin,
        };
        engine.core.submit(submission, engine.now, &mut engine.port)
    };
    let first = submit(&mut engine, 500, Origin::External)
        .expect("a task alone may be as large as it likes");
    let refused = SubmitError::BytesReached { bytes: 500, limit: 100 };
    assert!(refused.is_retryable());
    assert_eq!(submit(&mut engine, 1, Origin::External), Err(refused));
    assert!(submit(&mut engine, 60, Origin::Unblockable).is_ok(), "a task cannot wait for room");
    let _outcome = engine.answer(first, Returned);
    assert!(submit(&mut engine, 1, Origin::External).is_ok());
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
    let behind = engine.submit_after(&[queued, blocked]);
    engine.start(running);
    engine.core.shut_down(true, engine.now, &mut engine.port);
    for task in [queued, blocked, behind] {
        assert_eq!(engine.status(task), Some(Status::Cancelled));
    }
    let _outcome = engine.answer(running, Returned);
    assert_eq!(engine.status(running), Some(Status::Succeeded));
}

#[test]
fn a_poisoned_engine_ends_everything_with_the_reason() {
    let mut engine = engine(1);
    let (sent, queued) = (engine.submit(), engine.submit());
    engine.core.poison("a panic", engine.now, &mut engine.port);
    for task in [sent, queued] {
        assert_eq!(engine.core.task(task).unwrap().outcome, Some(TaskOutcome::Poisoned("a panic")));
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

#[test]
fn more_parents_than_a_frame_counts_are_refused_with_their_number_and_the_bound() {
    let mut engine = engine(1);
    let parent = engine.submit();
    let mut parents = vec![parent; (1 << 24) - 1];
    assert!(engine.submit_as(&parents[..70_000], None, Origin::External).is_ok());
    parents.push(parent);
    let refused = engine.submit_as(&parents, None, Origin::External).unwrap_err();
    assert_eq!(refused, SubmitError::TooManyParents { count: 16_777_216, limit: 16_777_215 });
    let text = refused.to_string();
    assert!(text.contains("16777216") && text.contains("16777215"), "{text}");
    assert_eq!(engine.core.stats().blocked, 1, "nothing was accepted");
}
