//! Placement of tasks.

use gristmill_core::{Config, Load, TaskOptions};
use gristmill_wire::Verdict::Returned;

use crate::fake::{Engine, engine, engine_with, starting};

/// Submits tasks and returns the worker that each was sent to.
fn submit_and_look(engine: &mut Engine, count: usize) -> Vec<u16> {
    let tasks: Vec<_> = (0..count).map(|_| engine.submit()).collect();
    tasks.into_iter().map(|task| engine.record(task).slot).collect()
}

#[test]
fn tasks_of_an_unknown_function_go_to_idle_workers_first() {
    let mut engine = engine(3);
    let slots = submit_and_look(&mut engine, 3);
    assert_eq!(slots, [0, 1, 2]);
}

#[test]
fn short_tasks_share_a_worker_and_leave_the_sleeping_one_asleep() {
    let mut engine = engine(2);
    engine.teach(100);
    engine.port.asleep[1] = true;
    for _ in 0..100 {
        let task = engine.submit();
        assert_eq!(engine.record(task).slot, 0);
    }
    assert!(engine.port.asleep[1]);
}

#[test]
fn a_sleeping_worker_is_woken_when_the_backlog_is_longer_than_the_wake_up() {
    let mut engine = engine(2);
    engine.teach(20_000);
    engine.port.asleep[1] = true;
    let slots = submit_and_look(&mut engine, 4);
    assert_eq!(slots, [0, 0, 0, 1], "60 us of work wait, a wake-up costs 50");
}

#[test]
fn where_no_core_is_left_one_worker_is_filled_first_and_the_others_share_in_a_wait() {
    let config = Config { workers: 2, cores: 2, spare_max: 0, ..Config::default() };
    let mut engine = engine_with(config);
    engine.teach(20_000);
    engine.port.asleep[1] = true;
    let tasks: Vec<_> = (0..11).map(|_| engine.submit()).collect();
    assert!(tasks[..10].iter().all(|&task| engine.record(task).slot == 0), "200 us fit");
    assert!(!engine.is_sent(tasks[10]), "the caller needs the core");
    engine.core.spread(engine.now, &mut engine.port);
    assert_eq!(engine.record(tasks[10]).slot, 1, "the caller waits");
    let _outcome = engine.answer_in(tasks[10], Returned, 20_000);
    assert_eq!(engine.core.stats().stolen, 0, "the caller needs the core again");
    engine.core.spread(engine.now, &mut engine.port);
    assert_eq!(engine.core.stats().stolen, 5, "it waits");
}

#[test]
fn a_caller_that_waits_for_results_together_wakes_a_worker_for_more_than_one_ring_holds() {
    let config = Config { workers: 2, cores: 2, spare_max: 0, ..Config::default() };
    let mut engine = engine_with(config);
    engine.teach(20_000);
    engine.port.asleep[1] = true;
    for _ in 0..10 {
        engine.submit();
    }
    engine.core.spread_ready(engine.now, &mut engine.port);
    assert!(engine.port.asleep[1], "200 us fit into the ring");
    let more = engine.submit();
    engine.core.spread_ready(engine.now, &mut engine.port);
    assert_eq!(engine.record(more).slot, 1);
}

#[test]
fn a_worker_that_comes_up_begins_what_waits_behind_a_long_task_before_later_ones() {
    let mut engine = starting(Config { workers: 2, spare_max: 0, ..Config::default() });
    let tasks: Vec<_> = (0..6).map(|_| engine.submit()).collect();
    engine.up(0);
    assert_eq!(engine.record(tasks[1]).slot, 0, "no other worker is there");
    engine.start(tasks[0]);
    engine.up(1);
    assert_eq!(engine.record(tasks[1]).slot, 1);
    assert_eq!(engine.record(tasks[2]).slot, 1, "behind it");
    engine.core.audit();
}

#[test]
fn what_waits_behind_a_long_task_begins_before_later_ones_once_the_caller_waits() {
    let config = Config { workers: 2, cores: 2, spare_max: 0, ..Config::default() };
    let mut engine = engine_with(config);
    engine.port.asleep = [true; 8];
    let tasks: Vec<_> = (0..4).map(|_| engine.submit()).collect();
    assert_eq!(engine.record(tasks[1]).slot, 0, "their caller needs the other core");
    engine.start(tasks[0]);
    engine.core.spread(engine.now, &mut engine.port);
    assert_eq!(engine.record(tasks[1]).slot, 1);
    assert!(tasks[2..].iter().all(|&task| !engine.is_sent(task) || engine.record(task).slot == 1));
    engine.core.audit();
}

