//! Contexts whose workers have GPUs, memory and several CPU slots.

use gristmill_core::{
    CancelMode, Config, ContextId, ContextOptions, Epoch, Origin, PeerId, PeerOffer, SlotId,
    StartFailure, Status, SubmitError, Supply, TaskId, TaskOptions,
};
use gristmill_wire::ResourceRequest;
use gristmill_wire::Verdict::{Declined, Returned};

use crate::fake::{Engine, engine_with, starting};

const MODEL: ContextId = ContextId(1);
const OTHER: ContextId = ContextId(2);
const GPU: ResourceRequest = ResourceRequest { gpus: 1000, ..ResourceRequest::NONE };
const MEMORY: ResourceRequest = ResourceRequest { memory: 60, ..ResourceRequest::NONE };
const WIDE: ResourceRequest = ResourceRequest { cores: 2, ..ResourceRequest::NONE };

fn define(engine: &mut Engine, context: ContextId, demand: ResourceRequest) {
    let options = ContextOptions { workers_max: u16::MAX, linger_ns: u64::MAX, demand };
    engine.core.define_context(context, options);
}

/// Returns an engine with two GPUs and 100 bytes of memory whose workers are up.
fn equipped(workers: u16) -> Engine {
    let supply = Supply { memory: 100, gpus: 0b11 };
    let mut engine = engine_with(Config { workers, spare_max: 0, supply, ..Config::default() });
    engine.port.spawned.clear();
    engine.port.contexts.clear();
    engine.port.grants.clear();
    engine
}

fn submit_in(engine: &mut Engine, context: ContextId) -> TaskId {
    engine.submit_with(TaskOptions { context, ..TaskOptions::default() })
}

fn submit(engine: &mut Engine, demand: ResourceRequest) -> TaskId {
    engine.submit_with(TaskOptions { demand, ..TaskOptions::default() })
}

/// Lets time pass, ends the workers that were asked to leave and brings those up that were asked for.
fn settle(engine: &mut Engine) {
    for _ in 0..10 {
        engine.pass(5_000_000);
        for slot in std::mem::take(&mut engine.port.retired) {
            engine.lose(slot);
        }
        for slot in std::mem::take(&mut engine.port.spawned) {
            engine.up(slot);
        }
        engine.core.audit();
    }
}

/// Fails the start of a worker for good.
fn fail(engine: &mut Engine, slot: u16) {
    let failure = StartFailure { text: "no model".into(), permanent: true, is_expiry: false };
    engine.core.slot_failed(SlotId(slot), failure, engine.now, &mut engine.port);
}

/// Returns how many workers were asked for with a context.
fn spawned(engine: &Engine, context: ContextId) -> usize {
    engine.port.contexts.iter().filter(|&&one| one == context).count()
}

#[test]
fn a_context_has_as_many_workers_as_there_are_gpus_and_each_has_its_own() {
    let mut engine = equipped(4);
    define(&mut engine, MODEL, GPU);
    let tasks: Vec<TaskId> = (0..8).map(|_| submit_in(&mut engine, MODEL)).collect();
    settle(&mut engine);
    assert_eq!(spawned(&engine, MODEL), 2);
    let devices: Vec<u16> = (0..engine.port.contexts.len())
        .filter(|&number| engine.port.contexts[number] == MODEL)
        .map(|number| engine.port.grants[number].grant.devices)
        .collect();
    assert!(devices == [1, 2] || devices == [2, 1], "{devices:?}");
    let sent: Vec<TaskId> = tasks.into_iter().filter(|&task| engine.is_sent(task)).collect();
    assert!(sent.iter().all(|&task| engine.record(task).devices.count_ones() == 1));
    assert!(engine.is_sent(engine.port.sent[0].task));
    let plain = engine.submit();
    assert!(engine.is_sent(plain), "the other workers are there for other tasks");
}

