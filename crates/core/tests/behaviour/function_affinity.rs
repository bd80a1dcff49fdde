//! Affinity of functions: a function goes to its own peer while a worker there idles.

use gristmill_core::{FunctionId, Origin, Payload, Submission, TaskId};

use crate::fake::Engine;
use crate::faraway::{client_of, returned};

fn call(engine: &mut Engine, function: u32) -> TaskId {
    let submission = Submission {
        function: FunctionId(function),
        payload: Payload::EMPTY,
        handle: 0,
        submitted_ticks: 0,
        parents: &[],
        options: None,
        origin: Origin::External,
    };
    engine.core.submit(submission, engine.now, &mut engine.port).unwrap()
}

/// Returns the peer of a call when no other task is outstanding.
fn home(engine: &mut Engine, function: u32) -> u16 {
    let task = call(engine, function);
    let peer = engine.peer_of(task).expect("all are idle");
    let _outcome = engine.reply(task, returned());
    peer
}

#[test]
fn a_function_goes_where_it_went_before() {
    let mut engine = client_of(&[2, 2, 2, 2]);
    let homes: Vec<u16> = (0..40).map(|function| home(&mut engine, function)).collect();
    for (function, &at) in (0..).zip(&homes) {
        assert_eq!(home(&mut engine, function), at);
    }
    for peer in 0..4 {
        assert!(homes.contains(&peer), "functions are spread: {homes:?}");
    }
}

#[test]
fn nothing_waits_at_home_while_a_peer_idles() {
    let mut engine = client_of(&[2, 2, 2, 2]);
    let mut counts = [0; 4];
    for _ in 0..8 {
        let task = call(&mut engine, 7);
        counts[usize::from(engine.peer_of(task).unwrap())] += 1;
    }
    assert_eq!(counts, [2; 4]);
}

#[test]
fn a_function_whose_home_is_gone_goes_elsewhere() {
    let mut engine = client_of(&[1, 1, 1]);
    let at = home(&mut engine, 3);
    engine.lose_peer(at, &[]);
    assert_ne!(home(&mut engine, 3), at);
}
