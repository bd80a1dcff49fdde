//! Peers that contexts, and tasks without one, share: each context has room there, whatever fills the peers.

use gristmill_core::{
    Config, ContextOptions, Epoch, Origin, PeerId, PeerOffer, TakenResources, TaskId, TaskLocation,
    TaskOptions,
};
use gristmill_wire::ResourceRequest;

use crate::contexts::{MODEL, OTHER, define, submit_in};
use crate::fake::Engine;
use crate::faraway::{client_of, returned};

const LONG_NS: u64 = 100_000_000;

/// Returns a client whose peers have these numbers of workers and as many long tasks without a context as they take.
/// Others wait.
fn filled(peers: &[u32]) -> Engine {
    let mut engine = client_of(peers);
    define(&mut engine, MODEL);
    define(&mut engine, OTHER);
    engine.teach_peers(LONG_NS);
    let tasks: Vec<TaskId> = (0..60).map(|_| engine.submit()).collect();
    assert_eq!(engine.peer_of(tasks[59]), None, "there is no room for all");
    engine
}

fn away_in(engine: &Engine, tasks: &[TaskId]) -> usize {
    tasks.iter().filter(|&&task| engine.peer_of(task).is_some()).count()
}

#[test]
fn a_call_in_a_context_goes_to_a_peer_that_plain_tasks_fill() {
    let mut engine = filled(&[1, 1]);
    let call = submit_in(&mut engine, MODEL);
    assert!(engine.peer_of(call).is_some(), "its share of the peer is free");
    engine.core.audit();
}

#[test]
fn a_plain_task_goes_to_a_peer_that_calls_in_a_context_fill() {
    let mut engine = client_of(&[2]);
    define(&mut engine, MODEL);
    engine.teach_peers(LONG_NS);
    let calls: Vec<TaskId> = (0..60).map(|_| submit_in(&mut engine, MODEL)).collect();
    assert!(away_in(&engine, &calls) < 60, "there is no room for all");
    let plain = [(); 6].map(|()| engine.submit());
    assert_eq!(
        away_in(&engine, &plain),
        2,
        "one for the worker that is its share, and the next one"
    );
    engine.core.audit();
}

#[test]
fn contexts_have_room_beside_each_other() {
    let mut engine = client_of(&[2]);
    define(&mut engine, MODEL);
    define(&mut engine, OTHER);
    engine.teach_peers(LONG_NS);
    let (first, _rest) =
        (submit_in(&mut engine, MODEL), [(); 30].map(|()| submit_in(&mut engine, MODEL)));
    assert!(engine.peer_of(first).is_some());
    let call = submit_in(&mut engine, OTHER);
    assert!(engine.peer_of(call).is_some());
    engine.core.audit();
}

#[test]
fn a_context_has_no_more_there_than_its_share_runs_soon() {
    let mut engine = filled(&[4]);
    let calls: Vec<TaskId> = (0..60).map(|_| submit_in(&mut engine, MODEL)).collect();
    assert_eq!(away_in(&engine, &calls), 4, "two for each of its two workers");
    let others: Vec<TaskId> = (0..60).map(|_| submit_in(&mut engine, OTHER)).collect();
    assert_eq!(away_in(&engine, &others), 4);
    engine.core.audit();
}

#[test]
fn short_calls_have_as_many_under_way_as_their_workers_need() {
    let mut engine = filled(&[1]);
    let call = |engine: &mut Engine| {
        let options = TaskOptions { context: MODEL, ..TaskOptions::default() };
        engine.submit_function(1, &options)
    };
    let first = call(&mut engine);
    let _outcome = engine.reply_in(first, returned(), 20_000);
    let calls: Vec<TaskId> = (0..60).map(|_| call(&mut engine)).collect();
    assert_eq!(
        away_in(&engine, &calls),
        10,
        "200 us at 20 us each, though long tasks fill the peer"
    );
}

