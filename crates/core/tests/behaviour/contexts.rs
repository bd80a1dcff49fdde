//! Workers that keep the context of functions.

use gristmill_core::{
    Budgets, CancelMode, Config, ContextId, ContextOptions, Origin, SlotId, StartFailure, Status,
    SubmitError, TaskId, TaskLocation, TaskOptions, TaskOutcome,
};
use gristmill_wire::ResourceRequest;
use gristmill_wire::Verdict::Returned;

use crate::fake::{Engine, engine, engine_with};

pub const MODEL: ContextId = ContextId(1);
pub const OTHER: ContextId = ContextId(2);

pub fn define(engine: &mut Engine, context: ContextId) {
    engine.core.define_context(
        context,
        ContextOptions {
            workers_max: u16::MAX,
            linger_ns: u64::MAX,
            demand: ResourceRequest::NONE,
        },
    );
}

pub fn submit_in(engine: &mut Engine, context: ContextId) -> TaskId {
    engine.submit_with(TaskOptions { context, ..TaskOptions::default() })
}

/// Ends the workers that were asked to leave and brings those up that were asked for, until nothing changes.
pub fn settle(engine: &mut Engine) {
    loop {
        let retired = std::mem::take(&mut engine.port.retired);
        let spawned = std::mem::take(&mut engine.port.spawned);
        if retired.is_empty() && spawned.is_empty() {
            return;
        }
        retired.into_iter().for_each(|slot| engine.lose(slot));
        spawned.into_iter().for_each(|slot| engine.up(slot));
    }
}

/// Ends the workers that were asked to leave, until a worker with the context was asked for.
pub fn settle_until(engine: &mut Engine, context: ContextId) {
    while engine.port.contexts.last() != Some(&context) {
        let retired = std::mem::take(&mut engine.port.retired);
        assert!(!retired.is_empty(), "no worker gives way");
        engine.port.spawned.clear();
        retired.into_iter().for_each(|slot| engine.lose(slot));
    }
}

/// Returns an engine that knows both contexts and whose workers have settled.
pub fn with_contexts(workers: u16) -> Engine {
    let mut engine = engine(workers);
    engine.port.spawned.clear();
    engine.port.contexts.clear();
    define(&mut engine, MODEL);
    define(&mut engine, OTHER);
    engine
}

/// Ends running tasks and lets time pass, until all tasks are final.
pub fn run_all(engine: &mut Engine, tasks: &[TaskId]) {
    for _ in 0..1_000 {
        settle(engine);
        let sent: Vec<TaskId> = engine.port.sent.iter().map(|one| one.task).collect();
        for task in sent {
            let _outcome = engine.answer(task, Returned);
        }
        engine.pass(1_000_000);
        if tasks.iter().all(|&task| engine.status(task).is_some()) {
            return;
        }
    }
    panic!("tasks wait: {:?}", engine.core.stats());
}

#[test]
fn a_task_runs_on_a_worker_that_has_its_context() {
    let mut engine = with_contexts(2);
    let task = submit_in(&mut engine, MODEL);
    assert_eq!((engine.port.retired.len(), engine.is_sent(task)), (1, false), "one gives way");
    assert!(matches!(
        engine.core.location(task),
        TaskLocation::InContext { context: MODEL, ahead: 0, workers: 0 }
    ));
    settle(&mut engine);
    assert_eq!(engine.port.contexts, [MODEL]);
    assert!(engine.is_sent(task));
    let plain = engine.submit();
    assert_ne!(engine.record(plain).slot, engine.record(task).slot);
    let _outcome = engine.answer(task, Returned);
    let again = submit_in(&mut engine, MODEL);
    assert!(engine.is_sent(again), "at once");
    assert_eq!(engine.core.context_stats(MODEL).unwrap().deployments, 1);
}

#[test]
fn a_context_gets_more_workers_once_it_is_known_to_come_up() {
    let mut engine = with_contexts(4);
    let tasks: Vec<_> = (0..40).map(|_| submit_in(&mut engine, MODEL)).collect();
    assert_eq!(engine.port.retired.len(), 1, "the first one shows whether it can be had");
    settle(&mut engine);
    engine.pass(10_000_000);
    settle(&mut engine);
    assert_eq!(engine.core.context_stats(MODEL).unwrap().deployments, 4);
    run_all(&mut engine, &tasks);
    let plain = engine.submit();
    run_all(&mut engine, &[plain]);
}