#[test]
fn what_has_not_begun_stays_first_at_its_worker_when_another_comes_up() {
    let mut engine = starting(Config { workers: 2, spare_max: 0, ..Config::default() });
    let tasks: Vec<_> = (0..4).map(|_| engine.submit()).collect();
    engine.up(0);
    engine.up(1);
    assert_eq!((engine.record(tasks[0]).slot, engine.record(tasks[1]).slot), (0, 1));
}

#[test]
fn short_tasks_stay_where_they_are_when_another_worker_comes_up() {
    let mut engine = starting(Config { workers: 2, spare_max: 0, ..Config::default() });
    engine.up(0);
    engine.teach(10_000);
    let tasks: Vec<_> = (0..40).map(|_| engine.submit()).collect();
    engine.up(1);
    assert_eq!(engine.core.stats().stolen, 0);
    assert_eq!(engine.record(tasks[1]).slot, 0);
}

#[test]
fn tasks_that_wait_for_no_core_have_a_worker_each_once_their_caller_waits() {
    let config = Config { workers: 3, cores: 2, spare_max: 0, ..Config::default() };
    let mut engine = engine_with(config);
    engine.port.asleep = [true; 8];
    let tasks: Vec<_> = (0..3).map(|_| engine.submit()).collect();
    assert_eq!(engine.record(tasks[1]).slot, 0, "their caller needs the other core");
    engine.start(tasks[0]);
    engine.core.spread(engine.now, &mut engine.port);
    let mut slots: Vec<_> = tasks.iter().map(|&task| engine.record(task).slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2]);
}

#[test]
fn a_worker_is_sent_a_window_of_work_and_filled_up_when_half_is_done() {
    let mut engine = engine(1);
    engine.teach(20_000);
    let tasks: Vec<_> = (0..30).map(|_| engine.submit()).collect();
    assert_eq!(engine.port.sent.len(), 10, "200 us at 20 us each");
    for &task in &tasks[..5] {
        let _outcome = engine.answer_in(task, Returned, 20_000);
    }
    assert_eq!(engine.port.sent.len(), 5, "not one by one");
    let _outcome = engine.answer_in(tasks[5], Returned, 20_000);
    assert_eq!(engine.port.sent.len(), 10);
    let order: Vec<_> = engine.port.sent.iter().map(|one| one.task).collect();
    assert_eq!(order, tasks[6..16], "first in, first out");
}

#[test]
fn a_worker_that_answers_gets_milliseconds_of_work_while_many_tasks_are_ready() {
    let mut engine = engine(2);
    engine.teach(20_000);
    let tasks: Vec<_> = (0..10_000).map(|_| engine.submit()).collect();
    assert_eq!(engine.port.sent.len(), 20, "submissions fill no worker deeper");
    let of_first = |engine: &Engine| engine.port.sent.iter().filter(|one| one.slot == 0).count();
    let first = engine.record(tasks[0]).slot;
    assert_eq!(first, 0);
    let _outcome = engine.answer_in(tasks[0], Returned, 20_000);
    assert!((990..=1_010).contains(&of_first(&engine)), "20 ms: {}", of_first(&engine));
    engine.core.audit();
}

#[test]
fn windows_shrink_as_ready_tasks_run_out_so_that_all_workers_end_together() {
    let mut engine = engine(2);
    engine.teach(20_000);
    let count = 2_000;
    let tasks: Vec<_> = (0..count).map(|_| engine.submit()).collect();
    let sent_of =
        |engine: &Engine, slot: u16| engine.port.sent.iter().filter(|one| one.slot == slot).count();
    let mut answered = 0;
    while engine.core.stats().ready > 0 {
        let slot = u16::from(answered % 2 == 1);
        let next = engine.port.sent.iter().find(|one| one.slot == slot).expect("it has work").task;
        let _outcome = engine.answer_in(next, Returned, 20_000);
        answered += 1;
    }
    let left = [sent_of(&engine, 0), sent_of(&engine, 1)];
    assert!(left.iter().all(|&left| left <= 12), "200 us, and what one answer brings: {left:?}");
    assert_eq!(answered + left[0] + left[1], tasks.len());
    engine.core.audit();
}

#[test]
fn a_function_of_unknown_run_time_is_not_sent_ahead() {
    let mut engine = engine(1);
    let tasks: Vec<_> = (0..100).map(|_| engine.submit()).collect();
    engine.start(tasks[0]);
    assert_eq!(engine.port.sent.len(), 2);
}

