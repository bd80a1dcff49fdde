//! Priorities across peers for tasks in contexts, and for tasks that need more than a worker: a task that waits at one
//! peer goes before those of a lower priority at every other one.

use gristmill_core::{Config, ContextId, Epoch, Floor, PeerId, PeerOffer, TaskId, TaskOptions};
use gristmill_wire::ResourceRequest;
use gristmill_wire::Verdict::{Returned, Skipped};

use crate::contexts::{MODEL, OTHER, define, settle, submit_in};
use crate::fake::{Engine, engine, engine_with};
use crate::faraway::{client_of, returned};
use crate::raising::{LONG_NS, NONE, PLAIN};

fn in_context(context: ContextId, priority: i32) -> TaskOptions {
    TaskOptions { context, priority, ..TaskOptions::default() }
}

fn demanding(demand: ResourceRequest, priority: i32) -> TaskOptions {
    TaskOptions { demand, priority, ..TaskOptions::default() }
}

const fn wide(cores: u16) -> ResourceRequest {
    ResourceRequest { cores, ..ResourceRequest::NONE }
}

/// Returns a client whose peers have as many long calls in a context as they take. Others wait.
fn busy_in_context(peers: &[u32]) -> Engine {
    let mut engine = client_of(peers);
    define(&mut engine, MODEL);
    define(&mut engine, OTHER);
    engine.teach_peers(LONG_NS);
    let calls: Vec<TaskId> = (0..60).map(|_| submit_in(&mut engine, MODEL)).collect();
    assert_eq!(engine.peer_of(calls[59]), None, "there is no room for all");
    engine
}

#[test]
fn a_call_that_waits_at_one_peer_is_a_floor_for_its_context_and_goes_to_the_first_vacant_worker() {
    let mut engine = busy_in_context(&[1, 1, 1]);
    let high = engine.submit_with(in_context(MODEL, 10));
    let first = engine.peer_of(high).expect("its engine runs it first");
    assert_eq!(engine.floors_in(MODEL, 3), [10, 10, 10]);
    assert_eq!((engine.floors(3), engine.floors_in(OTHER, 3)), (vec![NONE; 3], vec![NONE; 3]));
    let other = (first + 1) % 3;
    let mark = engine.port.marks[&(other, MODEL)].1;
    engine.vacant_in(PLAIN, other, (1, mark));
    engine.vacant_in(OTHER, other, (1, mark));
    assert!(engine.port.withdrawn.is_empty(), "these are not for it");
    engine.vacant_in(MODEL, other, (1, mark));
    assert_eq!(engine.port.withdrawn, [high]);
    engine.give_back(high);
    assert_eq!(engine.peer_of(high), Some(other));
    assert_eq!(engine.floors_in(MODEL, 3), [NONE; 3], "it begins there at once");
}

#[test]
fn calls_in_two_contexts_have_floors_of_their_own() {
    let mut engine = busy_in_context(&[1, 1]);
    for _ in 0..20 {
        let _low = submit_in(&mut engine, OTHER);
    }
    let high = engine.submit_with(in_context(MODEL, 10));
    let other = engine.submit_with(in_context(OTHER, 5));
    assert!(engine.peer_of(other).is_some());
    assert_eq!((engine.floors_in(MODEL, 2), engine.floors_in(OTHER, 2)), (vec![10; 2], vec![5; 2]));
    let _outcome = engine.reply(high, returned());
    assert_eq!(
        (engine.floors_in(MODEL, 2), engine.floors_in(OTHER, 2)),
        (vec![NONE; 2], vec![5; 2])
    );
    let _outcome = engine.reply(other, returned());
    assert_eq!(engine.floors_in(OTHER, 2), [NONE, NONE]);
}

#[test]
fn a_peer_has_the_floor_of_a_context_before_the_first_call_in_it_comes() {
    let mut engine = busy_in_context(&[1, 1]);
    let _high = engine.submit_with(in_context(MODEL, 10));
    let sent = engine.port.delegated.len();
    engine.port.full_peers = vec![2];
    engine.join(2, 1, 0);
    assert_eq!((engine.port.delegated.len(), engine.floors_in(MODEL, 3)), (sent, vec![10, 10, 10]));
}