#[test]
fn a_context_has_no_more_workers_than_it_may() {
    let mut engine = with_contexts(4);
    let context = ContextId(3);
    engine.core.define_context(
        context,
        ContextOptions { workers_max: 2, linger_ns: u64::MAX, demand: ResourceRequest::NONE },
    );
    let tasks: Vec<_> = (0..40).map(|_| submit_in(&mut engine, context)).collect();
    run_all(&mut engine, &tasks);
    assert_eq!(engine.core.context_stats(context).unwrap().deployments, 2);
}

#[test]
fn a_plain_task_gets_a_place_back_that_a_context_has_without_need() {
    let mut engine = with_contexts(1);
    let task = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let _outcome = engine.answer(task, Returned);
    engine.now += 1_000_000_000;
    let plain = engine.submit();
    assert_eq!(engine.port.retired, [0], "at once");
    settle(&mut engine);
    assert!(engine.is_sent(plain));
}

#[test]
fn a_thread_looks_again_after_work_that_came_just_after_the_last_look() {
    let mut engine = with_contexts(1);
    let task = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let _outcome = engine.answer(task, Returned);
    let plain = engine.submit();
    assert!(engine.port.retired.is_empty(), "the last look was just now");
    let wake = engine.core.next_wake(engine.now).expect("there is work, and an idle worker");
    engine.now = wake;
    engine.core.poll(wake, &mut engine.port);
    assert_eq!(engine.port.retired, [0]);
    settle(&mut engine);
    assert!(engine.is_sent(plain));
}

#[test]
fn what_waits_behind_a_task_of_its_context_gets_a_worker_that_idles_without_one() {
    let mut engine = with_contexts(2);
    let first = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let _outcome = engine.answer(first, Returned);
    engine.pass(10_000_000);
    let running = submit_in(&mut engine, MODEL);
    let behind = submit_in(&mut engine, MODEL);
    assert_eq!(engine.record(running).slot, engine.record(behind).slot);
    let wake = engine.core.next_wake(engine.now).expect("another worker idles");
    engine.pass(wake - engine.now);
    settle(&mut engine);
    assert_eq!(engine.core.context_stats(MODEL).unwrap().deployments, 2);
}

#[test]
fn a_context_that_fails_to_come_up_is_tried_again_after_a_pause_and_then_given_up() {
    let mut engine = with_contexts(1);
    let task = submit_in(&mut engine, MODEL);
    for _ in 0..1_000 {
        let retired = std::mem::take(&mut engine.port.retired);
        retired.into_iter().for_each(|slot| engine.lose(slot));
        let contexts = std::mem::take(&mut engine.port.contexts);
        let spawned = std::mem::take(&mut engine.port.spawned);
        for (slot, context) in spawned.into_iter().zip(contexts) {
            if context == MODEL {
                let failure =
                    StartFailure { text: "no".into(), permanent: false, is_expiry: false };
                engine.core.slot_failed(SlotId(slot), failure, engine.now, &mut engine.port);
            } else {
                engine.up(slot);
            }
        }
        let Some(wake) = engine.core.next_wake(engine.now) else { break };
        engine.now = wake.max(engine.now + 1);
        engine.core.poll(engine.now, &mut engine.port);
    }
    assert_eq!(engine.status(task), Some(Status::Refused), "the engine does not look again");
}

#[test]
fn contexts_take_turns_where_there_are_more_of_them_than_workers() {
    let mut engine = with_contexts(1);
    let mut tasks = Vec::new();
    for _ in 0..2_000 {
        tasks.push(submit_in(&mut engine, MODEL));
        tasks.push(submit_in(&mut engine, OTHER));
    }
    tasks.push(engine.submit());
    run_all(&mut engine, &tasks);
    assert!(
        engine.core.context_stats(MODEL).unwrap().deployments < 20,
        "a context is worth its start"
    );
}