#[test]
fn a_worker_that_fills_two_places_leaves_one_less_for_others() {
    let mut engine = equipped(3);
    define(&mut engine, MODEL, WIDE);
    let task = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    assert!(engine.is_sent(task));
    assert_eq!(engine.record(task).places.len(), 2);
    let plain: Vec<TaskId> = (0..9).map(|_| engine.submit()).collect();
    settle(&mut engine);
    let slots: std::collections::BTreeSet<u16> = plain
        .iter()
        .filter(|&&task| engine.is_sent(task))
        .map(|&task| engine.record(task).slot)
        .collect();
    assert_eq!(slots.len(), 1, "one of three CPU slots is left");
}

#[test]
fn an_idle_context_gives_its_gpu_to_a_task_that_needs_it_the_longest_idle_first() {
    let mut engine = equipped(4);
    define(&mut engine, MODEL, GPU);
    define(&mut engine, OTHER, GPU);
    for context in [MODEL, OTHER] {
        let task = submit_in(&mut engine, context);
        settle(&mut engine);
        let _outcome = engine.answer(task, Returned);
        engine.pass(1_000);
    }
    let task = submit(&mut engine, GPU);
    settle(&mut engine);
    assert!(engine.is_sent(task));
    let workers = |context| engine.core.context_stats(context).map(|stats| stats.workers);
    assert_eq!((workers(MODEL), workers(OTHER)), (Some(0), Some(1)));
}

#[test]
fn a_busy_context_gives_what_a_task_needs_in_turn() {
    let mut engine = equipped(2);
    define(&mut engine, MODEL, MEMORY);
    let mut tasks: Vec<TaskId> = (0..4).map(|_| submit_in(&mut engine, MODEL)).collect();
    settle(&mut engine);
    let task = submit(&mut engine, MEMORY);
    for _ in 0..20 {
        engine.pass(20_000_000);
        settle(&mut engine);
        if engine.is_sent(task) {
            return;
        }
        // The context never runs out of tasks.
        tasks.push(submit_in(&mut engine, MODEL));
        let runs = engine.port.sent.first().expect("one of the context's runs").task;
        let _outcome = engine.answer(runs, Returned);
    }
    panic!("the task waits for a context that always has something to do");
}

#[test]
fn a_stream_of_tasks_does_not_keep_a_context_from_its_gpu() {
    let mut engine = equipped(4);
    define(&mut engine, MODEL, ResourceRequest { gpus: 2000, ..ResourceRequest::NONE });
    let mut stream: Vec<TaskId> = (0..4).map(|_| submit(&mut engine, GPU)).collect();
    let task = submit_in(&mut engine, MODEL);
    for _ in 0..40 {
        settle(&mut engine);
        if engine.is_sent(task) {
            return;
        }
        stream.push(submit(&mut engine, GPU));
        let runs = engine.port.sent.first().expect("one of the stream runs").task;
        let _outcome = engine.answer(runs, Returned);
    }
    panic!("the context never gets both GPUs");
}

#[test]
fn what_a_dead_worker_had_is_there_for_the_next() {
    let mut engine = equipped(2);
    define(&mut engine, MODEL, ResourceRequest { cores: 2, gpus: 2000, memory: 100 });
    let task = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    engine.lose(engine.record(task).slot);
    let again = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    assert!(engine.is_sent(again) || engine.is_sent(task));
    assert_eq!(spawned(&engine, MODEL), 2);
}

#[test]
fn a_forgotten_context_gives_everything_back() {
    let mut engine = equipped(2);
    define(&mut engine, MODEL, ResourceRequest { cores: 2, gpus: 2000, memory: 100 });
    let task = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let _outcome = engine.answer(task, Returned);
    engine.core.forget_context(MODEL, engine.now, &mut engine.port);
    let all = submit(&mut engine, ResourceRequest { cores: 2, gpus: 2000, memory: 100 });
    settle(&mut engine);
    assert!(engine.is_sent(all));
}

#[test]
fn a_context_that_asks_for_more_than_there_is_is_refused() {
    let mut engine = equipped(2);
    define(&mut engine, MODEL, ResourceRequest { gpus: 3000, ..ResourceRequest::NONE });
    let options = TaskOptions { context: MODEL, ..TaskOptions::default() };
    let refused = engine.submit_as(&[], Some(options), Origin::External);
    let Err(SubmitError::ContextTooMuch { context, asked, all, .. }) = refused else {
        panic!("it is {refused:?}");
    };
    assert_eq!((context, asked, all), (MODEL, 3000, 2000));
}

