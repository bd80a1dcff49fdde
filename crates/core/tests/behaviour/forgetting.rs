//! Contexts end: when they are forgotten, and when they were unused for long.

use gristmill_core::{
    Config, ContextId, ContextOptions, LEAVE_GRACE_NS, SlotId, StartFailure, Status,
};
use gristmill_wire::ResourceRequest;
use gristmill_wire::Verdict::Returned;

use crate::contexts::{
    MODEL, OTHER, define, run_all, settle, settle_until, submit_in, with_contexts,
};
use crate::fake::engine_with;

#[test]
fn a_context_that_was_forgotten_goes_with_its_last_task_even_if_no_worker_could_have_it() {
    let mut engine = with_contexts(1);
    let task = submit_in(&mut engine, MODEL);
    engine.core.forget_context(MODEL, engine.now, &mut engine.port);
    assert!(engine.core.context_stats(MODEL).is_some(), "a task waits for it");
    settle_until(&mut engine, MODEL);
    let slot = engine.port.spawned.remove(0);
    let failure = StartFailure { text: "no".into(), permanent: true, is_expiry: false };
    engine.core.slot_failed(SlotId(slot), failure, engine.now, &mut engine.port);
    assert_eq!(engine.status(task), Some(Status::Refused));
    assert!(engine.core.context_stats(MODEL).is_none());
}

#[test]
fn the_workers_of_a_forgotten_context_leave() {
    let mut engine = with_contexts(2);
    let task = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let slot = engine.record(task).slot;
    let _outcome = engine.answer(task, Returned);
    engine.core.release(task);
    engine.core.forget_context(MODEL, engine.now, &mut engine.port);
    assert_eq!(engine.port.retired, [slot]);
    settle(&mut engine);
    let tasks: Vec<_> = (0..4).map(|_| engine.submit()).collect();
    run_all(&mut engine, &tasks);
}

#[test]
fn a_worker_that_is_to_leave_and_stays_is_killed() {
    let mut engine = with_contexts(1);
    let task = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let _outcome = engine.answer(task, Returned);
    engine.core.forget_context(MODEL, engine.now, &mut engine.port);
    assert_eq!(engine.port.retired, [0]);
    engine.pass(LEAVE_GRACE_NS - 1);
    assert!(engine.port.killed.is_empty() && engine.core.has_obligations());
    engine.pass(LEAVE_GRACE_NS);
    assert_eq!(engine.port.killed, [0], "once");
    settle(&mut engine);
    let next = engine.submit();
    run_all(&mut engine, &[next]);
}

#[test]
fn an_unused_context_is_kept_for_its_keep_time() {
    let mut engine = with_contexts(2);
    let kept = ContextId(3);
    engine.core.define_context(
        kept,
        ContextOptions { workers_max: 2, linger_ns: 1_000, demand: ResourceRequest::NONE },
    );
    let task = submit_in(&mut engine, kept);
    settle(&mut engine);
    let now = engine.now;
    engine.core.context_loaded(kept, 100, now, &mut engine.port);
    assert_eq!(engine.core.next_unload(), None, "a task uses it");
    let _outcome = engine.answer(task, Returned);
    let due = engine.core.next_unload().expect("no task uses it");
    engine.now = due - 1;
    engine.core.poll(engine.now, &mut engine.port);
    assert!(engine.port.unloaded.is_empty());
    engine.now = due;
    engine.core.poll(engine.now, &mut engine.port);
    assert_eq!(engine.port.unloaded, [kept]);
    assert_eq!(engine.port.retired.len(), 1, "its worker leaves");
    assert_eq!(engine.core.next_unload(), None);
    let again = submit_in(&mut engine, kept);
    run_all(&mut engine, &[again]);
}

#[test]
fn where_memory_is_short_the_context_goes_that_was_used_longest_ago() {
    let mut engine = engine_with(Config { workers: 3, context_memory: 250, ..Config::default() });
    engine.port.spawned.clear();
    engine.port.contexts.clear();
    for context in [MODEL, OTHER, ContextId(3)] {
        define(&mut engine, context);
    }
    for context in [MODEL, OTHER] {
        let task = submit_in(&mut engine, context);
        settle(&mut engine);
        let now = engine.now;
        engine.core.context_loaded(context, 100, now, &mut engine.port);
        run_all(&mut engine, &[task]);
    }
    let held = submit_in(&mut engine, MODEL);
    let now = engine.now;
    engine.core.context_loaded(ContextId(3), 100, now, &mut engine.port);
    assert!(engine.port.unloaded.is_empty(), "no process has it");
    let third = submit_in(&mut engine, ContextId(3));
    engine.pass(2_000_000);
    settle(&mut engine);
    let now = engine.now;
    engine.core.context_loaded(ContextId(3), 100, now, &mut engine.port);
    assert_eq!(engine.port.unloaded, [OTHER], "a task uses the other one");
    run_all(&mut engine, &[held, third]);
}

#[test]
fn a_forgotten_context_is_seen_to_until_its_workers_leave() {
    let mut engine = with_contexts(1);
    let first = submit_in(&mut engine, MODEL);
    run_all(&mut engine, &[first]);
    let last = submit_in(&mut engine, MODEL);
    let now = engine.now;
    engine.core.forget_context(MODEL, now, &mut engine.port);
    assert!(engine.core.has_obligations(), "its worker is to leave after the answer");
    let _outcome = engine.answer(last, Returned);
    assert_eq!(engine.port.retired, [0]);
}

#[test]
fn a_forgotten_context_that_is_defined_again_goes_on_with_what_it_has() {
    let mut engine = with_contexts(1);
    let first = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    engine.core.forget_context(MODEL, engine.now, &mut engine.port);
    define(&mut engine, MODEL);
    let second = submit_in(&mut engine, MODEL);
    let _outcome = engine.answer(first, Returned);
    assert!(engine.port.retired.is_empty() && engine.is_sent(second));
    engine.core.forget_context(MODEL, engine.now, &mut engine.port);
    let _outcome = engine.answer(second, Returned);
    assert_eq!(engine.port.retired.len(), 1, "that was its last task");
}

#[test]
fn what_waits_for_a_core_begins_when_the_last_worker_of_a_forgotten_context_leaves() {
    let config = Config { workers: 2, cores: 2, spare_max: 0, ..Config::default() };
    let mut engine = engine_with(config);
    engine.port.spawned.clear();
    define(&mut engine, MODEL);
    define(&mut engine, OTHER);
    let last = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    engine.start(last);
    engine.core.forget_context(MODEL, engine.now, &mut engine.port);
    let waiting = submit_in(&mut engine, OTHER);
    engine.pass(10_000_000);
    settle_until(&mut engine, OTHER);
    let spawned = engine.port.spawned.pop().expect("a CPU slot is free");
    engine.port.asleep[usize::from(spawned)] = true;
    engine.up(spawned);
    assert!(!engine.is_sent(waiting), "the caller and the other worker have both cores");
    let _outcome = engine.answer(last, Returned);
    assert_eq!(engine.port.retired.len(), 1, "no task needs its context any more");
    assert!(engine.is_sent(waiting), "a core is free");
}