#[test]
fn a_context_that_cannot_be_had_costs_its_own_tasks_only() {
    let mut engine = with_contexts(2);
    let (doomed, fine) = (submit_in(&mut engine, MODEL), submit_in(&mut engine, OTHER));
    let plain = engine.submit();
    for slot in std::mem::take(&mut engine.port.retired) {
        engine.lose(slot);
    }
    let place = engine.port.contexts.iter().position(|&one| one == MODEL).unwrap();
    let slot = engine.port.spawned.remove(place);
    let failure = StartFailure { text: "no weights".into(), permanent: true, is_expiry: false };
    engine.core.slot_failed(SlotId(slot), failure, engine.now, &mut engine.port);
    assert_eq!(engine.status(doomed), Some(Status::Refused));
    let view = engine.core.task(doomed).unwrap();
    let Some(TaskOutcome::ContextFailed(failure)) = view.outcome else {
        panic!("{:?}", view.outcome)
    };
    assert_eq!(&*failure.text, "no weights");
    let late = submit_in(&mut engine, MODEL);
    assert_eq!(engine.status(late), Some(Status::Refused));
    run_all(&mut engine, &[fine, plain]);
    assert!(engine.core.failure().is_none());
}

#[test]
fn a_context_that_dies_while_it_starts_is_tried_again_a_few_times() {
    let mut engine = with_contexts(1);
    let task = submit_in(&mut engine, MODEL);
    for slot in std::mem::take(&mut engine.port.retired) {
        engine.lose(slot);
    }
    for _ in 0..100 {
        let first = engine.port.contexts.len() - engine.port.spawned.len();
        let contexts = engine.port.contexts[first..].to_vec();
        for (slot, context) in std::mem::take(&mut engine.port.spawned).into_iter().zip(contexts) {
            if context == MODEL { engine.lose(slot) } else { engine.up(slot) }
        }
        for slot in std::mem::take(&mut engine.port.retired) {
            engine.lose(slot);
        }
        engine.pass(10_000_000_000);
    }
    assert_eq!(engine.status(task), Some(Status::Refused));
    let tries = engine.port.contexts.iter().filter(|&&context| context == MODEL).count();
    assert_eq!(tries, 5);
    let plain = engine.submit();
    run_all(&mut engine, &[plain]);
}

#[test]
fn a_context_whose_workers_all_die_while_they_start_is_given_up() {
    let mut engine = with_contexts(2);
    let tasks = [submit_in(&mut engine, MODEL), submit_in(&mut engine, MODEL)];
    for slot in std::mem::take(&mut engine.port.retired) {
        engine.lose(slot);
    }
    for _ in 0..100 {
        let first = engine.port.contexts.len() - engine.port.spawned.len();
        let contexts = engine.port.contexts[first..].to_vec();
        for (slot, context) in std::mem::take(&mut engine.port.spawned).into_iter().zip(contexts) {
            if context == MODEL { fail_start(&mut engine, slot) } else { engine.up(slot) }
        }
        for slot in std::mem::take(&mut engine.port.retired) {
            engine.lose(slot);
        }
        engine.pass(10_000_000_000);
    }
    assert_eq!(tasks.map(|task| engine.status(task)), [Some(Status::Refused); 2]);
}

#[test]
fn a_lost_worker_is_replaced_by_one_with_the_same_context() {
    let mut engine = with_contexts(1);
    let tasks = [submit_in(&mut engine, MODEL), submit_in(&mut engine, MODEL)];
    settle(&mut engine);
    engine.start(tasks[0]);
    engine.lose(0);
    assert_eq!(engine.status(tasks[0]), Some(Status::Lost));
    engine.pass(100_000_000);
    settle(&mut engine);
    assert_eq!(engine.port.contexts, [MODEL, MODEL]);
    assert!(engine.is_sent(tasks[1]), "it had not started");
}

#[test]
fn an_unknown_context_or_one_without_the_resources_is_refused_at_once() {
    let mut engine = with_contexts(2);
    let unknown = TaskOptions { context: ContextId(9), ..TaskOptions::default() };
    let demand = ResourceRequest { cores: 2, ..ResourceRequest::NONE };
    let wide = TaskOptions { context: MODEL, demand, ..TaskOptions::default() };
    let mut submit = |options| engine.submit_as(&[], Some(options), Origin::External).unwrap_err();
    assert_eq!(submit(unknown), SubmitError::UnknownContext { context: ContextId(9) });
    assert_eq!(submit(wide), SubmitError::DemandInContext);
}

