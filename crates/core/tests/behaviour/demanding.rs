//! Tasks that need more than a worker.

use gristmill_core::{
    Config, Origin, SlotId, StartFailure, Status, SubmitError, Supply, TaskId, TaskOptions,
};
use gristmill_wire::ResourceRequest;
use gristmill_wire::Verdict::{Declined, Returned};

use crate::fake::{Engine, engine, engine_with, starting};

fn with_gpus(workers: u16, gpus: u16) -> Engine {
    let supply = Supply { memory: 100, gpus };
    engine_with(Config { workers, spare_max: 0, supply, ..Config::default() })
}

fn submit(engine: &mut Engine, demand: ResourceRequest) -> TaskId {
    engine.submit_with(TaskOptions { demand, ..TaskOptions::default() })
}

const WIDE: ResourceRequest = ResourceRequest { cores: 2, ..ResourceRequest::NONE };
const MEMORY: ResourceRequest = ResourceRequest { memory: 60, ..ResourceRequest::NONE };

const fn gpus(gpus: u32) -> ResourceRequest {
    ResourceRequest { gpus, ..ResourceRequest::NONE }
}

#[test]
fn a_wide_task_runs_alone_and_others_wait_for_its_places() {
    let mut engine = engine(2);
    let wide = submit(&mut engine, WIDE);
    let small = engine.submit();
    assert!(engine.is_sent(wide) && !engine.is_sent(small));
    let _outcome = engine.answer(wide, Returned);
    assert!(engine.is_sent(small));
}

#[test]
fn a_stream_of_small_tasks_does_not_keep_a_wide_one_from_running() {
    let mut engine = engine(2);
    engine.teach(1_000);
    let mut small: Vec<TaskId> = (0..6).map(|_| engine.submit()).collect();
    engine.start(small[0]);
    let wide = submit(&mut engine, WIDE);
    while !engine.is_sent(wide) {
        small.push(engine.submit());
        let runs = engine.port.sent.first().expect("a small one runs before").task;
        let _outcome = engine.answer(runs, Returned);
        engine.core.audit();
        assert!(small.len() < 20, "at most the tasks of the rings run before it");
    }
    let _outcome = engine.answer(wide, Returned);
    assert_eq!(engine.status(wide), Some(Status::Succeeded));
}

#[test]
fn memory_is_given_once() {
    let mut engine = with_gpus(2, 0);
    let (one, other) = (submit(&mut engine, MEMORY), submit(&mut engine, MEMORY));
    let small = engine.submit();
    assert!(engine.is_sent(one) && !engine.is_sent(other) && engine.is_sent(small));
    let _outcome = engine.answer(one, Returned);
    assert!(engine.is_sent(other));
}

#[test]
fn who_needs_something_else_does_not_wait_for_those_short_of_memory() {
    let mut engine = with_gpus(3, 1);
    let (one, other) = (submit(&mut engine, MEMORY), submit(&mut engine, MEMORY));
    let gpu = submit(&mut engine, gpus(1000));
    assert!(engine.is_sent(one) && !engine.is_sent(other) && engine.is_sent(gpu));
}

#[test]
fn shares_of_a_gpu_are_packed_and_whole_ones_are_exclusive() {
    let mut engine = with_gpus(4, 0b11);
    let halves = [(); 2].map(|()| submit(&mut engine, gpus(500)));
    let whole = submit(&mut engine, gpus(1000));
    let late = submit(&mut engine, gpus(250));
    assert!(engine.is_sent(halves[0]) && engine.is_sent(halves[1]) && engine.is_sent(whole));
    assert!(!engine.is_sent(late), "one GPU is shared by two halves, the other one is taken");
    let devices = |engine: &Engine, task| engine.record(task).devices;
    assert_eq!(devices(&engine, halves[0]), devices(&engine, halves[1]));
    assert_eq!(devices(&engine, halves[0]) | devices(&engine, whole), 0b11);
    let _outcome = engine.answer(halves[0], Returned);
    assert!(engine.is_sent(late));
}

