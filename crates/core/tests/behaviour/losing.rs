//! Costs of a worker's death.

use gristmill_core::{
    Budgets, Config, Epoch, Loss, LossCause, SlotId, StartFailure, Status, SubmitError,
    TaskOptions, TaskOutcome,
};
use gristmill_wire::Verdict::Returned;

use crate::fake::{Engine, engine, starting};

fn with_losses(loss_retries: u16) -> TaskOptions {
    let budgets = Some(Budgets { loss_retries, ..Budgets::default() });
    TaskOptions { budgets, ..TaskOptions::default() }
}

#[test]
fn only_what_had_started_is_lost_and_it_says_how() {
    let mut engine = engine(1);
    engine.teach(100);
    let tasks: Vec<_> = (0..3).map(|_| engine.submit()).collect();
    engine.start(tasks[0]);
    engine.lose(0);
    let Some(TaskOutcome::Lost(report)) = engine.core.task(tasks[0]).unwrap().outcome else {
        panic!("it had started");
    };
    assert_eq!((report.slot, report.pid, &*report.detail), (SlotId(0), 7, "last words"));
    engine.up(0);
    let order: Vec<_> = engine.port.sent.iter().map(|one| one.task).collect();
    assert_eq!(order, tasks[1..], "placed again, in order");
}

#[test]
fn an_answer_that_arrived_counts_although_its_worker_died() {
    let mut engine = engine(1);
    let (first, second) = (engine.submit(), engine.submit());
    let _outcome = engine.answer(first, Returned);
    engine.start(second);
    engine.lose(0);
    assert_eq!(engine.status(first), Some(Status::Succeeded));
    assert_eq!(engine.status(second), Some(Status::Lost));
}

#[test]
fn what_comes_back_goes_in_front_of_what_waits() {
    let mut engine = engine(1);
    let (sent, _also, queued) = (engine.submit(), engine.submit(), engine.submit());
    engine.lose(0);
    engine.pass(1_000_000_000);
    engine.port.room = Some(1);
    engine.up(0);
    assert!(engine.is_sent(sent) && !engine.is_sent(queued));
}

#[test]
fn a_loss_budget_runs_a_started_task_again() {
    let mut engine = engine(1);
    let task = engine.submit_with(with_losses(1));
    for expected in [None, Some(Status::Lost)] {
        engine.start(task);
        engine.lose(0);
        assert_eq!(engine.status(task), expected);
        engine.up(0);
    }
}

#[test]
fn a_repetition_that_had_not_started_costs_no_budget() {
    let mut engine = engine(1);
    let task = engine.submit_with(with_losses(1));
    engine.start(task);
    for pause_ns in [0, 1_000_000_000] {
        engine.lose(0);
        assert_eq!(engine.status(task), None, "it had not started again");
        engine.pass(pause_ns);
        engine.up(0);
    }
    let _outcome = engine.answer(task, Returned);
    assert_eq!(engine.status(task), Some(Status::Succeeded));
}

#[test]
fn a_task_that_killed_three_workers_is_lost_whatever_its_budget() {
    let mut engine = engine(1);
    let task = engine.submit_with(with_losses(100));
    for kills in 1..=3 {
        assert_eq!(engine.status(task), None, "after {} kills", kills - 1);
        engine.start(task);
        engine.lose(0);
        engine.up(0);
    }
    assert_eq!(engine.status(task), Some(Status::Lost));
}

#[test]
fn a_timeout_that_is_ignored_kills_the_worker_and_harms_no_other_task() {
    let mut engine = engine(1);
    let options = TaskOptions {
        timeout_ns: Some(1_000_000),
        grace_ns: Some(1_000_000),
        ..TaskOptions::default()
    };
    let (task, behind) = (engine.submit_with(options), engine.submit());
    engine.start(task);
    engine.pass(1_900_000);
    assert!(engine.port.killed.is_empty());
    engine.pass(200_000);
    assert_eq!(engine.port.killed, [0]);
    assert!(!engine.is_sent(behind), "taken back before the kill");
    engine.lose(0);
    assert_eq!(engine.status(task), Some(Status::TimedOut));
    engine.up(0);
    assert!(engine.is_sent(behind));
}