#[test]
fn a_task_waits_for_one_in_another_context() {
    let config = Config { workers: 1, spare_max: 1, ..Config::default() };
    let mut engine = engine_with(config);
    engine.port.spawned.clear();
    define(&mut engine, MODEL);
    let parent = engine.submit();
    engine.start(parent);
    let slot = engine.core.task(parent).unwrap().slot.unwrap();
    let options = TaskOptions { context: MODEL, ..TaskOptions::default() };
    let origin = Origin::Nested { slot, parent };
    let child = engine.submit_as(&[], Some(options), origin).unwrap();
    engine.core.waiting(slot, parent, true, engine.now, &mut engine.port);
    settle(&mut engine);
    assert_eq!(engine.record(child).slot, 1, "a spare has it");
    let _outcome = engine.answer(child, Returned);
    engine.core.waiting(slot, parent, false, engine.now, &mut engine.port);
    let _outcome = engine.answer(parent, Returned);
    assert_eq!(engine.status(parent), Some(Status::Succeeded));
}

/// Lets time pass, and polls only when the engine asks for it.
fn doze(engine: &mut Engine, ns: u64) {
    let until = engine.now + ns;
    while let Some(wake) = engine.core.next_wake(engine.now).filter(|&wake| wake <= until) {
        engine.now = wake.max(engine.now + 1);
        engine.core.poll(engine.now, &mut engine.port);
    }
    engine.now = until;
}

/// Fails the start of a worker with a context.
fn fail_start(engine: &mut Engine, slot: u16) {
    let failure = StartFailure { text: "not now".into(), permanent: false, is_expiry: false };
    engine.core.slot_failed(SlotId(slot), failure, engine.now, &mut engine.port);
}

#[test]
fn a_context_is_tried_again_after_a_pause_beside_workers_that_idle() {
    let mut engine = with_contexts(2);
    let task = submit_in(&mut engine, MODEL);
    let place = engine.port.retired.pop().unwrap();
    engine.lose(place);
    assert_eq!(engine.port.spawned, [place]);
    engine.port.spawned.clear();
    fail_start(&mut engine, place);
    settle(&mut engine);
    assert_eq!(engine.core.worker_count(), 2, "another worker has the CPU slot meanwhile");
    doze(&mut engine, Config::default().backoff_min_ns);
    settle(&mut engine);
    assert!(engine.is_sent(task));
}

#[test]
fn the_first_worker_of_a_context_brings_others_when_it_comes_up() {
    let mut engine = with_contexts(4);
    let tasks: Vec<_> = (0..40).map(|_| submit_in(&mut engine, MODEL)).collect();
    let first = engine.port.retired.pop().unwrap();
    engine.lose(first);
    engine.pass(1_000_000_000);
    assert!(
        engine.port.retired.is_empty(),
        "the engine does not know yet whether it can be set up"
    );
    engine.up(first);
    engine.port.spawned.clear();
    doze(&mut engine, 10_000_000);
    assert_eq!(engine.port.retired.len(), 3);
    run_all(&mut engine, &tasks);
}

#[test]
fn a_context_gets_workers_that_others_have_ceased_to_need() {
    let mut engine = with_contexts(4);
    let mut tasks: Vec<_> = (0..4).map(|_| engine.submit()).collect();
    tasks.iter().for_each(|&task| engine.start(task));
    tasks.extend((0..40).map(|_| submit_in(&mut engine, MODEL)));
    engine.pass(200_000_000);
    for &task in &tasks[..4] {
        let _outcome = engine.answer(task, Returned);
    }
    for _ in 0..10 {
        settle(&mut engine);
        doze(&mut engine, 10_000_000);
    }
    let count = engine.port.contexts.iter().filter(|&&one| one == MODEL).count();
    assert_eq!(count, 4, "though nothing has become ready since");
    run_all(&mut engine, &tasks);
}

