//! Tasks with large arguments, and the peers that have these arguments.

use gristmill_core::{
    Block, Epoch, Origin, Payload, PeerEnd, PeerId, PeerOffer, TaskId, TaskOptions,
};

use crate::fake::Engine;
use crate::faraway::{client_of, returned};

const MS: u64 = 1_000_000;

/// Returns a client of peers. The peers in `holders` have the arguments of its tasks; others need `fetch_ns` to fetch
/// them.
fn client_whose(peers: &[u32], holders: &[u16], fetch_ns: u64) -> Engine {
    let mut engine = client_of(peers);
    engine.port.holders = holders.to_vec();
    engine.port.fetch_ns = fetch_ns;
    engine
}

fn submit(engine: &mut Engine) -> TaskId {
    engine.submit_with(TaskOptions { is_bulky: true, ..TaskOptions::default() })
}

fn goes_to(engine: &mut Engine) -> Option<u16> {
    let task = submit(engine);
    engine.peer_of(task)
}

#[test]
fn a_large_argument_is_run_where_it_is() {
    let mut engine = client_whose(&[1, 1, 1], &[2], MS);
    for _ in 0..3 {
        let task = submit(&mut engine);
        assert_eq!(engine.peer_of(task), Some(2));
        let _outcome = engine.reply(task, returned());
    }
    let small = engine.spread_over_peers(1);
    assert_ne!(small, [Some(2)], "others go on as before");
}

#[test]
fn a_task_runs_where_a_large_result_is_that_it_needs() {
    let mut engine = client_whose(&[1, 1, 1], &[2], MS);
    for (size, is_there) in [(1 << 20, true), (1 << 19, false)] {
        let made = engine.submit();
        let result = Payload::in_arena(Block { offset: 0, size });
        let _outcome = engine.reply(made, PeerEnd::Returned(result));
        let child = engine.submit_after(&[made]);
        assert_eq!(engine.peer_of(child) == Some(2), is_there, "{size} bytes");
    }
}

#[test]
fn who_has_it_and_is_busy_is_waited_for_as_long_as_fetching_it_takes() {
    for (fetch_ns, expected) in [(2 * MS, 1), (MS / 2, 0)] {
        let mut engine = client_whose(&[1, 1], &[1], fetch_ns);
        engine.teach_peers(MS);
        assert_eq!(goes_to(&mut engine), Some(1));
        assert_eq!(goes_to(&mut engine), Some(expected));
    }
}

#[test]
fn who_has_it_and_may_be_busy_for_hours_is_not_waited_for() {
    let mut engine = client_whose(&[1, 1], &[1], u64::MAX);
    assert_eq!([goes_to(&mut engine), goes_to(&mut engine)], [Some(1), Some(0)]);
}

#[test]
fn who_gets_what_its_tasks_waited_for_may_have_something_to_give_back() {
    let mut engine = client_whose(&[1, 1], &[1], u64::MAX);
    engine.teach_peers(MS);
    assert_eq!([goes_to(&mut engine), goes_to(&mut engine)], [Some(1); 2]);
    engine.pass(MS);
    assert_eq!(engine.port.recalled, [(1, 1)]);
    engine.recalled(1);
    engine.pass(MS);
    assert_eq!(engine.port.recalled.len(), 1, "it had nothing to give");
    engine.core.peer_supplied(PeerId(1));
    engine.core.audit();
    engine.pass(MS);
    assert_eq!(engine.port.recalled, [(1, 1); 2]);
}

#[test]
fn of_those_that_have_it_the_least_busy_one_is_taken() {
    let mut engine = client_whose(&[2, 2, 2], &[1, 2], MS);
    let peers: Vec<_> = (0..4).map(|_| goes_to(&mut engine)).collect();
    assert_eq!(peers.iter().filter(|peer| **peer == Some(1)).count(), 2);
    assert_eq!(peers.iter().filter(|peer| **peer == Some(2)).count(), 2);
}

#[test]
fn who_has_it_and_gets_nothing_more_is_not_waited_for() {
    let mut engine = client_whose(&[1, 1], &[1, 7], u64::MAX);
    engine.core.peer_draining(PeerId(1), engine.now, &mut engine.port);
    assert_eq!(goes_to(&mut engine), Some(0));
    let mut full = client_whose(&[1, 1], &[1], u64::MAX);
    full.port.full_peers = vec![1];
    assert_eq!(goes_to(&mut full), Some(0));
    let mut ending = client_whose(&[1, 1], &[1], u64::MAX);
    ending.teach_peers(MS);
    let offer = PeerOffer { ends_at_ns: ending.now + MS / 2, ..PeerOffer::of_workers(1) };
    ending.core.peer_joined(PeerId(1), Epoch(1), offer, ending.now, &mut ending.port);
    assert_eq!(goes_to(&mut ending), Some(0));
}

#[test]
fn nothing_goes_back_to_who_sent_it_whatever_is_there() {
    let mut engine = client_whose(&[1, 1], &[1], u64::MAX);
    let options = TaskOptions { is_bulky: true, ..TaskOptions::default() };
    let task = engine.submit_as(&[], Some(options), Origin::Peer(PeerId(1))).unwrap();
    assert_eq!(engine.peer_of(task), Some(0));
}