#[test]
fn the_load_is_that_of_busy_workers_and_names_the_first_to_run_out() {
    let mut engine = engine(2);
    assert_eq!(engine.core.load(), Load::default());
    engine.teach(16_384);
    engine.port.asleep[1] = true;
    let slots = submit_and_look(&mut engine, 5);
    assert_eq!(slots, [0, 0, 0, 0, 1], "one more than a wake-up costs");
    let load = engine.core.load();
    let expected = Load {
        busy: 2,
        answer_gap_ns: 8_192,
        least_backlog_ns: 16_384,
        least_depth: 1,
        has_ready: false,
    };
    assert_eq!(load, expected);
}

#[test]
fn short_tasks_beside_a_long_one_answer_as_often_as_without_it() {
    let mut engine = engine(2);
    engine.teach(16_384);
    let long = engine.submit_batch(1_000);
    let short: Vec<_> = (0..4).map(|_| engine.submit()).collect();
    assert!(short.iter().all(|&task| engine.record(task).slot != engine.record(long).slot));
    let gap_ns = engine.core.load().answer_gap_ns;
    assert!((16_000..=16_384).contains(&gap_ns), "the mean of all five is 3 ms: {gap_ns}");
}

#[test]
fn a_higher_priority_is_placed_earlier() {
    let mut engine = engine(1);
    let (first, _second) = (engine.submit(), engine.submit());
    let low = engine.submit_with(TaskOptions { priority: -1, ..TaskOptions::default() });
    let plain = engine.submit();
    let high = engine.submit_with(TaskOptions { priority: 5, ..TaskOptions::default() });
    for (done, next) in [(first, high), (high, plain), (plain, low)] {
        let _outcome = engine.answer_in(done, Returned, 1_000_000);
        if !engine.is_sent(next) {
            let other = engine.port.sent[0].task;
            let _outcome = engine.answer_in(other, Returned, 1_000_000);
        }
        assert!(engine.is_sent(next));
    }
}

#[test]
fn a_short_task_does_not_wait_behind_a_long_one_while_a_worker_idles() {
    let mut engine = engine(2);
    engine.teach(100);
    let (long, short) = (engine.submit(), engine.submit());
    assert_eq!((engine.record(long).slot, engine.record(short).slot), (0, 0));
    engine.start(long);
    assert!(engine.core.has_obligations(), "the engine must check it");
    engine.pass(200_000);
    assert_eq!(engine.record(short).slot, 1);
    let next = engine.submit();
    assert_eq!(engine.record(next).slot, 1, "nothing else goes behind the long one");
    assert_eq!(engine.core.stats().stolen, 1);
}

#[test]
fn a_worker_that_runs_dry_takes_half_of_what_waits_elsewhere() {
    let mut engine = engine(2);
    engine.teach(19_000);
    let tasks: Vec<_> = (0..20).map(|_| engine.submit()).collect();
    let (zero, one): (Vec<_>, Vec<_>) =
        tasks.into_iter().partition(|&task| engine.record(task).slot == 0);
    for task in one {
        let _outcome = engine.answer_in(task, Returned, 19_000);
    }
    let moved = zero.iter().filter(|&&task| engine.record(task).slot == 1).count();
    assert_eq!(moved, zero.len() / 2);
}

#[test]
fn a_full_ring_keeps_its_task_for_later() {
    let mut engine = engine(1);
    engine.port.room = Some(1);
    let (first, second) = (engine.submit(), engine.submit());
    assert!(!engine.is_sent(second));
    let _outcome = engine.answer(first, Returned);
    assert!(engine.is_sent(second));
}

#[test]
fn a_full_ring_without_an_answer_to_come_is_tried_again() {
    let mut engine = engine(1);
    engine.port.room = Some(0);
    let task = engine.submit();
    engine.port.room = None;
    engine.pass(2_000_000);
    assert!(engine.is_sent(task));
}

#[test]
fn a_worker_is_replaced_after_its_number_of_tasks() {
    let mut engine = engine_with(Config {
        workers: 1,
        spare_max: 0,
        tasks_per_worker_max: 2,
        ..Config::default()
    });
    let tasks: Vec<_> = (0..3).map(|_| engine.submit()).collect();
    assert!(!engine.is_sent(tasks[2]));
    let _outcome = engine.answer(tasks[0], Returned);
    let _outcome = engine.answer(tasks[1], Returned);
    assert_eq!(engine.port.retired, [0]);
    engine.lose(0);
    engine.up(0);
    assert!(engine.is_sent(tasks[2]));
    assert_eq!(engine.core.stats().losses, 0, "it left when asked");
}
