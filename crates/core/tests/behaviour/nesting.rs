//! Tasks that submit tasks and wait for them.

use gristmill_core::{
    Budgets, CancelMode, Config, Origin, Status, TaskId, TaskOptions, TaskOutcome,
};
use gristmill_wire::Verdict::{Declined, Returned};

use crate::fake::{Engine, engine, engine_with};
use crate::faraway::returned;

fn wait(engine: &mut Engine, task: TaskId, on: bool) {
    let slot = engine.core.task(task).unwrap().slot.unwrap();
    engine.core.waiting(slot, task, on, engine.now, &mut engine.port);
}

/// Returns a task that runs on the first worker, and its only child, which it waits for.
fn waiting_parent(engine: &mut Engine) -> (TaskId, TaskId) {
    let parent = engine.submit();
    engine.start(parent);
    let child = engine.submit_from(parent);
    wait(engine, parent, true);
    (parent, child)
}

#[test]
fn a_child_runs_in_its_parents_wait_when_there_is_one_worker() {
    let mut engine = engine(1);
    let (parent, child) = waiting_parent(&mut engine);
    let record = engine.record(child);
    assert!(record.is_nested && record.slot == 0);
    let _outcome = engine.answer(child, Returned);
    wait(&mut engine, parent, false);
    let _outcome = engine.answer(parent, Returned);
    assert_eq!(engine.status(parent), Some(Status::Succeeded));
}

#[test]
fn a_task_that_waits_for_others_is_not_expected_to_answer() {
    let mut engine = engine(2);
    engine.teach(1_000_000);
    let (parent, child) = waiting_parent(&mut engine);
    assert_ne!(engine.record(child).slot, engine.record(parent).slot);
    let load = engine.core.load();
    assert_eq!(load.busy, 2);
    assert!(load.answer_gap_ns >= 500_000, "{} ns", load.answer_gap_ns);
    let _outcome = engine.answer(child, Returned);
    assert_eq!(engine.core.load().answer_gap_ns, u64::MAX, "no task runs that could answer");
}

#[test]
fn strangers_leave_a_worker_that_waits_and_come_back_when_it_does_not() {
    let mut engine = engine(1);
    let parent = engine.submit();
    let stranger = engine.submit();
    engine.start(parent);
    let child = engine.submit_from(parent);
    wait(&mut engine, parent, true);
    assert!(!engine.is_sent(stranger) && engine.is_sent(child));
    let _outcome = engine.answer(child, Returned);
    assert!(!engine.is_sent(stranger), "it must not run in a wait for another");
    wait(&mut engine, parent, false);
    assert!(engine.is_sent(stranger));
}

#[test]
fn a_spare_worker_does_the_work_of_one_that_waits_and_leaves_later() {
    let config = Config { spare_max: 1, spare_linger_ns: 1_000_000, ..Config::default() };
    let mut engine = engine_with(config);
    let (parent, child) = waiting_parent(&mut engine);
    let stranger = engine.submit();
    assert_eq!(engine.port.spawned, [0, 1]);
    engine.up(1);
    assert_eq!(engine.record(stranger).slot, 1);
    let _outcome = engine.answer(stranger, Returned);
    let _outcome = engine.answer(child, Returned);
    wait(&mut engine, parent, false);
    let next = engine.submit();
    assert_eq!(engine.record(next).slot, 0, "a spare one is for waits only");
    engine.pass(2_000_000);
    assert_eq!(engine.port.retired, [1]);
}

#[test]
fn a_child_that_queues_behind_a_long_task_elsewhere_is_brought_home() {
    let mut engine = engine(2);
    let (parent, long, filler) = (engine.submit(), engine.submit(), engine.submit());
    assert_eq!([parent, long, filler].map(|task| engine.record(task).slot), [0, 1, 0]);
    engine.start(parent);
    engine.start(long);
    let child = engine.submit_from(parent);
    assert_eq!(engine.record(child).slot, 1);
    wait(&mut engine, parent, true);
    engine.pass(200_000);
    let record = engine.record(child);
    assert!(record.slot == 0 && record.is_nested);
}

#[test]
fn the_children_of_a_lost_parent_that_had_not_started_are_cancelled() {
    let mut engine = engine(1);
    let (parent, child) = waiting_parent(&mut engine);
    engine.lose(0);
    assert_eq!(engine.status(parent), Some(Status::Lost));
    assert_eq!(engine.status(child), Some(Status::Cancelled));
}

#[test]
fn a_child_outlives_a_parent_that_did_not_wait() {
    let mut engine = engine(1);
    let parent = engine.submit();
    engine.start(parent);
    let child = engine.submit_from(parent);
    let _outcome = engine.answer(parent, Returned);
    let _outcome = engine.answer(child, Returned);
    assert_eq!(engine.status(child), Some(Status::Succeeded));
}

#[test]
fn no_worker_is_killed_for_a_child_that_has_ended_with_the_one_it_ran_in() {
    let mut engine = engine(1);
    let (parent, child) = waiting_parent(&mut engine);
    engine.start(child);
    let deepest = engine.submit_from(child);
    wait(&mut engine, child, true);
    engine.start(deepest);
    let mode = CancelMode::Running { grace_ns: Some(1_000_000) };
    let _requested = engine.core.cancel(deepest, mode, engine.now, &mut engine.port);
    // Both answers are in the ring. The child ended last.
    engine.port.progress[0].ended = engine.record(child).sequence + 1;
    engine.pass(10_000_000);
    assert!(engine.port.killed.is_empty(), "the parent is there");
    for task in [deepest, child, parent] {
        let _outcome = engine.answer(task, Returned);
        let is_stopped = task == deepest;
        let expected = if is_stopped { Status::Cancelled } else { Status::Succeeded };
        assert_eq!(engine.status(task), Some(expected));
    }
}