#[test]
fn a_call_goes_to_a_peer_however_many_lower_ones_in_its_context_are_there() {
    let mut engine = busy_in_context(&[1, 1]);
    let high: Vec<TaskId> = (0..2).map(|_| engine.submit_with(in_context(MODEL, 10))).collect();
    let mut peers: Vec<_> = high.iter().map(|&task| engine.peer_of(task)).collect();
    peers.sort_unstable();
    assert_eq!(peers, [Some(0), Some(1)]);
}

#[test]
fn a_client_s_floor_for_a_context_holds_its_workers_and_no_others() {
    let mut engine = engine(2);
    engine.teach(50_000_000);
    define(&mut engine, MODEL);
    engine.port.spawned.clear();
    let call = submit_in(&mut engine, MODEL);
    settle(&mut engine);
    engine.start(call);
    let running = engine.submit();
    engine.start(running);
    let waiting = submit_in(&mut engine, MODEL);
    let floor = Floor::of(10);
    engine.core.set_peers_floor((PeerId(0), MODEL), (floor, 1), engine.now, &mut engine.port);
    let _outcome = engine.answer(call, Returned);
    if engine.is_sent(waiting) {
        let _outcome = engine.answer(waiting, Skipped);
    }
    assert!(!engine.is_sent(waiting));
    assert_eq!((&engine.port.vacant[..], engine.port.vacant_in), (&[(0, 1)][..], MODEL));
    let _outcome = engine.answer(running, Returned);
    let plain = engine.submit();
    assert!(engine.is_sent(plain), "it has no context");
    engine.core.set_peers_floor((PeerId(0), MODEL), (Floor::NONE, 2), engine.now, &mut engine.port);
    assert!(engine.is_sent(waiting));
    engine.core.audit();
}

/// Returns a client whose peers have these numbers of workers, all with long tasks, and this much memory and these
/// GPUs.
fn equipped(peers: &[(u32, u64, u32)]) -> Engine {
    let mut engine = client_of(&[]);
    for (peer, &(workers, memory, gpus)) in (0..).zip(peers) {
        let offer = PeerOffer { workers, round_trip_ns: 0, ends_at_ns: u64::MAX, gpus, memory };
        engine.core.peer_joined(PeerId(peer), Epoch(1), offer, engine.now, &mut engine.port);
    }
    engine.teach_peers(LONG_NS);
    for _ in 0..60 {
        let _low = engine.submit();
    }
    engine
}

#[test]
fn a_task_that_needs_memory_and_waits_is_a_floor_at_the_peers_that_have_it() {
    let mut engine = equipped(&[(1, 100, 0), (1, 100, 0), (1, 10, 0)]);
    let memory = ResourceRequest { memory: 50, ..ResourceRequest::NONE };
    let high = engine.submit_with(demanding(memory, 10));
    let first = engine.peer_of(high).expect("one has memory for it");
    assert_eq!(engine.floors(3), [10, 10, NONE]);
    engine.vacant(1 - first, 1);
    assert_eq!(engine.port.withdrawn, [high]);
    engine.give_back(high);
    assert_eq!(engine.peer_of(high), Some(1 - first));
    assert_eq!(engine.floors(3), [NONE; 3]);
    let _outcome = engine.reply(high, returned());
    engine.core.audit();
}

#[test]
fn a_task_that_needs_a_gpu_is_no_floor_where_all_gpus_are_in_use() {
    let mut engine = equipped(&[(2, 0, 1), (2, 0, 1)]);
    let gpu = ResourceRequest { gpus: 1_000, ..ResourceRequest::NONE };
    let running = engine.submit_with(demanding(gpu, 0));
    let place = engine.peer_of(running).unwrap();
    let high = engine.submit_with(demanding(gpu, 10));
    assert_eq!(engine.peer_of(high), Some(1 - place));
    let mut floors = vec![NONE; 2];
    floors[usize::from(1 - place)] = 10;
    assert_eq!(engine.floors(2), floors, "what runs there goes on with its GPU");
    let _outcome = engine.reply(running, returned());
    assert_eq!(engine.floors(2), [10, 10], "it could run there now");
}