#[test]
fn unclaimed_room_goes_to_the_context_with_fewest_tasks_away() {
    let mut engine = client_of(&[2]);
    define(&mut engine, MODEL);
    engine.teach_peers(LONG_NS);
    let plain: Vec<TaskId> = (0..20).map(|_| engine.submit()).collect();
    let calls: Vec<TaskId> = (0..20).map(|_| submit_in(&mut engine, MODEL)).collect();
    let (mut ended, mut order) = (0, Vec::new());
    while order.len() < 20 {
        let oldest = engine.port.delegated[0].task;
        order.push(plain.contains(&oldest));
        let _outcome = engine.reply_in(oldest, returned(), LONG_NS);
        ended += 1;
    }
    let without = order[8..].iter().filter(|&&is_plain| is_plain).count();
    assert!(
        (4..=8).contains(&without),
        "half of what ends has no context, once both wait: {order:?}"
    );
    assert_eq!(ended, 20);
    assert!(away_in(&engine, &calls) > 0 && away_in(&engine, &plain) > 0);
}

#[test]
fn a_stream_of_plain_tasks_does_not_keep_calls_from_peers() {
    let mut engine = filled(&[2, 2]);
    let calls: Vec<TaskId> = (0..20).map(|_| submit_in(&mut engine, MODEL)).collect();
    let mut plain = 0;
    while let Some(first) = engine.port.delegated.first().map(|one| one.task) {
        if calls.iter().all(|&call| engine.status(call).is_some()) {
            break;
        }
        plain += usize::from(!calls.contains(&first));
        let _outcome = engine.reply_in(first, returned(), LONG_NS);
        let _next = engine.submit();
        assert!(plain <= 40, "each call waits for one or two of the others");
    }
}

#[test]
fn a_call_goes_home_while_its_share_there_is_free_and_then_elsewhere() {
    let mut engine = filled(&[4, 4]);
    let calls = [(); 4].map(|()| submit_in(&mut engine, MODEL));
    let peers = calls.map(|call| engine.peer_of(call).unwrap());
    assert_eq!(peers[0], peers[1], "two workers of its home are its share");
    assert_eq!([peers[2], peers[3]], [1 - peers[0]; 2], "one waits for them as soon as elsewhere");
}

#[test]
fn a_peer_that_gives_tasks_back_gets_no_calls_beside_them() {
    let mut engine = filled(&[1]);
    let first = engine.port.delegated[1].task;
    let cancel = gristmill_core::CancelMode::Unstarted;
    let _outcome = engine.core.cancel(first, cancel, engine.now, &mut engine.port);
    let _outcome = engine.reply(first, gristmill_core::PeerEnd::Unstarted);
    let call = submit_in(&mut engine, MODEL);
    assert_eq!(engine.peer_of(call), None, "more may be cancelled");
    engine.pass(10_000_000);
    assert!(engine.peer_of(call).is_some());
    engine.core.audit();
}

#[test]
fn a_peer_that_drains_gets_no_calls_beside_what_it_has() {
    let mut engine = filled(&[1, 1]);
    engine.core.peer_draining(PeerId(0), engine.now, &mut engine.port);
    let calls = [(); 4].map(|()| submit_in(&mut engine, MODEL));
    let peers: Vec<u16> = calls.iter().filter_map(|&call| engine.peer_of(call)).collect();
    assert_eq!(peers, [1, 1]);
    engine.core.audit();
}

#[test]
fn a_call_that_waits_here_is_cancelled_and_explained() {
    let mut engine = filled(&[1]);
    let calls = [(); 5].map(|()| submit_in(&mut engine, MODEL));
    let last = engine.core.location(calls[4]);
    assert_eq!(last, TaskLocation::InContext { context: MODEL, ahead: 2, workers: 0 });
    let cancel = gristmill_core::CancelMode::Unstarted;
    let _outcome = engine.core.cancel(calls[3], cancel, engine.now, &mut engine.port);
    let last = engine.core.location(calls[4]);
    assert_eq!(last, TaskLocation::InContext { context: MODEL, ahead: 1, workers: 0 });
    engine.core.audit();
    engine.core.shut_down(true, engine.now, &mut engine.port);
    engine.core.audit();
}