#[test]
fn shares_are_packed_whatever_gpus_the_workers_have_used() {
    let mut engine = with_gpus(4, 0b11);
    let wholes = [(); 2].map(|()| submit(&mut engine, gpus(1000)));
    for whole in wholes {
        let _outcome = engine.answer(whole, Returned);
    }
    let halves = [(); 2].map(|()| submit(&mut engine, gpus(500)));
    let whole = submit(&mut engine, gpus(1000));
    let devices = |task| engine.record(task).devices;
    assert_eq!(devices(halves[0]), devices(halves[1]), "two halves fill one GPU");
    assert_eq!(devices(halves[0]) | devices(whole), 0b11, "the other GPU is free");
    assert!(engine.port.retired.is_empty(), "a worker that has used no GPU takes the second half");
}

#[test]
fn a_small_share_goes_to_the_gpu_with_the_least_room_for_it() {
    let mut engine = with_gpus(4, 0b111);
    let large = [700, 600].map(|share| submit(&mut engine, gpus(share)));
    let small = submit(&mut engine, gpus(300));
    assert_eq!(engine.record(small).devices, engine.record(large[0]).devices);
    let _outcome = engine.answer(small, Returned);
    let middle = submit(&mut engine, gpus(400));
    assert_eq!(engine.record(middle).devices, engine.record(large[1]).devices);
}

#[test]
fn a_worker_that_has_used_other_gpus_is_replaced() {
    let mut engine = with_gpus(1, 0b11);
    let one = submit(&mut engine, gpus(1000));
    let _outcome = engine.answer(one, Returned);
    let again = submit(&mut engine, gpus(1000));
    assert!(engine.is_sent(again), "the same GPU is taken again, which spares a start");
    let _outcome = engine.answer(again, Returned);
    let both = submit(&mut engine, gpus(2000));
    assert!(!engine.is_sent(both));
    assert_eq!(engine.port.retired, [0]);
    engine.lose(0);
    engine.pass(100_000_000);
    engine.up(0);
    assert_eq!(engine.record(both).devices, 0b11);
}

#[test]
fn what_a_lost_worker_ran_gives_back_what_it_had() {
    let mut engine = with_gpus(2, 0b1);
    let first = submit(&mut engine, ResourceRequest { cores: 2, gpus: 1000, memory: 60 });
    engine.start(first);
    engine.lose(engine.record(first).slot);
    assert_eq!(engine.status(first), Some(Status::Lost));
    engine.core.audit();
    let next =
        submit(&mut engine, ResourceRequest { gpus: 1000, memory: 60, ..ResourceRequest::NONE });
    assert!(engine.is_sent(next));
}

#[test]
fn one_that_is_cancelled_while_it_gathers_lets_go() {
    let mut engine = engine(2);
    let small = engine.submit();
    engine.start(small);
    let wide = submit(&mut engine, WIDE);
    let waiting = engine.submit();
    assert!(!engine.is_sent(waiting));
    let mode = gristmill_core::CancelMode::Unstarted;
    let _outcome = engine.core.cancel(wide, mode, engine.now, &mut engine.port);
    assert!(engine.is_sent(waiting));
    engine.core.audit();
}

#[test]
fn what_can_never_run_is_refused_at_once() {
    let mut engine = with_gpus(2, 0b1);
    let mut refused = |demand| {
        let options = TaskOptions { demand, ..TaskOptions::default() };
        engine.submit_as(&[], Some(options), Origin::External).expect_err("it never fits")
    };
    let text = |error: SubmitError| error.to_string();
    let wide = refused(ResourceRequest { cores: 3, ..ResourceRequest::NONE });
    assert_eq!(text(wide), "the task needs 3 workers, and the executor has 2 workers");
    let memory = refused(ResourceRequest { memory: 101, ..ResourceRequest::NONE });
    assert_eq!(
        text(memory),
        "the task needs 101 bytes of memory, and the executor has 100 bytes of memory"
    );
    let more = refused(gpus(2000));
    let mut bare = with_gpus(1, 0);
    for (share, words) in [(500, "0.5 of a GPU"), (1000, "1 GPU"), (3000, "3 GPUs")] {
        let options = TaskOptions { demand: gpus(share), ..TaskOptions::default() };
        let refusal = bare.submit_as(&[], Some(options), Origin::External).expect_err("no GPU");
        assert_eq!(text(refusal), format!("the task needs {words}, and the executor has no GPU"));
    }
    assert_eq!(text(more), "the task needs 2 GPUs, and the executor has 1 GPU");
}