#[test]
fn tasks_in_a_context_go_to_peers_that_have_what_it_needs_and_others_go_by() {
    let mut engine = starting(Config { workers: 0, ..Config::default() });
    define(&mut engine, MODEL, GPU);
    let offer = |gpus| PeerOffer { gpus, memory: 100, ..PeerOffer::of_workers(2) };
    engine.core.peer_joined(PeerId(0), Epoch(1), offer(0), engine.now, &mut engine.port);
    let waiting = submit_in(&mut engine, MODEL);
    let plain = engine.submit();
    let is_delegated = |engine: &Engine, task, peer| {
        engine.port.delegated.iter().any(|one| one.task == task && one.peer == peer)
    };
    assert!(is_delegated(&engine, plain, 0) && engine.port.delegated.len() == 1, "no GPU is there");
    engine.core.peer_joined(PeerId(1), Epoch(1), offer(1), engine.now, &mut engine.port);
    assert!(is_delegated(&engine, waiting, 1));
    let more: Vec<TaskId> = (0..3).map(|_| submit_in(&mut engine, MODEL)).collect();
    assert!(
        more.iter().all(|&task| is_delegated(&engine, task, 1)),
        "calls of one worker come behind each other"
    );
    engine.core.audit();
}

#[test]
fn a_start_that_fails_gives_back_what_its_worker_was_to_have() {
    let mut engine = equipped(2);
    define(&mut engine, MODEL, GPU);
    let task = submit_in(&mut engine, MODEL);
    engine.pass(5_000_000);
    for slot in std::mem::take(&mut engine.port.retired) {
        engine.lose(slot);
    }
    let slot = *engine.port.spawned.last().expect("it was asked for");
    fail(&mut engine, slot);
    assert_eq!(engine.status(task), Some(Status::Refused));
    let both = submit(&mut engine, ResourceRequest { gpus: 2000, ..ResourceRequest::NONE });
    engine.port.spawned.clear();
    settle(&mut engine);
    engine.up(slot);
    settle(&mut engine);
    assert!(engine.is_sent(both));
}

#[test]
fn what_a_task_has_that_no_worker_can_run_goes_to_a_context_whose_workers_may_come_up() {
    let supply = Supply { memory: 100, gpus: 0b1 };
    let mut engine = starting(Config { workers: 1, spare_max: 0, supply, ..Config::default() });
    define(&mut engine, MODEL, ResourceRequest { gpus: 500, ..ResourceRequest::NONE });
    let _gathers = submit(&mut engine, GPU);
    let _small = [(); 2]
        .map(|()| submit(&mut engine, ResourceRequest { gpus: 250, ..ResourceRequest::NONE }));
    let task = submit_in(&mut engine, MODEL);
    for _ in 0..20 {
        engine.pass(1_000_000_000);
        engine.core.audit();
        if engine.port.contexts.last() == Some(&MODEL) {
            engine.up(0);
            assert!(engine.is_sent(task));
            return;
        }
        fail(&mut engine, 0);
    }
    panic!("the task keeps the GPU that it cannot use");
}