#[test]
fn a_worker_that_gives_way_leaves_at_once_if_it_has_begun_nothing() {
    let mut engine = with_contexts(1);
    engine.teach(200_000);
    let plain = engine.submit();
    assert!(engine.is_sent(plain));
    engine.pass(200_000_000);
    let task = submit_in(&mut engine, MODEL);
    engine.pass(20_000_000);
    assert_eq!(engine.port.retired, [0], "its tasks wait for another one");
    run_all(&mut engine, &[plain, task]);
}

#[test]
fn a_leaving_worker_counts_among_the_workers_that_a_context_may_have() {
    let mut engine = with_contexts(2);
    let context = ContextId(3);
    engine.core.define_context(
        context,
        ContextOptions { workers_max: 1, linger_ns: u64::MAX, demand: ResourceRequest::NONE },
    );
    let task = submit_in(&mut engine, context);
    settle(&mut engine);
    engine.start(task);
    let slot = engine.record(task).slot;
    let others = [submit_in(&mut engine, MODEL), submit_in(&mut engine, OTHER)];
    let last = submit_in(&mut engine, context);
    for _ in 0..100 {
        settle(&mut engine);
        engine.pass(10_000_000);
        let count = engine.port.contexts.iter().filter(|&&one| one == context).count();
        assert_eq!(count, 1, "slot {slot} still has it");
    }
    run_all(&mut engine, &[task, last, others[0], others[1]]);
}

#[test]
fn an_idle_worker_gives_way_though_a_busy_one_must_leave_already() {
    let mut engine = with_contexts(2);
    let long = [engine.submit(), engine.submit()];
    long.iter().for_each(|&task| engine.start(task));
    engine.pass(200_000_000);
    let task = submit_in(&mut engine, MODEL);
    engine.pass(200_000_000);
    assert!(engine.port.retired.is_empty(), "both are busy, and one is to leave");
    let stays = long.into_iter().max_by_key(|&one| engine.record(one).slot).unwrap();
    let _outcome = engine.answer(stays, Returned);
    engine.pass(20_000_000);
    assert_eq!(engine.port.retired.len(), 1, "the other one has nothing to do");
    settle(&mut engine);
    assert!(engine.is_sent(task));
}

#[test]
fn a_context_that_pauses_after_failed_starts_keeps_no_cpu_slot_from_others() {
    let mut engine = with_contexts(1);
    let _failed = submit_in(&mut engine, MODEL);
    let place = engine.port.retired.pop().unwrap();
    engine.lose(place);
    engine.port.spawned.clear();
    fail_start(&mut engine, place);
    settle(&mut engine);
    for context in [OTHER, ContextId(0), OTHER] {
        engine.now += 2_000_000;
        let task = submit_in(&mut engine, context);
        doze(&mut engine, 2_000_000);
        settle(&mut engine);
        assert!(engine.is_sent(task), "{context}: the pause of the first one is 50 ms");
        let _outcome = engine.answer(task, Returned);
    }
}

#[test]
fn an_idle_context_does_not_keep_alive_what_cannot_be_had_without_one() {
    let mut engine = engine_with(Config { workers: 2, workers_min: 0, ..Config::default() });
    define(&mut engine, MODEL);
    let task = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let _outcome = engine.answer(task, Returned);
    engine.port.spawned.clear();
    let plain = engine.submit();
    let slot = engine.port.spawned[0];
    let failure = StartFailure { text: "no program".into(), permanent: true, is_expiry: false };
    engine.core.slot_failed(SlotId(slot), failure, engine.now, &mut engine.port);
    assert_eq!(engine.status(plain), Some(Status::Refused));
}

#[test]
fn calls_one_after_the_other_leave_nothing_to_threads_that_do_not_wait_for_them() {
    let mut engine = with_contexts(1);
    let first = submit_in(&mut engine, MODEL);
    run_all(&mut engine, &[first]);
    let mut owed = 0;
    for _ in 0..1_000 {
        let task = submit_in(&mut engine, MODEL);
        assert!(
            engine.is_sent(task) && !engine.record(task).is_extended,
            "its worker has only one"
        );
        owed += u32::from(engine.core.has_obligations());
        let _outcome = engine.answer(task, Returned);
    }
    assert_eq!(owed, 0, "the answer of each is all that is to come");
    let retried = TaskOptions {
        context: MODEL,
        budgets: Some(Budgets { retries: 1, ..Budgets::default() }),
        ..TaskOptions::default()
    };
    let task = engine.submit_with(retried);
    assert!(engine.is_sent(task) && engine.core.has_obligations(), "it may have to run again");
}

