//! Peers whose workers die again and again.

use gristmill_core::{Budgets, PeerEnd, PeerId, TaskId, TaskOptions};

use crate::fake::Engine;
use crate::faraway::{client_of, death, returned};

const MINUTE_NS: u64 = 60_000_000_000;

fn died() -> PeerEnd {
    PeerEnd::Lost(death())
}

/// Submits a task that survives many deaths of its workers.
fn submit(engine: &mut Engine) -> TaskId {
    let budgets = Budgets { loss_retries: 100, ..Budgets::default() };
    engine.submit_with(TaskOptions { budgets: Some(budgets), ..TaskOptions::default() })
}

/// Reports the death of a peer's workers under this many tasks.
fn kill(engine: &mut Engine, peer: u16, count: usize) {
    for _ in 0..count {
        let here =
            |engine: &Engine| engine.port.delegated.iter().find(|one| one.peer == peer).cloned();
        while here(engine).is_none() {
            submit(engine);
        }
        let task = here(engine).expect("it has one").task;
        let _outcome = engine.reply(task, died());
    }
}

fn is_distrusted(engine: &Engine, peer: u16) -> bool {
    engine.core.is_distrusted(PeerId(peer))
}

#[test]
fn a_peer_that_keeps_losing_workers_gets_nothing_for_a_while() {
    let mut engine = client_of(&[1, 1]);
    kill(&mut engine, 0, 4);
    assert!(!is_distrusted(&engine, 0));
    kill(&mut engine, 0, 1);
    assert!(is_distrusted(&engine, 0) && !is_distrusted(&engine, 1));
    engine.recalled(0);
    let tasks: Vec<TaskId> = (0..4).map(|_| submit(&mut engine)).collect();
    assert!(tasks.iter().all(|&task| engine.peer_of(task) != Some(0)));
    engine.pass(MINUTE_NS);
    assert!(!is_distrusted(&engine, 0));
    kill(&mut engine, 0, 1);
    assert!(is_distrusted(&engine, 0), "one more death is enough then");
    engine.pass(MINUTE_NS);
    assert!(is_distrusted(&engine, 0), "and it lasts twice as long");
    engine.pass(MINUTE_NS);
    assert!(!is_distrusted(&engine, 0));
}

#[test]
fn a_task_that_dies_everywhere_costs_no_peer_trust() {
    let mut engine = client_of(&[1, 1]);
    for _ in 0..10 {
        kill(&mut engine, 0, 1);
        kill(&mut engine, 1, 1);
    }
    assert!(!is_distrusted(&engine, 0) && !is_distrusted(&engine, 1));
}

#[test]
fn a_death_elsewhere_saves_no_peer_whose_workers_go_on_dying() {
    let mut engine = client_of(&[1, 1]);
    kill(&mut engine, 0, 3);
    kill(&mut engine, 1, 1);
    kill(&mut engine, 0, 4);
    assert!(!is_distrusted(&engine, 0), "four died since one died elsewhere");
    kill(&mut engine, 0, 1);
    assert!(is_distrusted(&engine, 0) && !is_distrusted(&engine, 1));
}

#[test]
fn a_death_elsewhere_meanwhile_does_not_make_up_for_it() {
    let mut engine = client_of(&[1, 1, 1]);
    kill(&mut engine, 0, 5);
    engine.recalled(0);
    kill(&mut engine, 1, 1);
    engine.pass(MINUTE_NS);
    assert!(!is_distrusted(&engine, 0));
    kill(&mut engine, 0, 1);
    assert!(is_distrusted(&engine, 0), "one more death is enough");
}

#[test]
fn what_dies_there_while_nothing_goes_there_does_not_count_again() {
    let mut engine = client_of(&[8, 1]);
    while engine.port.delegated.iter().filter(|one| one.peer == 0).count() < 8 {
        submit(&mut engine);
    }
    kill(&mut engine, 0, 8);
    assert!(is_distrusted(&engine, 0));
    engine.pass(MINUTE_NS);
    assert!(!is_distrusted(&engine, 0), "it was distrusted once, for a minute");
}

#[test]
fn a_success_makes_up_for_it() {
    let mut engine = client_of(&[1, 1]);
    kill(&mut engine, 0, 4);
    let task = loop {
        let task = submit(&mut engine);
        if engine.peer_of(task) == Some(0) {
            break task;
        }
    };
    let _outcome = engine.reply(task, returned());
    kill(&mut engine, 0, 4);
    assert!(!is_distrusted(&engine, 0));
}

#[test]
fn the_only_peer_is_never_left_out() {
    let mut engine = client_of(&[1]);
    kill(&mut engine, 0, 20);
    assert!(!is_distrusted(&engine, 0));
    let mut engine = client_of(&[1, 1]);
    kill(&mut engine, 0, 5);
    assert!(is_distrusted(&engine, 0));
    engine.lose_peer(1, &[]);
    assert!(!is_distrusted(&engine, 0), "no other peer is left");
}
