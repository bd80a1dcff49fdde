//! Costs of a peer's loss.

use gristmill_core::{
    Block, Budgets, CancelMode, Epoch, LossCause, LossReport, Payload, PeerEnd, PeerId, PeerOffer,
    SlotId, Status, TaskOptions, TaskOutcome,
};

use crate::fake::Engine;
use crate::faraway::{client_of, returned};

fn with_losses(loss_retries: u16) -> TaskOptions {
    let budgets = Some(Budgets { loss_retries, ..Budgets::default() });
    TaskOptions { budgets, ..TaskOptions::default() }
}

fn raised(engine: &Engine, text: &str) -> LossReport {
    let _ = engine;
    LossReport {
        slot: SlotId(1),
        epoch: Epoch(2),
        pid: 3,
        cause: LossCause::Signal(9),
        node: "n".into(),
        oom: false,
        killed_for: None,
        detail: text.into(),
        loading: "".into(),
    }
}

#[test]
fn what_a_lost_peer_had_not_answered_may_have_begun() {
    let mut engine = client_of(&[2]);
    let (lost, repeated) = (engine.submit(), engine.submit_with(with_losses(1)));
    engine.lose_peer(0, &[]);
    assert_eq!(engine.status(lost), Some(Status::Lost));
    assert_eq!(engine.status(repeated), None);
    engine.join(1, 1, 0);
    assert_eq!(engine.peer_of(repeated), Some(1));
    engine.lose_peer(1, &[]);
    assert_eq!(engine.status(repeated), Some(Status::Lost), "its budget is used up");
}

#[test]
fn what_never_left_for_a_lost_peer_is_placed_again_for_free() {
    let mut engine = client_of(&[4]);
    let (sent, unsent) = (engine.submit(), engine.submit());
    let child = engine.submit_after(&[unsent]);
    engine.lose_peer(0, &[unsent, child]);
    assert_eq!(engine.status(sent), Some(Status::Lost));
    engine.join(1, 4, 0);
    assert_eq!(engine.peer_of(unsent), Some(1));
    assert_eq!(engine.peer_of(child), Some(1), "it goes after its parent again");
    assert_eq!(engine.core.stats().loss_retries, 0);
}

#[test]
fn what_was_placed_anew_is_not_what_a_lost_link_had() {
    let mut engine = client_of(&[1]);
    let task = engine.submit();
    let _outcome = engine.reply(task, PeerEnd::Unstarted);
    let delegated = engine.delegated(task);
    assert_eq!(delegated.attempt.0, 1);
    engine.port.delegated[0].attempt.0 = 0;
    engine.lose_peer(0, &[task]);
    assert_eq!(engine.status(task), Some(Status::Lost), "the second placement had left");
}

#[test]
fn tasks_that_are_placed_again_keep_their_order() {
    let mut engine = client_of(&[3]);
    let tasks: Vec<_> = (0..3).map(|_| engine.submit_with(with_losses(1))).collect();
    engine.lose_peer(0, &[]);
    engine.join(1, 3, 0);
    let order: Vec<_> = engine.port.delegated.iter().map(|one| one.task).collect();
    assert_eq!(order, tasks);
}

#[test]
fn a_peer_that_has_answered_everything_costs_nothing() {
    let mut engine = client_of(&[1]);
    let task = engine.submit();
    let _outcome = engine.reply(task, returned());
    engine.lose_peer(0, &[]);
    assert_eq!(engine.status(task), Some(Status::Succeeded));
}

#[test]
fn a_task_that_was_to_be_stopped_ends_as_cancelled_with_its_peer() {
    let mut engine = client_of(&[1]);
    let (stopped, asked) = (engine.submit(), engine.submit());
    let running = CancelMode::Running { grace_ns: None };
    let _outcome = engine.core.cancel(stopped, running, engine.now, &mut engine.port);
    let _outcome = engine.core.cancel(asked, CancelMode::Unstarted, engine.now, &mut engine.port);
    engine.lose_peer(0, &[]);
    assert_eq!(engine.status(stopped), Some(Status::Cancelled));
    assert_eq!(engine.status(asked), Some(Status::Lost), "no report says that it has not begun");
}

#[test]
fn the_loss_of_a_peer_is_no_task_s_fault() {
    let mut engine = client_of(&[1]);
    let task = engine.submit_with(with_losses(10));
    for peer in 1..8 {
        engine.lose_peer(peer - 1, &[]);
        engine.join(peer, 1, 0);
    }
    assert_eq!(engine.status(task), None, "it has killed no worker");
    for _ in 0..3 {
        let report = raised(&engine, "boom");
        let _outcome = engine.reply(task, PeerEnd::Lost(report));
    }
    assert_eq!(engine.status(task), Some(Status::Lost), "now it has killed three");
}

#[test]
fn the_worker_s_last_words_come_with_a_loss() {
    let mut engine = client_of(&[1]);
    let task = engine.submit();
    let report = raised(&engine, "boom");
    let _outcome = engine.reply(task, PeerEnd::Lost(report));
    let view = engine.core.task(task).unwrap();
    let Some(TaskOutcome::Lost(report)) = view.outcome else { panic!("it is lost") };
    assert_eq!((&*report.detail, &*report.node, view.has_started), ("boom", "n", true));
}

#[test]
fn the_end_of_an_earlier_link_says_nothing_of_the_next() {
    let mut engine = client_of(&[1]);
    engine.lose_peer(0, &[]);
    let offer =
        PeerOffer { workers: 1, round_trip_ns: 0, ends_at_ns: u64::MAX, gpus: 0, memory: 0 };
    engine.core.peer_joined(PeerId(0), Epoch(2), offer, engine.now, &mut engine.port);
    let task = engine.submit();
    engine.lose_peer(0, &[]);
    assert_eq!(engine.status(task), None, "that was the first one's");
}

#[test]
fn late_answers_give_their_memory_back() {
    let mut engine = client_of(&[1]);
    let task = engine.submit_with(with_losses(0));
    let delegated = engine.delegated(task);
    engine.lose_peer(0, &[]);
    engine.join(0, 1, 0);
    for (offset, end) in
        (0..).zip([PeerEnd::Returned as fn(Payload) -> PeerEnd, PeerEnd::Raised, |raised| {
            PeerEnd::TimedOut(Some(raised))
        }])
    {
        let block = Block { offset, size: 1 };
        let _stale = engine.reply_as(&delegated, end(Payload::in_arena(block)), 1);
        assert_eq!(engine.core.freed_blocks().pop(), Some(block));
    }
}