#[test]
fn workers_are_kept_for_a_wide_task_until_they_are_enough() {
    let mut engine = equipped(&[(2, 0, 0), (2, 0, 0), (1, 0, 0)]);
    let high = engine.submit_with(demanding(wide(2), 10));
    let first = engine.peer_of(high).unwrap();
    assert_eq!(engine.floors(3), [10, 10, NONE], "the last one is too narrow");
    let floors = engine.port.floors_of_peers.iter();
    assert!(floors.clone().all(|(.., floor)| floor.places == 2));
    engine.vacant(1 - first, 1);
    assert!(engine.port.withdrawn.is_empty(), "it needs another one");
    assert_eq!(engine.floors(3), [10, 10, NONE], "that one is kept");
    engine.vacant(1 - first, 2);
    assert_eq!(engine.port.withdrawn, [high]);
    engine.give_back(high);
    assert_eq!((engine.peer_of(high), engine.floors(3)), (Some(1 - first), vec![NONE; 3]));
}

#[test]
fn a_task_goes_to_a_peer_where_lower_ones_have_what_it_needs() {
    let mut engine = equipped(&[(2, 0, 0), (2, 0, 0)]);
    let low: Vec<TaskId> = (0..3).map(|_| engine.submit_with(demanding(wide(2), 0))).collect();
    assert_eq!(engine.peer_of(low[2]), None, "no peer has two CPU slots left");
    let high = engine.submit_with(demanding(wide(2), 10));
    assert!(engine.peer_of(high).is_some(), "its engine runs it first");
    let second = engine.submit_with(demanding(wide(2), 10));
    assert_ne!(engine.peer_of(high), engine.peer_of(second));
    let third = engine.submit_with(demanding(wide(2), 10));
    assert_eq!(engine.peer_of(third), None, "those have no lower priority");
}

#[test]
fn what_no_lower_task_is_beside_of_is_no_floor() {
    let mut engine = equipped(&[(2, 0, 0), (2, 0, 0)]);
    let high = engine.submit_with(demanding(wide(2), 10));
    assert_eq!(engine.floors(2), [10, 10]);
    let mode = gristmill_core::CancelMode::Unstarted;
    for &task in &engine.port.delegated.iter().map(|delegated| delegated.task).collect::<Vec<_>>() {
        if task != high {
            let _outcome = engine.core.cancel(task, mode, engine.now, &mut engine.port);
        }
    }
    for task in engine.port.withdrawn.clone() {
        engine.give_back(task);
    }
    while let Some(low) =
        engine.port.delegated.iter().map(|delegated| delegated.task).find(|&one| one != high)
    {
        let _outcome = engine.reply(low, returned());
    }
    assert_eq!(engine.floors(2), [NONE, NONE]);
}

#[test]
fn a_floor_for_several_workers_does_not_hold_where_tasks_wait_in_them() {
    let mut engine = engine_with(Config { workers: 2, spare_max: 0, ..Config::default() });
    engine.teach(50_000_000);
    let parent = engine.submit();
    engine.start(parent);
    let floor = Floor { wide: 10, places: 2, ..Floor::NONE };
    engine.core.set_peers_floor((PeerId(0), PLAIN), (floor, 1), engine.now, &mut engine.port);
    let low = engine.submit();
    assert!(!engine.is_sent(low), "two workers could be had");
    let slot = engine.core.task(parent).unwrap().slot.unwrap();
    engine.core.waiting(slot, parent, true, engine.now, &mut engine.port);
    settle(&mut engine);
    assert!(engine.is_sent(low), "what waits may wait for it");
    engine.core.audit();
}

#[test]
fn a_task_goes_to_the_vacant_peer_though_lower_ones_that_need_the_same_were_sent_there() {
    let mut engine = equipped(&[(1, 100, 0), (1, 100, 0)]);
    let memory = ResourceRequest { memory: 50, ..ResourceRequest::NONE };
    for _ in 0..4 {
        let _low = engine.submit_with(demanding(memory, 0));
    }
    let high = engine.submit_with(demanding(memory, 10));
    let first = engine.peer_of(high).unwrap();
    let other = 1 - first;
    // The worker of that peer idles, and gets a task of a lower priority.
    while let Some(delegated) =
        engine.port.delegated.iter().find(|delegated| delegated.peer == other).cloned()
    {
        let _outcome = engine.reply(delegated.task, returned());
        if engine.port.delegated.iter().filter(|delegated| delegated.peer == other).count() == 1 {
            break;
        }
    }
    engine.vacant(other, 1);
    assert_eq!(engine.port.withdrawn, [high]);
    engine.give_back(high);
    assert_eq!(engine.peer_of(high), Some(other));
}