#[test]
fn too_deep_a_nesting_is_an_error_and_not_a_hang() {
    let mut engine = engine(1);
    let (parent, child) = waiting_parent(&mut engine);
    let _outcome = engine.answer(child, Declined);
    assert_eq!(engine.core.task(child).unwrap().outcome, Some(TaskOutcome::NestedTooDeep));
    assert_eq!(engine.status(parent), None);
}

#[test]
fn a_lease_whose_workers_all_wait_gives_its_clients_tasks_back() {
    let mut engine = engine_with(Config {
        workers: 1,
        spare_max: 0,
        depth_min: 1,
        depth_max: 1,
        shares_nested_only: true,
        ..Config::default()
    });
    engine.join(0, 1, 0);
    let (parent, child) = waiting_parent(&mut engine);
    assert_eq!(engine.peer_of(child), Some(0));
    let stranger = engine.submit();
    assert_eq!(engine.status(stranger), Some(Status::Cancelled), "the child may wait for it");
    let _outcome = engine.reply(child, returned());
    wait(&mut engine, parent, false);
    let next = engine.submit();
    assert_eq!(engine.status(next), None);
}

/// Returns an engine with two workers and a spare, whose only function has run `runs` times. A parent waits on the
/// first worker for a child.
fn beside_an_idle_worker(runs: u32, options: Option<TaskOptions>) -> (Engine, TaskId, TaskId) {
    let mut engine = engine_with(Config { workers: 2, spare_max: 1, ..Config::default() });
    for _ in 0..runs {
        let task = engine.submit();
        engine.start(task);
        let _outcome = engine.answer(task, Returned);
    }
    let parent = engine.submit();
    engine.start(parent);
    wait(&mut engine, parent, true);
    let child = match options {
        Some(options) => {
            let slot = engine.core.task(parent).unwrap().slot.unwrap();
            let origin = Origin::Nested { slot, parent };
            engine.submit_as(&[], Some(options), origin).unwrap()
        }
        None => engine.submit_from(parent),
    };
    (engine, parent, child)
}

#[test]
fn a_child_runs_in_its_parents_wait_once_its_function_has_ended_a_hundred_times() {
    let (engine, parent, child) = beside_an_idle_worker(99, None);
    assert_ne!(engine.record(child).slot, engine.record(parent).slot);
    assert!(!engine.record(child).is_nested);
    let (engine, parent, child) = beside_an_idle_worker(100, None);
    assert_eq!(engine.record(child).slot, engine.record(parent).slot);
    assert!(engine.record(child).is_nested);
}

#[test]
fn a_child_with_a_timeout_or_a_budget_has_a_worker_of_its_own() {
    let budgets = Budgets { loss_retries: 1, ..Budgets::default() };
    for options in [
        TaskOptions { timeout_ns: Some(1_000_000), ..TaskOptions::default() },
        TaskOptions { budgets: Some(budgets), ..TaskOptions::default() },
    ] {
        let (engine, parent, child) = beside_an_idle_worker(100, Some(options));
        assert_ne!(engine.record(child).slot, engine.record(parent).slot);
    }
}

#[test]
fn a_death_takes_the_right_to_run_in_a_wait_away() {
    let mut engine = engine_with(Config { workers: 2, spare_max: 1, ..Config::default() });
    engine.earn(1_000);
    let dying = engine.submit();
    engine.start(dying);
    let slot = engine.record(dying).slot;
    engine.lose(slot);
    assert_eq!(engine.status(dying), Some(Status::Lost));
    engine.up(slot);
    let parent = engine.submit();
    engine.start(parent);
    wait(&mut engine, parent, true);
    let child = engine.submit_from(parent);
    assert_ne!(engine.record(child).slot, engine.record(parent).slot);
}

#[test]
fn where_all_spares_wait_a_child_runs_in_its_parents_wait() {
    let mut engine = engine_with(Config { workers: 1, spare_max: 1, ..Config::default() });
    let (parent, child) = waiting_parent(&mut engine);
    assert!(!engine.is_sent(child), "it waits for the spare");
    engine.up(1);
    assert_eq!(engine.record(child).slot, 1);
    engine.start(child);
    let grandchild = engine.submit_from(child);
    wait(&mut engine, child, true);
    let record = engine.record(grandchild);
    assert!(record.slot == 1 && record.is_nested, "no other worker could run it");
    let _outcome = engine.answer(grandchild, Returned);
    wait(&mut engine, child, false);
    let _outcome = engine.answer(child, Returned);
    wait(&mut engine, parent, false);
    let _outcome = engine.answer(parent, Returned);
    assert_eq!(engine.status(parent), Some(Status::Succeeded));
}

#[test]
fn a_child_that_was_sent_behind_its_running_parent_is_taken_back_when_that_waits() {
    let mut engine = engine_with(Config { workers: 1, spare_max: 1, ..Config::default() });
    let parent = engine.submit();
    engine.start(parent);
    let child = engine.submit_from(parent);
    assert!(!engine.record(child).is_nested, "its function has not earned that");
    wait(&mut engine, parent, true);
    engine.up(1);
    assert_eq!(engine.record(child).slot, 1);
}
