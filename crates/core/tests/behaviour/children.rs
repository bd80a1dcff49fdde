//! Nested tasks in workers that keep contexts.

use gristmill_core::{
    Config, ContextId, ContextOptions, Origin, SlotId, Status, TaskId, TaskOptions,
};
use gristmill_wire::ResourceRequest;
use gristmill_wire::Verdict::Returned;

use crate::contexts::{MODEL, OTHER, run_all, settle, submit_in, with_contexts};
use crate::fake::{Engine, engine_with};

fn child_of(engine: &mut Engine, parent: TaskId, context: ContextId) -> TaskId {
    let slot = engine.core.task(parent).unwrap().slot.unwrap();
    let options = TaskOptions { context, ..TaskOptions::default() };
    engine.submit_as(&[], Some(options), Origin::Nested { slot, parent }).unwrap()
}

#[test]
fn children_that_a_full_context_cannot_run_are_refused() {
    let config = Config { workers: 3, spare_max: 0, ..Config::default() };
    let mut engine = engine_with(config);
    engine.port.spawned.clear();
    let context = ContextId(3);
    engine.core.define_context(
        context,
        ContextOptions { workers_max: 1, linger_ns: u64::MAX, demand: ResourceRequest::NONE },
    );
    let parent = submit_in(&mut engine, context);
    settle(&mut engine);
    engine.start(parent);
    let plain = child_of(&mut engine, parent, ContextId(0));
    assert_ne!(engine.record(plain).slot, engine.record(parent).slot);
    engine.start(plain);
    let deepest = child_of(&mut engine, plain, context);
    for task in [parent, plain] {
        let slot = engine.core.task(task).unwrap().slot.unwrap();
        engine.core.waiting(slot, task, true, engine.now, &mut engine.port);
    }
    assert_eq!(engine.status(deepest), Some(Status::Refused), "its only worker waits for it");
}

#[test]
fn children_behind_those_that_lack_a_worker_go_to_one_that_idles() {
    let mut engine = with_contexts(2);
    let parent = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let slot = engine.record(parent).slot;
    let others = [submit_in(&mut engine, MODEL), submit_in(&mut engine, MODEL)];
    engine.pass(200_000_000);
    settle(&mut engine);
    engine.start(parent);
    for task in others {
        let _outcome = engine.answer(task, Returned);
    }
    let plain = child_of(&mut engine, parent, ContextId(0));
    assert!(!engine.is_sent(plain), "both workers have the context");
    let child = child_of(&mut engine, parent, MODEL);
    assert_ne!(engine.record(child).slot, slot);
}

#[test]
fn a_plain_task_does_not_wait_behind_children_that_lack_a_context() {
    let mut engine = with_contexts(2);
    let parent = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    engine.start(parent);
    let children: Vec<_> = (0..4).map(|_| child_of(&mut engine, parent, MODEL)).collect();
    assert!(!engine.is_sent(children[3]), "they wait for the worker that their parent has");
    let plain = engine.submit();
    assert!(engine.is_sent(plain), "the other one idles");
}

#[test]
fn an_idle_worker_does_not_leave_whose_ring_is_full_while_children_wait_for_it() {
    let mut engine = with_contexts(2);
    let parent = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let other = submit_in(&mut engine, MODEL);
    engine.pass(200_000_000);
    settle(&mut engine);
    engine.start(parent);
    let _outcome = engine.answer(other, Returned);
    engine.port.room = Some(0);
    let child = child_of(&mut engine, parent, MODEL);
    engine.now += 1_000_000;
    engine.submit();
    assert!(engine.port.retired.is_empty(), "the child is for it");
    engine.port.room = None;
    engine.pass(1_000_000);
    assert_ne!(engine.record(child).slot, engine.record(parent).slot);
}

#[test]
fn calls_of_tasks_that_tasks_submitted_are_counted_by_themselves() {
    let mut engine = with_contexts(2);
    let parent = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    engine.start(parent);
    let child = child_of(&mut engine, parent, MODEL);
    let before = engine.core.context_changes();
    run_all(&mut engine, &[child, parent]);
    let stats = engine.core.context_stats(MODEL).unwrap();
    assert_eq!((stats.calls, stats.nested_calls), (2, 1));
    assert!(
        engine.core.context_changes() > before,
        "the engine that sent the context must hear of it"
    );
}

/// Submits three children without a context from a waiting task in a context, and starts the first, which runs for
/// long. Returns the slot of their parent, and the two children that wait behind the first.
fn behind_a_long_sibling(engine: &mut Engine) -> (u16, [TaskId; 2]) {
    let parent = submit_in(engine, MODEL);
    engine.pass(10_000_000);
    settle(engine);
    engine.start(parent);
    let home = engine.record(parent).slot;
    engine.core.waiting(SlotId(home), parent, true, engine.now, &mut engine.port);
    let children = [(); 3].map(|()| child_of(engine, parent, ContextId(0)));
    assert_eq!(children.map(|child| engine.record(child).slot), [home; 3]);
    engine.start(children[0]);
    (home, [children[1], children[2]])
}

#[test]
fn children_without_a_context_go_to_a_worker_that_idles_if_a_sibling_runs_for_long() {
    let mut engine = with_contexts(2);
    engine.earn(1_000);
    let (home, behind) = behind_a_long_sibling(&mut engine);
    for child in behind.into_iter().rev() {
        engine.pass(200_000);
        assert_eq!(engine.record(child).slot, 1 - home, "it idles, and needs no context for it");
        let _outcome = engine.answer(child, Returned);
    }
}

#[test]
fn an_idle_worker_with_another_context_gives_way_to_children_behind_a_long_sibling() {
    let mut engine = with_contexts(2);
    engine.earn(1_000);
    let other = submit_in(&mut engine, OTHER);
    settle(&mut engine);
    engine.pass(1_000_000);
    let _outcome = engine.answer(other, Returned);
    let (home, behind) = behind_a_long_sibling(&mut engine);
    assert_eq!(engine.core.context_stats(OTHER).unwrap().workers, 1);
    engine.pass(10_000_000);
    settle(&mut engine);
    assert_eq!(engine.record(behind[1]).slot, 1 - home);
}