#[test]
fn calls_that_a_lost_peer_had_wait_in_their_context_again() {
    let mut engine = filled(&[1]);
    let options = TaskOptions {
        budgets: Some(gristmill_core::Budgets { loss_retries: 1, ..Default::default() }),
        context: MODEL,
        ..TaskOptions::default()
    };
    let call = engine.submit_with(options);
    engine.lose_peer(0, &[]);
    assert!(matches!(engine.core.location(call), TaskLocation::InContext { .. }));
    assert_eq!(engine.core.idle_capacity(), 0);
    engine.join(1, 2, 0);
    assert!(engine.peer_of(call).is_some(), "both wait, and there is room for each");
}

#[test]
fn a_priority_holds_beside_shares() {
    let mut engine = filled(&[1]);
    let low: Vec<TaskId> = (0..4).map(|_| submit_in(&mut engine, MODEL)).collect();
    let options = TaskOptions { context: MODEL, priority: 5, ..TaskOptions::default() };
    let high = engine.submit_with(options);
    assert!(engine.peer_of(high).is_some(), "its engine runs it before the others");
    assert_eq!(away_in(&engine, &low), 2);
    engine.core.audit();
}

#[test]
fn a_call_whose_context_needs_a_gpu_goes_beside_plain_tasks_where_one_is() {
    let mut engine = client_of(&[1]);
    let demand = ResourceRequest { gpus: 1000, ..ResourceRequest::NONE };
    let options = ContextOptions { workers_max: u16::MAX, linger_ns: u64::MAX, demand };
    engine.core.define_context(MODEL, options);
    engine.core.define_context(OTHER, options);
    let offer = PeerOffer { gpus: 1, ..PeerOffer::of_workers(1) };
    engine.core.peer_joined(PeerId(1), Epoch(1), offer, engine.now, &mut engine.port);
    engine.teach_peers(LONG_NS);
    let _plain = [(); 20].map(|()| engine.submit());
    let calls = [(); 20].map(|()| submit_in(&mut engine, MODEL));
    let other = submit_in(&mut engine, OTHER);
    assert_eq!(engine.peer_of(calls[0]), Some(1));
    assert_eq!(engine.peer_of(other), Some(1), "calls that need the same do not hold it up");
    engine.core.audit();
}

#[test]
fn a_call_that_no_worker_can_run_delays_no_other_call() {
    let mut engine = client_of(&[1]);
    let demand = ResourceRequest { gpus: 1000, ..ResourceRequest::NONE };
    let options = ContextOptions { workers_max: u16::MAX, linger_ns: u64::MAX, demand };
    engine.core.define_context(MODEL, options);
    define(&mut engine, OTHER);
    let stuck = submit_in(&mut engine, MODEL);
    let found = engine.core.location(stuck);
    let taken = TakenResources::default();
    assert_eq!(found, TaskLocation::Demanding { demand, ahead: 0, taken, is_there: false });
    assert_eq!(engine.core.idle_capacity(), 1);
    let call = submit_in(&mut engine, OTHER);
    assert_eq!(engine.peer_of(call), Some(0));
    let plain = engine.submit();
    assert_eq!(engine.peer_of(plain), Some(0));
    engine.core.audit();
}

#[test]
fn peers_beyond_those_that_are_looked_at_are_found_in_the_end() {
    let peers = [1; 200];
    let mut engine = client_of(&peers);
    let demand = ResourceRequest { gpus: 1000, ..ResourceRequest::NONE };
    let options = ContextOptions { workers_max: u16::MAX, linger_ns: u64::MAX, demand };
    engine.core.define_context(MODEL, options);
    let offer = PeerOffer { gpus: 1, ..PeerOffer::of_workers(1) };
    engine.core.peer_joined(PeerId(200), Epoch(1), offer, engine.now, &mut engine.port);
    engine.teach_peers(LONG_NS);
    let _plain: Vec<TaskId> = (0..1_000).map(|_| engine.submit()).collect();
    let call = submit_in(&mut engine, MODEL);
    engine.pass(10_000_000);
    assert_eq!(engine.peer_of(call), Some(200));
    engine.core.audit();
}

