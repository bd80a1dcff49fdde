//! Tasks that need more than a worker, and peers that have it.

use gristmill_core::{Status, TaskId, TaskOptions};
use gristmill_wire::ResourceRequest;

use crate::fake::Engine;
use crate::faraway::{client_of, returned};

fn submit(engine: &mut Engine, cores: u16) -> TaskId {
    let demand = ResourceRequest { cores, ..ResourceRequest::NONE };
    engine.submit_with(TaskOptions { demand, ..TaskOptions::default() })
}

#[test]
fn a_wide_task_goes_where_fewest_places_are_taken() {
    let mut engine = client_of(&[2, 4, 4]);
    let mut peers = [3, 3].map(|cores| {
        let task = submit(&mut engine, cores);
        engine.peer_of(task)
    });
    peers.sort_unstable();
    assert_eq!(peers, [Some(1), Some(2)]);
    let narrow = submit(&mut engine, 2);
    assert_eq!(engine.peer_of(narrow), Some(0));
    let late = submit(&mut engine, 2);
    assert_eq!(engine.peer_of(late), None, "no peer has two CPU slots left");
    engine.core.audit();
}

#[test]
fn a_wide_task_goes_where_its_large_argument_is_if_there_is_room_for_it() {
    let mut engine = client_of(&[4, 4, 4]);
    engine.port.holders = vec![1];
    engine.port.fetch_ns = 1_000_000;
    let demand = ResourceRequest { cores: 2, ..ResourceRequest::NONE };
    let peers = [(); 3].map(|()| {
        let options = TaskOptions { demand, is_bulky: true, ..TaskOptions::default() };
        let task = engine.submit_with(options);
        engine.peer_of(task)
    });
    assert_eq!(peers[..2], [Some(1); 2]);
    assert_ne!(peers[2], Some(1), "its CPU slots are taken");
    engine.core.audit();
}

#[test]
fn the_only_peer_among_many_that_is_wide_enough_is_found() {
    for fitting in [0, 70, 199] {
        let mut workers = [1; 200];
        workers[fitting] = 3;
        let mut engine = client_of(&workers);
        let wide = submit(&mut engine, 3);
        engine.core.audit();
        engine.pass(1_000_000);
        assert_eq!(engine.peer_of(wide).map(usize::from), Some(fitting));
        engine.core.audit();
        assert_eq!(engine.core.next_wake(engine.now), None, "nothing is looked for any more");
    }
}

#[test]
fn what_has_just_got_room_is_used_at_once_however_many_peers_there_are() {
    let mut engine = client_of(&[2; 200]);
    let wide: Vec<TaskId> = (0..200).map(|_| submit(&mut engine, 2)).collect();
    engine.pass(1_000_000);
    assert!(wide.iter().all(|&task| engine.peer_of(task).is_some()), "each peer has one");
    let late = [submit(&mut engine, 2), submit(&mut engine, 2)];
    engine.pass(1_000_000);
    for (task, next) in [wide[150], wide[3]].into_iter().zip(late) {
        let peer = engine.peer_of(task);
        let _outcome = engine.reply(task, returned());
        assert_eq!(engine.peer_of(next), peer, "its CPU slots are taken again");
    }
    assert_eq!(engine.status(wide[3]), Some(Status::Succeeded));
}

#[test]
fn one_that_waits_in_vain_is_followed_by_one_that_fits() {
    let mut engine = client_of(&[2; 100]);
    let vain = submit(&mut engine, 3);
    let fitting = submit(&mut engine, 2);
    engine.pass(1_000_000);
    assert_eq!((engine.peer_of(vain), engine.peer_of(fitting)), (None, None), "in turn");
    let mode = gristmill_core::CancelMode::Unstarted;
    let _outcome = engine.core.cancel(vain, mode, engine.now, &mut engine.port);
    engine.pass(1_000_000);
    assert!(engine.peer_of(fitting).is_some());
    engine.core.audit();
}

#[test]
fn one_that_comes_before_those_that_wait_is_looked_at_although_it_needs_the_same_things() {
    let mut engine = client_of(&[4]);
    let held = submit(&mut engine, 2);
    let demand = ResourceRequest { cores: 4, ..ResourceRequest::NONE };
    let late = engine.submit_with(TaskOptions { demand, priority: -1, ..TaskOptions::default() });
    assert_eq!(engine.peer_of(late), None, "two of its four CPU slots are taken");
    let sooner = submit(&mut engine, 2);
    assert!(engine.peer_of(sooner).is_some(), "there are CPU slots for this one");
    engine.core.audit();
    let _outcome = engine.reply(held, returned());
    let _outcome = engine.reply(sooner, returned());
    assert!(engine.peer_of(late).is_some());
}