#[test]
fn what_a_task_is_due_that_no_worker_can_run_goes_to_a_context_that_was_served_later() {
    let supply = Supply { memory: 100, gpus: 0 };
    let mut engine = starting(Config { workers: 1, spare_max: 0, supply, ..Config::default() });
    define(&mut engine, MODEL, ResourceRequest { memory: 50, ..ResourceRequest::NONE });
    engine.port.contexts.clear();
    let first = submit_in(&mut engine, MODEL);
    let failure = StartFailure { text: "no process".into(), permanent: false, is_expiry: false };
    let mut waiting = None;
    for _ in 0..100 {
        engine.pass(1_000_000_000);
        engine.core.audit();
        for slot in std::mem::take(&mut engine.port.retired) {
            engine.lose(slot);
        }
        for slot in std::mem::take(&mut engine.port.spawned) {
            if engine.port.contexts.last() == Some(&MODEL) {
                engine.up(slot);
            } else {
                engine.core.slot_failed(
                    SlotId(slot),
                    failure.clone(),
                    engine.now,
                    &mut engine.port,
                );
            }
        }
        if engine.is_sent(first) {
            let _outcome = engine.answer(first, Returned);
            let all = ResourceRequest { memory: 100, ..ResourceRequest::NONE };
            let _due = submit(&mut engine, all);
            // The task that is due all memory does not begin to gather: others come first.
            let _first = engine.submit_with(TaskOptions { priority: 1, ..TaskOptions::default() });
            engine.lose(0);
            waiting = Some(submit_in(&mut engine, MODEL));
        }
        if waiting.is_some_and(|task| engine.is_sent(task)) {
            return;
        }
    }
    panic!("workers without the context fail again and again, and none is started with it");
}

#[test]
fn tasks_that_would_fit_beside_a_context_do_not_let_larger_ones_past_it() {
    let mut engine = equipped(4);
    define(&mut engine, MODEL, ResourceRequest { gpus: 500, ..ResourceRequest::NONE });
    let all = ResourceRequest { gpus: 2000, ..ResourceRequest::NONE };
    let mut stream: Vec<TaskId> = (0..2).map(|_| submit(&mut engine, all)).collect();
    let task = submit_in(&mut engine, MODEL);
    let part = ResourceRequest { gpus: 250, ..ResourceRequest::NONE };
    let options = TaskOptions { demand: part, priority: -1, ..TaskOptions::default() };
    let _small = [(); 2].map(|()| engine.submit_with(options));
    for _ in 0..10 {
        settle(&mut engine);
        if engine.is_sent(task) {
            return;
        }
        stream.push(submit(&mut engine, all));
        let runs = engine.port.sent.first().expect("one of the stream runs").task;
        let _outcome = engine.answer(runs, Returned);
    }
    panic!("the context never gets its share of a GPU");
}

/// Starts a task and lets it submit another one and wait for it. Returns the child.
fn wait_for(engine: &mut Engine, parent: TaskId, options: TaskOptions) -> TaskId {
    engine.start(parent);
    let slot = engine.core.task(parent).unwrap().slot.unwrap();
    let child = engine.submit_as(&[], Some(options), Origin::Nested { slot, parent }).unwrap();
    engine.core.waiting(slot, parent, true, engine.now, &mut engine.port);
    settle(engine);
    child
}

fn wait_for_child(engine: &mut Engine, parent: TaskId, context: ContextId) -> TaskId {
    wait_for(engine, parent, TaskOptions { context, ..TaskOptions::default() })
}

#[test]
fn a_spare_worker_gets_the_gpu_of_an_idle_one_where_no_other_has_the_places() {
    let supply = Supply { memory: 100, gpus: 0b1 };
    let config = Config { workers: 3, spare_max: 2, supply, ..Config::default() };
    let mut engine = engine_with(config);
    let outer = ContextId(3);
    define(&mut engine, outer, WIDE);
    define(&mut engine, OTHER, GPU);
    define(&mut engine, MODEL, ResourceRequest { cores: 2, ..GPU });
    let idles = submit_in(&mut engine, OTHER);
    settle(&mut engine);
    let _outcome = engine.answer(idles, Returned);
    let parent = submit_in(&mut engine, outer);
    settle(&mut engine);
    let child = wait_for_child(&mut engine, parent, MODEL);
    assert!(engine.is_sent(child), "its parent has two of three CPU slots, and waits for it");
}