#[test]
fn an_answer_costs_the_same_however_many_contexts_wait() {
    let mut looks = Vec::new();
    for count in [100, 1_600] {
        let mut engine = client_of(&[4, 4]);
        engine.teach_peers(LONG_NS);
        let contexts: Vec<_> = (1..=count).map(gristmill_wire::ContextId).collect();
        contexts.iter().for_each(|&context| define(&mut engine, context));
        for _ in 0..6 {
            for &context in &contexts {
                let _call = submit_in(&mut engine, context);
            }
        }
        let before = engine.core.share_looks();
        for number in 0..50 {
            let delegated = engine.port.delegated[number * 3].task;
            let _outcome = engine.reply_in(delegated, returned(), LONG_NS);
        }
        looks.push(engine.core.share_looks() - before);
        let first = submit_in(&mut engine, contexts[7]);
        assert!(engine.peer_of(first).is_none(), "others of its context wait");
    }
    assert!(looks.iter().all(|&looks| looks <= 50 * 4), "{looks:?}");
}

#[test]
fn what_follows_its_parents_counts_once_it_can_run() {
    let mut engine = client_of(&[1]);
    define(&mut engine, MODEL);
    engine.teach_peers(LONG_NS);
    let parent = submit_in(&mut engine, MODEL);
    let options = TaskOptions { context: MODEL, ..TaskOptions::default() };
    let child = engine.submit_as(&[parent], Some(options), Origin::External).unwrap();
    assert!(engine.peer_of(child).is_some());
    engine.core.audit();
    let plain = [(); 3].map(|()| engine.submit());
    assert_eq!(away_in(&engine, &plain), 2);
    let _outcome = engine.reply_in(parent, returned(), LONG_NS);
    let _outcome = engine.reply_in(child, returned(), LONG_NS);
    assert_eq!(away_in(&engine, &plain), 2, "the third waits for room");
}

#[test]
fn with_workers_of_its_own_a_client_runs_calls_there_and_sends_plain_tasks_away() {
    let mut engine = crate::fake::engine_with(Config { workers: 2, ..Config::default() });
    define(&mut engine, MODEL);
    engine.teach(LONG_NS);
    engine.join(0, 1, 0);
    let plain: Vec<TaskId> = (0..60).map(|_| engine.submit()).collect();
    assert!(away_in(&engine, &plain) > 0);
    let call = submit_in(&mut engine, MODEL);
    assert_eq!(engine.peer_of(call), None);
    let is_asked_for = |engine: &Engine| engine.port.contexts.last() == Some(&MODEL);
    for _ in 0..8 {
        engine.pass(LONG_NS);
        let Some(first) = engine.port.sent.first().map(|one| one.task) else { break };
        engine.start(first);
        let _outcome = engine.answer_in(first, gristmill_wire::Verdict::Returned, LONG_NS);
        for slot in std::mem::take(&mut engine.port.retired) {
            engine.lose(slot);
        }
        if is_asked_for(&engine) {
            return;
        }
    }
    panic!("no worker here is given to the context: {:?}", engine.port.contexts);
}

impl Engine {
    /// Submits a call of another function.
    fn submit_function(&mut self, function: u32, options: &TaskOptions) -> TaskId {
        let submission = gristmill_core::Submission {
            function: gristmill_core::FunctionId(function),
            payload: gristmill_core::Payload::EMPTY,
            handle: 0,
            submitted_ticks: 0,
            parents: &[],
            options: Some(options),
            origin: Origin::External,
        };
        self.core.submit(submission, self.now, &mut self.port).unwrap()
    }
}
