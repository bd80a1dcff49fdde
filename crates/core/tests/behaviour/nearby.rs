//! Wide tasks on a machine with several NUMA nodes: their CPU slots are NUMA-local, if enough such slots are free.

use gristmill_core::{Config, SlotId, StartFailure, Status, TaskId, TaskOptions};
use gristmill_wire::ResourceRequest;
use gristmill_wire::Verdict::Returned;

use crate::fake::{Engine, engine_with, starting};

const LEFT: u64 = 0b01;
const RIGHT: u64 = 0b10;

/// Returns an engine with a worker for each of these NUMA node masks.
fn machine(numa_nodes: &[u64]) -> Engine {
    let workers = u16::try_from(numa_nodes.len()).expect("a few");
    let numa_nodes = numa_nodes.to_vec();
    engine_with(Config { workers, numa_nodes, spare_max: 0, ..Config::default() })
}

fn wide(engine: &mut Engine, cores: u16) -> TaskId {
    let demand = ResourceRequest { cores, ..ResourceRequest::NONE };
    engine.submit_with(TaskOptions { demand, ..TaskOptions::default() })
}

fn places(engine: &Engine, task: TaskId) -> Vec<u16> {
    engine.record(task).places
}

fn fail(engine: &mut Engine, slot: u16) {
    let text = "fork: EAGAIN".into();
    let failure = StartFailure { text, permanent: false, is_expiry: false };
    engine.core.slot_failed(SlotId(slot), failure, engine.now, &mut engine.port);
}

#[test]
fn a_wide_task_is_in_one_domain() {
    let mut engine = machine(&[LEFT, RIGHT, LEFT, RIGHT]);
    let (one, other) = (wide(&mut engine, 2), wide(&mut engine, 2));
    assert_eq!((places(&engine, one), places(&engine, other)), (vec![0, 2], vec![1, 3]));
}

#[test]
fn it_goes_where_a_domain_is_free_instead_of_the_first_places() {
    let mut engine = machine(&[LEFT, LEFT, RIGHT, RIGHT]);
    let small = engine.submit();
    assert_eq!(engine.record(small).slot, 0);
    engine.start(small);
    let task = wide(&mut engine, 2);
    assert_eq!(places(&engine, task), [2, 3]);
}

#[test]
fn it_leaves_a_large_domain_to_those_that_fit_nowhere_else() {
    let mut engine = machine(&[LEFT, LEFT, LEFT, RIGHT, RIGHT]);
    let (two, three) = (wide(&mut engine, 2), wide(&mut engine, 3));
    assert_eq!(places(&engine, two), [3, 4]);
    assert_eq!(places(&engine, three), [0, 1, 2]);
}

#[test]
fn what_fits_into_no_domain_is_in_as_few_as_can_be() {
    let mut engine = machine(&[0b001, 0b010, 0b010, 0b100, 0b100]);
    let task = wide(&mut engine, 4);
    assert_eq!(places(&engine, task), [1, 2, 3, 4]);
}

#[test]
fn it_does_not_wait_for_a_domain_while_enough_others_have_nothing_to_do() {
    let mut engine = machine(&[LEFT, LEFT, RIGHT, RIGHT]);
    let small: Vec<TaskId> = (0..4).map(|_| engine.submit()).collect();
    small.iter().for_each(|&task| engine.start(task));
    let task = wide(&mut engine, 2);
    let slot = |engine: &Engine, task| engine.record(task).slot;
    for wanted in [0, 2] {
        let ends =
            small.iter().copied().find(|&one| engine.is_sent(one) && slot(&engine, one) == wanted);
        let _outcome = engine.answer(ends.expect("it runs"), Returned);
    }
    assert_eq!(places(&engine, task), [0, 2]);
}

#[test]
fn where_all_are_busy_it_waits_for_places_of_one_domain() {
    let mut engine = machine(&[LEFT, RIGHT, LEFT, RIGHT]);
    engine.teach(1_000_000);
    let small: Vec<TaskId> = (0..4).map(|_| engine.submit()).collect();
    small.iter().for_each(|&task| engine.start(task));
    let task = wide(&mut engine, 2);
    let more: Vec<TaskId> = (0..8).map(|_| engine.submit()).collect();
    assert!(!engine.is_sent(task));
    for one in small {
        let _outcome = engine.answer(one, Returned);
        engine.core.audit();
    }
    let numa_nodes = |place: &u16| place % 2;
    let given = places(&engine, task);
    assert_eq!(numa_nodes(&given[0]), numa_nodes(&given[1]), "{given:?}");
    assert!(more.iter().any(|&one| engine.is_sent(one)), "the other NUMA node goes on");
}

#[test]
fn the_first_tasks_do_not_take_the_places_of_those_that_are_ready_first() {
    let numa_nodes = vec![LEFT, RIGHT, LEFT, RIGHT];
    let mut engine = starting(Config { workers: 4, numa_nodes, spare_max: 0, ..Config::default() });
    let task = wide(&mut engine, 2);
    for slot in [0, 1] {
        engine.up(slot);
        assert!(!engine.is_sent(task), "two others start, one of them near to either");
    }
    engine.up(3);
    assert_eq!(places(&engine, task), [1, 3]);
}

#[test]
fn it_does_not_wait_for_a_worker_that_does_not_come_up() {
    let numa_nodes = vec![LEFT, RIGHT, LEFT];
    let mut engine = starting(Config { workers: 3, numa_nodes, spare_max: 0, ..Config::default() });
    let task = wide(&mut engine, 2);
    engine.up(0);
    engine.up(1);
    assert!(!engine.is_sent(task));
    fail(&mut engine, 2);
    assert_eq!(places(&engine, task), [0, 1]);
    engine.core.audit();
}

#[test]
fn what_waited_in_vain_for_nearer_places_leaves_them_to_others() {
    let numa_nodes = vec![LEFT, RIGHT, LEFT];
    let mut engine = starting(Config { workers: 3, numa_nodes, spare_max: 0, ..Config::default() });
    let task = wide(&mut engine, 2);
    engine.port.unsendable = Some(task);
    let small = engine.submit();
    engine.up(0);
    engine.up(1);
    assert!(!engine.is_sent(small), "the existing CPU slots are held");
    fail(&mut engine, 2);
    assert_eq!(engine.status(task), Some(Status::Failed));
    assert!(engine.is_sent(small), "no worker has them any more");
    engine.core.audit();
}

#[test]
fn it_waits_for_no_worker_that_could_not_bring_it_nearer() {
    let numa_nodes = vec![LEFT, LEFT, RIGHT];
    let mut engine = starting(Config { workers: 3, numa_nodes, spare_max: 0, ..Config::default() });
    let task = wide(&mut engine, 2);
    engine.up(0);
    engine.up(1);
    assert_eq!(places(&engine, task), [0, 1]);
}

#[test]
fn a_task_of_one_place_is_told_of_none() {
    let mut engine = machine(&[LEFT, RIGHT]);
    let memory = ResourceRequest { memory: 1, ..ResourceRequest::NONE };
    let task = engine.submit_with(TaskOptions { demand: memory, ..TaskOptions::default() });
    assert!(places(&engine, task).is_empty());
}