#[test]
fn what_the_first_worker_of_a_context_comes_for_is_not_given_back() {
    let mut engine = with_contexts(1);
    let (first, second) = (submit_in(&mut engine, MODEL), submit_in(&mut engine, MODEL));
    let other = submit_in(&mut engine, OTHER);
    for _ in 0..2 {
        engine.core.withdraw(3, engine.now, &mut engine.port);
        let ends = [first, second, other].map(|task| engine.status(task));
        assert_eq!(ends, [None, Some(Status::Cancelled), None], "or engines pass it on for ever");
    }
    engine.core.withdraw(u32::MAX, engine.now, &mut engine.port);
    assert_eq!(engine.status(first), Some(Status::Cancelled), "all is wanted");
}

#[test]
fn the_engine_looks_at_contexts_that_have_workers_however_many_wait_for_some() {
    let mut engine = engine(1);
    let contexts = (1..=300).map(ContextId);
    let waiting: Vec<_> = contexts
        .map(|context| {
            define(&mut engine, context);
            submit_in(&mut engine, context)
        })
        .collect();
    for &task in &waiting[..100] {
        engine.port.looks.set(0);
        let _outcome =
            engine.core.cancel(task, CancelMode::Unstarted, engine.now, &mut engine.port);
        assert!(engine.port.looks.get() < 10, "{} looks", engine.port.looks.get());
    }
    engine.core.audit();
}

/// Returns how many contexts the engine looks at in ten submissions, ten answers and ten cancellations. Each comes with
/// time for a decision about workers. Calls wait in `count` contexts.
fn looks_beside(count: u32, options: ContextOptions, priority: i32) -> u64 {
    let supply = gristmill_core::Supply { memory: 100, gpus: 0b1 };
    let mut engine = engine_with(Config { workers: 2, spare_max: 1, supply, ..Config::default() });
    engine.port.spawned.clear();
    let submit = |engine: &mut Engine, context| {
        engine.core.define_context(context, options);
        engine.now += 1_000_000;
        engine.submit_with(TaskOptions { context, priority, ..TaskOptions::default() })
    };
    let mut calls: Vec<_> = (1..=count).map(|one| submit(&mut engine, ContextId(one))).collect();
    engine.core.give_up_context(
        ContextId(count),
        StartFailure { text: "no".into(), permanent: true, is_expiry: false },
        engine.now,
        &mut engine.port,
    );
    settle(&mut engine);
    let before = engine.core.context_looks();
    calls.extend((1..=10).map(|one| submit(&mut engine, ContextId(count + one))));
    for _ in 0..10 {
        engine.pass(1_000_000);
        settle(&mut engine);
        if let Some(task) = engine.port.sent.first().map(|one| one.task) {
            let _outcome = engine.answer(task, Returned);
        }
    }
    for &call in calls.iter().rev().take(10) {
        engine.now += 1_000_000;
        let mode = CancelMode::Unstarted;
        let _outcome = engine.core.cancel(call, mode, engine.now, &mut engine.port);
    }
    engine.core.audit();
    engine.core.context_looks() - before
}

#[test]
fn the_cost_of_a_decision_does_not_depend_on_how_many_contexts_wait_for_workers() {
    let plain =
        ContextOptions { workers_max: 4, linger_ns: 1_000_000, demand: ResourceRequest::NONE };
    let demand = ResourceRequest { gpus: 1000, ..ResourceRequest::NONE };
    for options in [plain, ContextOptions { demand, ..plain }] {
        for priority in [0, 3] {
            let looks = [100, 1_600].map(|count| looks_beside(count, options, priority));
            assert_eq!(looks[0], looks[1], "priority {priority}, {options:?}");
        }
    }
}