#[test]
fn a_spare_worker_without_a_waiting_task_gives_its_gpu_to_its_own_context() {
    let supply = Supply { memory: 100, gpus: 0b1 };
    let linger = u64::MAX;
    let config = Config {
        workers: 1,
        spare_max: 1,
        spare_linger_ns: linger,
        context_tenure_ns: linger,
        supply,
        ..Config::default()
    };
    let mut engine = engine_with(config);
    define(&mut engine, MODEL, GPU);
    let parent = engine.submit();
    let child = wait_for_child(&mut engine, parent, MODEL);
    let _outcome = engine.answer(child, Returned);
    let slot = engine.core.task(parent).unwrap().slot.unwrap();
    engine.core.waiting(slot, parent, false, engine.now, &mut engine.port);
    let _outcome = engine.answer(parent, Returned);
    let task = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    assert!(engine.is_sent(task), "the spare has the only GPU, and no task waits for children");
}

#[test]
fn a_child_is_refused_what_its_parents_worker_has_though_a_task_waits_for_a_place_of_that() {
    let mut engine = equipped(3);
    define(&mut engine, OTHER, ResourceRequest { cores: 2, ..MEMORY });
    define(&mut engine, MODEL, MEMORY);
    let parent = submit_in(&mut engine, OTHER);
    settle(&mut engine);
    let wide = submit(&mut engine, WIDE);
    let child = wait_for_child(&mut engine, parent, MODEL);
    assert_eq!(engine.status(child), Some(Status::Refused));
    let slot = engine.core.task(parent).unwrap().slot.unwrap();
    engine.core.waiting(slot, parent, false, engine.now, &mut engine.port);
    let _outcome = engine.answer(parent, Returned);
    settle(&mut engine);
    assert!(engine.is_sent(wide));
}

#[test]
fn contexts_that_lack_different_things_in_turns_hold_up_tasks_and_not_the_engine() {
    let mut engine = equipped(4);
    let narrow = ContextId(3);
    define(&mut engine, narrow, ResourceRequest { gpus: 500, ..ResourceRequest::NONE });
    define(&mut engine, MODEL, ResourceRequest { cores: 3, ..MEMORY });
    define(&mut engine, OTHER, ResourceRequest { cores: 3, ..ResourceRequest::NONE });
    let first = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let _outcome = engine.answer(first, Returned);
    let parent = submit_in(&mut engine, narrow);
    settle(&mut engine);
    let comes = submit_in(&mut engine, OTHER);
    engine.pass(5_000_000);
    for slot in std::mem::take(&mut engine.port.retired) {
        engine.lose(slot);
    }
    assert_eq!(spawned(&engine, OTHER), 1, "it has all other CPU slots, and has not started");
    let _waits = submit_in(&mut engine, narrow);
    let _too_large =
        submit(&mut engine, ResourceRequest { gpus: 2000, memory: 10, ..ResourceRequest::NONE });
    let small = submit(&mut engine, ResourceRequest { gpus: 250, ..ResourceRequest::NONE });
    // There are three slots for the child, or one for each of the tasks and one for the small context. The others wait.
    let child = wait_for_child(&mut engine, parent, MODEL);
    for task in [comes, child] {
        settle(&mut engine);
        let _outcome = engine.answer(task, Returned);
    }
    let slot = engine.core.task(parent).unwrap().slot.unwrap();
    engine.core.waiting(slot, parent, false, engine.now, &mut engine.port);
    let _outcome = engine.answer(parent, Returned);
    for _ in 0..40 {
        settle(&mut engine);
        if engine.is_sent(small) {
            return;
        }
        let runs = engine.port.sent.first().expect("another task has its turn").task;
        let _outcome = engine.answer(runs, Returned);
    }
    panic!("the task never has its turn");
}

#[test]
fn a_child_is_refused_what_its_parent_has_though_that_has_a_spare_place_too() {
    let supply = Supply { memory: 100, gpus: 0 };
    let mut engine = engine_with(Config { workers: 2, spare_max: 2, supply, ..Config::default() });
    define(&mut engine, MODEL, MEMORY);
    let parent = engine.submit();
    let demand = ResourceRequest { cores: 2, ..MEMORY };
    let wide = wait_for(&mut engine, parent, TaskOptions { demand, ..TaskOptions::default() });
    assert!(engine.is_sent(wide), "it has the other CPU slot, and a spare");
    let plain = wait_for(&mut engine, wide, TaskOptions::default());
    let slot = engine.core.task(wide).unwrap().slot.unwrap();
    let options = TaskOptions { context: MODEL, ..TaskOptions::default() };
    let origin = Origin::Nested { slot, parent: wide };
    let child = engine.submit_as(&[], Some(options), origin).unwrap();
    let _outcome = engine.answer(plain, Declined);
    settle(&mut engine);
    let _outcome = engine.answer(plain, Returned);
    settle(&mut engine);
    assert_eq!(
        engine.status(child),
        Some(Status::Refused),
        "a spare worker idles, and no other can come"
    );
}

