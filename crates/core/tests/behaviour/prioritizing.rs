//! Priorities: a waiting task runs before tasks with a lower priority that rings hold.

use gristmill_core::{Origin, TaskId, TaskOptions};
use gristmill_wire::ResourceRequest;
use gristmill_wire::Verdict::{Returned, Skipped};

use crate::fake::{Engine, engine};

fn with(priority: i32) -> TaskOptions {
    TaskOptions { priority, ..TaskOptions::default() }
}

/// Returns an engine whose workers each run a task and have another one of priority 0 in their rings. Returns also the
/// running tasks and those in the rings.
fn busy(workers: u16) -> (Engine, Vec<TaskId>, Vec<TaskId>) {
    let mut engine = engine(workers);
    engine.teach(50_000_000);
    let running: Vec<_> = (0..workers).map(|_| engine.submit()).collect();
    running.iter().for_each(|&task| engine.start(task));
    let waiting: Vec<_> = (0..workers).map(|_| engine.submit()).collect();
    assert!(waiting.iter().all(|&task| engine.is_sent(task)), "one is behind each that runs");
    (engine, running, waiting)
}

#[test]
fn a_task_of_a_higher_priority_raises_the_floor_of_every_worker_and_goes_first() {
    let (mut engine, running, waiting) = busy(2);
    let high = engine.submit_with(with(10));
    assert!(!engine.is_sent(high), "it would wait behind what runs");
    assert_eq!(engine.port.floors[..2], [10, 10]);
    let slot = engine.record(running[0]).slot;
    let _outcome = engine.answer(running[0], Returned);
    assert_eq!(engine.record(high).slot, slot, "that worker returns its tasks");
    let _outcome = engine.answer(waiting[0], Skipped);
    assert!(!engine.is_sent(waiting[0]), "it waits until the other one has begun");
    engine.start(high);
    engine.pass(1_000_000);
    assert_eq!(engine.port.floors[..2], [i32::MIN, i32::MIN]);
    assert!(engine.is_sent(waiting[0]));
}

#[test]
fn what_is_handed_back_keeps_its_order() {
    let mut engine = engine(2);
    engine.teach(10_000);
    let running = [engine.submit(), engine.submit()];
    running.iter().for_each(|&task| engine.start(task));
    let low: Vec<_> = (0..12).map(|_| engine.submit()).collect();
    let high = engine.submit_with(with(1));
    // The workers return their records, one after the other and out of step.
    let _outcome = engine.answer_in(running[1], Returned, 10_000);
    let mut held: Vec<_> = low.iter().copied().filter(|&task| engine.is_sent(task)).collect();
    held.sort_by_key(|&task| std::cmp::Reverse(engine.record(task).slot));
    for &task in &held {
        let _outcome = engine.answer(task, Skipped);
    }
    let _outcome = engine.answer_in(high, Returned, 10_000);
    let _outcome = engine.answer_in(running[0], Returned, 10_000);
    let order: Vec<_> = engine.port.sent.iter().map(|one| one.task).collect();
    let expected: Vec<_> = low.into_iter().filter(|task| order.contains(task)).collect();
    assert_eq!(order, expected, "in the order of their submission");
}

#[test]
fn nothing_of_a_lower_priority_is_sent_while_one_waits_and_the_rest_goes_on_after_it() {
    let (mut engine, running, waiting) = busy(1);
    let high = [engine.submit_with(with(3)), engine.submit_with(with(5))];
    assert_eq!(engine.port.floors[0], 5);
    let late = engine.submit();
    let _outcome = engine.answer(running[0], Returned);
    assert!(engine.is_sent(high[1]) && !engine.is_sent(high[0]) && !engine.is_sent(late));
    let _outcome = engine.answer(waiting[0], Skipped);
    for task in [high[1], high[0], waiting[0], late] {
        engine.pass(1_000_000);
        engine.start(task);
        let _outcome = engine.answer(task, Returned);
    }
    assert_eq!(engine.port.floors[0], i32::MIN);
}

#[test]
fn a_task_of_priority_0_goes_before_those_below_it() {
    let mut engine = engine(1);
    engine.teach(50_000_000);
    let running = engine.submit();
    engine.start(running);
    let low = engine.submit_with(with(-4));
    assert!(engine.is_sent(low));
    let plain = engine.submit();
    assert_eq!(engine.port.floors[0], 0);
    let _outcome = engine.answer(running, Returned);
    assert!(engine.is_sent(plain));
}

#[test]
fn a_cancelled_task_leaves_no_floor_behind() {
    let (mut engine, _, _) = busy(2);
    let high = engine.submit_with(with(1));
    assert_eq!(engine.port.floors[..2], [1, 1]);
    let _outcome = engine.core.cancel(
        high,
        gristmill_core::CancelMode::Unstarted,
        engine.now,
        &mut engine.port,
    );
    assert_eq!(engine.port.floors[..2], [i32::MIN, i32::MIN]);
}

#[test]
fn a_dependant_that_becomes_ready_raises_the_floor() {
    let (mut engine, running, waiting) = busy(2);
    let child = engine.submit_as(&[running[0]], Some(with(2)), Origin::External).unwrap();
    assert_eq!(engine.port.floors[..2], [i32::MIN, i32::MIN], "it does not wait for a worker");
    engine.start(waiting[0]);
    let _outcome = engine.answer(running[0], Returned);
    assert_eq!(engine.port.floors[..2], [2, 2]);
    assert!(!engine.is_sent(child), "both workers run something");
}

#[test]
fn tasks_of_one_priority_have_no_floor_and_fill_rings() {
    let mut engine = engine(1);
    engine.teach(1_000);
    let tasks: Vec<_> = (0..20).map(|_| engine.submit_with(with(7))).collect();
    assert!(tasks.iter().all(|&task| engine.is_sent(task)), "nothing has a lower priority");
    assert_eq!(engine.port.floors[0], i32::MIN);
}

#[test]
fn short_tasks_of_a_high_priority_queue_behind_each_other() {
    let mut engine = engine(1);
    engine.teach(1_000);
    let low = engine.submit();
    engine.start(low);
    let _behind = engine.submit();
    let high: Vec<_> = (0..20).map(|_| engine.submit_with(with(7))).collect();
    let _outcome = engine.answer_in(low, Returned, 1_000);
    assert!(high.iter().all(|&task| engine.is_sent(task)), "20 us are soon over");
}

#[test]
fn a_wide_task_of_a_higher_priority_holds_others_back_until_it_has_its_places() {
    let (mut engine, running, waiting) = busy(2);
    let demand = ResourceRequest { cores: 2, ..ResourceRequest::NONE };
    let wide = engine.submit_with(TaskOptions { demand, ..with(1) });
    let _outcome = engine.answer(running[0], Returned);
    assert!(!waiting.iter().any(|&task| engine.is_sent(task)), "its CPU slots are gathered");
    let _outcome = engine.answer(running[1], Returned);
    assert!(engine.is_sent(wide));
}

#[test]
fn a_wide_task_of_a_lower_priority_does_not_gather_what_others_wait_for() {
    let (mut engine, running, _) = busy(2);
    let high: Vec<_> = (0..3).map(|_| engine.submit_with(with(1))).collect();
    let demand = ResourceRequest { cores: 2, ..ResourceRequest::NONE };
    let wide = engine.submit_with(TaskOptions { demand, ..with(-1) });
    let _outcome = engine.answer(running[0], Returned);
    assert!(engine.is_sent(high[0]) && !engine.is_sent(wide));
}