#[test]
fn no_worker_is_killed_when_the_worker_went_on() {
    let mut engine = engine(1);
    let options = TaskOptions {
        timeout_ns: Some(1_000_000),
        grace_ns: Some(1_000_000),
        ..TaskOptions::default()
    };
    let (task, behind) = (engine.submit_with(options), engine.submit());
    engine.start(task);
    engine.pass(1_000_000);
    engine.port.progress[0].ended = 1;
    engine.start(behind);
    engine.pass(10_000_000);
    let killed_before = engine.port.killed.len();
    let _outcome = engine.answer(task, Returned);
    assert_eq!((engine.status(task), engine.status(behind)), (Some(Status::TimedOut), None));
    assert_eq!(killed_before, 0);
}

#[test]
fn workers_that_die_without_having_run_anything_are_replaced_more_and_more_slowly() {
    let mut engine = engine(1);
    engine.lose(0);
    assert_eq!(engine.port.spawned.len(), 1, "not at once");
    let first = engine.core.next_wake(engine.now).expect("it will be tried") - engine.now;
    engine.pass(first);
    engine.up(0);
    engine.lose(0);
    let second = engine.core.next_wake(engine.now).expect("it will be tried") - engine.now;
    assert!(second > first);
}

#[test]
fn the_death_of_the_keeper_is_healed_at_once() {
    let mut engine = starting(Config { workers: 4, spare_max: 0, ..Config::default() });
    engine.up(0);
    let progress = gristmill_core::RingProgress::default();
    for slot in 0..4 {
        let loss = Loss {
            cause: LossCause::Keeper,
            pid: 1,
            oom: false,
            detail: "".into(),
            loading: "".into(),
            progress,
        };
        engine.core.slot_lost(SlotId(slot), Epoch(1), loss, engine.now, &mut engine.port);
    }
    assert_eq!(engine.port.spawned, [0, 1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn an_initializer_that_fails_breaks_the_engine_with_its_text() {
    let mut engine = starting(Config { spare_max: 0, ..Config::default() });
    let task = engine.submit();
    let failure =
        StartFailure { text: "no module named x".into(), permanent: true, is_expiry: false };
    engine.core.slot_failed(SlotId(0), failure.clone(), engine.now, &mut engine.port);
    assert_eq!(engine.core.task(task).unwrap().outcome, Some(TaskOutcome::StartFailed(&failure)));
    let refused = engine.submit_as(&[], None, gristmill_core::Origin::External);
    assert_eq!(refused, Err(SubmitError::Broken(failure.into())));
}

#[test]
fn five_failed_starts_in_a_row_break_the_engine_and_fewer_do_not() {
    let mut engine = starting(Config { spare_max: 0, ..Config::default() });
    let task = engine.submit();
    for failures in 1..=5 {
        assert_eq!(engine.status(task), None, "after {} failures", failures - 1);
        let failure =
            StartFailure { text: "fork: EAGAIN".into(), permanent: false, is_expiry: false };
        engine.core.slot_failed(SlotId(0), failure, engine.now, &mut engine.port);
        engine.pass(1_000_000_000);
    }
    assert_eq!(engine.status(task), Some(Status::Refused));
}

fn fail_start(engine: &mut Engine, slot: u16) {
    let failure = StartFailure { text: "killed".into(), permanent: false, is_expiry: false };
    engine.core.slot_failed(SlotId(slot), failure, engine.now, &mut engine.port);
}

#[test]
fn failed_starts_beside_a_live_worker_do_not_count_once_that_worker_is_lost() {
    let mut engine = starting(Config { workers: 2, spare_max: 0, ..Config::default() });
    engine.up(0);
    for _ in 0..6 {
        fail_start(&mut engine, 1);
        engine.pass(10_000_000_000);
    }
    let task = engine.submit();
    engine.lose(0);
    for failures in 1..=5 {
        engine.pass(10_000_000_000);
        assert_eq!(engine.status(task), None, "after {} failures", failures - 1);
        fail_start(&mut engine, 0);
    }
    assert_eq!(engine.status(task), Some(Status::Refused));
}