#[test]
fn a_child_that_needs_what_its_waiting_parent_has_is_an_error_and_not_a_hang() {
    let mut engine = with_gpus(2, 0b1);
    let parent = submit(&mut engine, gpus(1000));
    engine.start(parent);
    let slot = engine.core.task(parent).unwrap().slot.unwrap();
    let options = TaskOptions { demand: gpus(500), ..TaskOptions::default() };
    let child = engine.submit_as(&[], Some(options), Origin::Nested { slot, parent }).unwrap();
    engine.core.waiting(slot, parent, true, engine.now, &mut engine.port);
    assert_eq!(engine.status(child), Some(Status::Refused));
}

/// Submits a child with a demand, and lets its parent wait for it. Returns the child.
fn waiting_for_child(engine: &mut Engine, parent: TaskId, demand: ResourceRequest) -> TaskId {
    let slot = engine.core.task(parent).unwrap().slot.unwrap();
    let options = TaskOptions { demand, ..TaskOptions::default() };
    let child = engine.submit_as(&[], Some(options), Origin::Nested { slot, parent }).unwrap();
    engine.core.waiting(slot, parent, true, engine.now, &mut engine.port);
    engine.core.audit();
    child
}

#[test]
fn a_wide_task_lets_go_of_places_that_are_not_enough_while_a_stack_waits() {
    let mut engine = with_gpus(2, 0);
    let parent = engine.submit();
    engine.start(parent);
    let wide = submit(&mut engine, WIDE);
    assert!(!engine.is_sent(wide), "it has one CPU slot and wants the other");
    let child = waiting_for_child(&mut engine, parent, MEMORY);
    assert!(engine.is_sent(child), "else the parent would wait for ever");
    let _outcome = engine.answer(child, Returned);
    let _outcome = engine.answer(parent, Returned);
    assert!(engine.is_sent(wide));
    engine.core.audit();
}

#[test]
fn what_starves_is_refused_even_if_others_wait_too() {
    let mut engine = with_gpus(1, 0);
    let parent = engine.submit();
    engine.start(parent);
    let other = engine.submit();
    let child = waiting_for_child(&mut engine, parent, MEMORY);
    assert_eq!(engine.status(child), Some(Status::Refused), "its parent has the only CPU slot");
    let _outcome = engine.answer(parent, Returned);
    assert!(engine.is_sent(other));
}

#[test]
fn places_that_are_lent_do_not_keep_one_from_being_refused_that_is_too_deep() {
    let mut engine = engine(2);
    let wide = submit(&mut engine, WIDE);
    engine.start(wide);
    let child = waiting_for_child(&mut engine, wide, ResourceRequest::NONE);
    let _outcome = engine.answer(child, Declined);
    assert_eq!(engine.status(child), Some(Status::Refused));
}

#[test]
fn cpu_slots_that_a_task_releases_without_a_worker_are_used_at_once() {
    let supply = Supply { memory: 100, gpus: 0 };
    let mut engine = starting(Config { workers: 3, spare_max: 0, supply, ..Config::default() });
    engine.up(1);
    engine.up(2);
    let wide = submit(&mut engine, ResourceRequest { cores: 3, ..MEMORY });
    let options = TaskOptions { demand: MEMORY, priority: 1, ..TaskOptions::default() };
    let urgent = engine.submit_with(options);
    let small = engine.submit();
    assert!(engine.is_sent(urgent) && !engine.is_sent(wide));
    let failure = StartFailure { text: "no worker".into(), permanent: true, is_expiry: false };
    engine.core.slot_failed(SlotId(0), failure, engine.now, &mut engine.port);
    assert!(engine.is_sent(small), "a worker idles");
    engine.core.audit();
}

#[test]
fn what_gathers_gives_way_to_a_task_of_a_higher_priority() {
    let supply = Supply { memory: 100, gpus: 0 };
    let mut engine = starting(Config { workers: 3, spare_max: 0, supply, ..Config::default() });
    engine.up(1);
    engine.up(2);
    let wide = submit(&mut engine, ResourceRequest { cores: 3, ..MEMORY });
    let options = TaskOptions { demand: MEMORY, priority: 1, ..TaskOptions::default() };
    let urgent = engine.submit_with(options);
    assert!(engine.is_sent(urgent) && !engine.is_sent(wide));
    engine.core.audit();
}