#[test]
fn a_wide_task_has_its_turn_once_no_other_waits_without_being_asked_for_again() {
    let mut engine = equipped(3);
    let all = ResourceRequest { cores: 3, ..ResourceRequest::NONE };
    define(&mut engine, OTHER, all);
    define(&mut engine, MODEL, ResourceRequest::NONE);
    let runs = submit_in(&mut engine, OTHER);
    settle(&mut engine);
    let wide = submit(&mut engine, all);
    let waits = submit_in(&mut engine, MODEL);
    engine.pass(20_000_000);
    let _outcome = engine.answer(runs, Returned);
    let _outcome = engine.core.cancel(waits, CancelMode::Unstarted, engine.now, &mut engine.port);
    engine.core.poll(engine.now, &mut engine.port);
    for _ in 0..20 {
        engine.now =
            engine.core.next_wake(engine.now).expect("a timer or a worker will continue it");
        engine.core.poll(engine.now, &mut engine.port);
        for slot in std::mem::take(&mut engine.port.retired) {
            engine.lose(slot);
        }
        for slot in std::mem::take(&mut engine.port.spawned) {
            engine.up(slot);
        }
        if engine.is_sent(wide) {
            return;
        }
    }
    panic!("it never has its turn");
}

#[test]
fn a_spare_worker_beyond_those_allowed_gets_what_an_idle_one_has() {
    let supply = Supply { memory: 100, gpus: 0 };
    let mut engine = engine_with(Config { workers: 2, spare_max: 1, supply, ..Config::default() });
    for (context, memory) in [(MODEL, 30), (OTHER, 60)] {
        let demand = ResourceRequest { memory, ..ResourceRequest::NONE };
        let options = ContextOptions { workers_max: 1, linger_ns: u64::MAX, demand };
        engine.core.define_context(context, options);
    }
    let idles = submit_in(&mut engine, OTHER);
    settle(&mut engine);
    let _outcome = engine.answer(idles, Returned);
    let parent = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let child = wait_for_child(&mut engine, parent, MODEL);
    let _outcome = engine.answer(child, Declined);
    settle(&mut engine);
    assert!(engine.is_sent(child), "its parent's worker cannot run it, and waits for it");
}

#[test]
fn places_that_wait_for_memory_are_for_a_context_that_needs_none() {
    let mut engine = equipped(3);
    let narrow = ContextId(3);
    define(&mut engine, MODEL, ResourceRequest { memory: 50, ..ResourceRequest::NONE });
    define(&mut engine, OTHER, MEMORY);
    define(&mut engine, narrow, ResourceRequest { gpus: 250, ..ResourceRequest::NONE });
    let first = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    let _outcome = engine.answer(first, Returned);
    let _runs = submit_in(&mut engine, narrow);
    settle(&mut engine);
    let _comes = submit_in(&mut engine, OTHER);
    engine.pass(5_000_000);
    for slot in std::mem::take(&mut engine.port.retired) {
        engine.lose(slot);
    }
    assert_eq!(spawned(&engine, OTHER), 1, "it has what another worker of the first lacks");
    for context in [MODEL, MODEL, narrow, narrow] {
        let _task = submit_in(&mut engine, context);
    }
    for _ in 0..3 {
        engine.pass(20_000_000);
        for slot in std::mem::take(&mut engine.port.retired) {
            engine.lose(slot);
        }
    }
    assert_eq!(spawned(&engine, narrow), 2, "the third CPU slot is of no use to other tasks now");
}
