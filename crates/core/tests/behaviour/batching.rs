//! Several calls in one record: each call is counted, taken and lost by itself.

use gristmill_core::{CallProgress, CancelMode, CancelOutcome, Config, Status};
use gristmill_wire::Verdict::{Returned, Skipped};

use crate::fake::{Engine, engine, engine_with};

/// Marks `started` calls of a batch as begun by its worker, and `done` of them as answered.
fn run(engine: &mut Engine, batch: gristmill_core::TaskId, started: u32, done: u32) {
    engine.start(batch);
    let record = engine.record(batch);
    let calls = Some(CallProgress { sequence: record.sequence, started });
    engine.port.progress[usize::from(record.slot)].calls = calls;
    engine.port.results.insert(batch, done);
}

#[test]
fn only_short_functions_that_are_known_are_batched() {
    let mut one = engine(1);
    let function = gristmill_core::FunctionId(0);
    assert_eq!(one.core.batch_size(function), 1, "it was never seen");
    one.teach(1_000);
    assert_eq!(one.core.batch_size(function), 20);
    one.teach(1_000_000);
    assert_eq!(one.core.batch_size(function), 1, "a long run was seen");
    let mut limited = engine_with(Config { tasks_per_worker_max: 9, ..Config::default() });
    limited.teach(1_000);
    assert_eq!(limited.core.batch_size(function), 1, "its tasks are counted one by one");
}

#[test]
fn its_calls_are_counted_and_its_cost_is_theirs() {
    let mut engine = engine(1);
    engine.teach(1_000);
    let before = engine.core.stats();
    let batch = engine.submit_batch(8);
    let stats = engine.core.stats();
    assert_eq!((stats.submitted - before.submitted, stats.outstanding), (8, 8));
    assert!(stats.slots[0].backlog_ns > 7_900);
    run(&mut engine, batch, 8, 8);
    let _outcome = engine.answer(batch, Returned);
    let stats = engine.core.stats();
    assert_eq!((stats.ended(Status::Succeeded), stats.outstanding), (9, 0));
    assert_eq!(
        engine.core.batch_size(gristmill_core::FunctionId(0)),
        22,
        "a call took 125 ns of 1 us"
    );
}

#[test]
fn an_idle_worker_takes_what_waits_behind_a_long_call() {
    let mut engine = engine(2);
    engine.teach(100);
    let batch = engine.submit_batch(5);
    let slot = engine.record(batch).slot;
    run(&mut engine, batch, 2, 1);
    engine.port.claimed_calls = Some(2);
    engine.pass(1_000_000);
    let rest = engine.port.splits[0].clone();
    assert_eq!(rest.len(), 3, "two calls are the batch's own");
    assert!(rest.iter().all(|&single| engine.record(single).slot != slot));
    engine.port.results.insert(batch, 2);
    let _outcome = engine.answer(batch, Returned);
    assert_eq!(engine.status(batch), Some(Status::Succeeded));
}

#[test]
fn a_death_costs_the_call_that_ran() {
    let mut engine = engine(1);
    engine.teach(100);
    let batch = engine.submit_batch(5);
    run(&mut engine, batch, 3, 2);
    engine.lose(0);
    assert_eq!(engine.status(batch), Some(Status::Lost));
    let stats = engine.core.stats();
    assert_eq!((stats.ended(Status::Succeeded), stats.ended(Status::Lost)), (3, 1));
    assert_eq!(stats.outstanding, 2);
    engine.up(0);
    let order: Vec<_> = engine.port.sent.iter().map(|one| one.task).collect();
    assert_eq!(order, engine.port.splits[0], "the rest is placed again, in order");
}

#[test]
fn a_death_between_two_calls_costs_none() {
    let mut engine = engine(1);
    engine.teach(100);
    let batch = engine.submit_batch(4);
    run(&mut engine, batch, 2, 2);
    engine.lose(0);
    assert_eq!(engine.status(batch), Some(Status::Succeeded));
    assert_eq!(engine.core.stats().outstanding, 2);
    let other = engine.submit_batch(3);
    engine.up(0);
    engine.start(other);
    engine.lose(0);
    assert_eq!(engine.status(other), None, "claimed, and no call had begun");
}

#[test]
fn cancelling_spares_what_runs_and_takes_what_does_not() {
    let mut engine = engine(1);
    engine.teach(100);
    let batch = engine.submit_batch(5);
    run(&mut engine, batch, 2, 1);
    engine.port.claimed_calls = Some(2);
    let outcome = engine.core.cancel(batch, CancelMode::Unstarted, engine.now, &mut engine.port);
    assert_eq!(outcome, CancelOutcome::AlreadyRunning);
    assert_eq!(engine.core.stats().ended(Status::Cancelled), 3);
    engine.port.results.insert(batch, 2);
    let _outcome = engine.answer(batch, Returned);
    assert_eq!(engine.status(batch), Some(Status::Succeeded));
    let waiting = engine.submit_batch(5);
    let outcome = engine.core.cancel(waiting, CancelMode::Unstarted, engine.now, &mut engine.port);
    assert_eq!(outcome, CancelOutcome::Cancelled);
}

#[test]
fn a_batch_that_was_skipped_comes_back_whole() {
    let mut engine = engine(1);
    engine.teach(100);
    let batch = engine.submit_batch(5);
    let _outcome = engine.answer(batch, Skipped);
    assert_eq!(engine.port.calls_sent, [5, 5]);
    assert_eq!(engine.status(batch), None);
}

#[test]
fn a_batch_that_was_stopped_stays_so_when_one_before_it_is_cancelled() {
    let mut engine = engine(1);
    engine.teach(100);
    let (first, second) = (engine.submit_batch(2), engine.submit_batch(2));
    run(&mut engine, first, 2, 2);
    run(&mut engine, second, 1, 0);
    engine.port.claimed_calls = Some(1);
    let stopped = engine.record(second).sequence;
    for batch in [second, first] {
        let _requested = engine.core.cancel(
            batch,
            CancelMode::Running { grace_ns: None },
            engine.now,
            &mut engine.port,
        );
    }
    assert_eq!(
        engine.core.stats().ended(Status::Cancelled),
        1,
        "of the second, what had not begun"
    );
    assert_eq!(engine.port.stops, [stopped], "one word says which; the first has ended");
}
