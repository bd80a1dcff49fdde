//! A client without workers of its own, and peers that the test plays: the choice of the peer for a task.

use gristmill_core::{
    AnswerOutcome, AttemptTimings, Config, Epoch, LossCause, LossReport, Origin, Payload,
    PeerAnswer, PeerEnd, PeerId, PeerOffer, Status, TaskId,
};
use gristmill_wire::Span;
use gristmill_wire::Verdict::Returned;

use crate::fake::{DelegatedTask, Engine, engine_with, starting};

/// Returns a client whose peers have these numbers of workers.
pub fn client_of(peers: &[u32]) -> Engine {
    client_with(peers, Config::default())
}

pub fn client_with(peers: &[u32], config: Config) -> Engine {
    let mut engine = starting(Config { workers: 0, spare_max: 0, ..config });
    for (peer, &workers) in (0..).zip(peers) {
        engine.join(peer, workers, 0);
    }
    engine
}

pub fn returned() -> PeerEnd {
    PeerEnd::Returned(Payload::copy_from(b"x"))
}

/// Returns the report of a worker's death at a peer.
pub fn death() -> LossReport {
    let cause = LossCause::Signal(9);
    LossReport { epoch: Epoch(1), pid: 7, cause, ..LossReport::of_node("n", "") }
}

impl Engine {
    pub fn join(&mut self, peer: u16, workers: u32, round_trip_ns: u64) {
        let offer = PeerOffer { workers, round_trip_ns, ends_at_ns: u64::MAX, gpus: 0, memory: 0 };
        self.core.peer_joined(PeerId(peer), Epoch(1), offer, self.now, &mut self.port);
        self.core.audit();
    }

    /// Returns a task as its peer has it.
    pub fn delegated(&self, task: TaskId) -> DelegatedTask {
        self.port.delegated.iter().find(|one| one.task == task).expect("a peer has it").clone()
    }

    /// Returns the peer that has a task.
    pub fn peer_of(&self, task: TaskId) -> Option<u16> {
        self.port.delegated.iter().find(|one| one.task == task).map(|one| one.peer)
    }

    /// Answers a task at its peer after `ran_ns`.
    pub fn reply_in(&mut self, task: TaskId, end: PeerEnd, ran_ns: u64) -> AnswerOutcome {
        let delegated = self.delegated(task);
        self.port.delegated.retain(|one| *one != delegated);
        self.reply_as(&delegated, end, ran_ns)
    }

    pub fn reply(&mut self, task: TaskId, end: PeerEnd) -> AnswerOutcome {
        self.reply_in(task, end, 1_000)
    }

    /// Delivers an answer, whatever the state of the task that it answers.
    pub fn reply_as(
        &mut self,
        delegated: &DelegatedTask,
        end: PeerEnd,
        ran_ns: u64,
    ) -> AnswerOutcome {
        let DelegatedTask { peer, task, attempt, .. } = *delegated;
        let timings = AttemptTimings::of_run(Span::from_ticks(ran_ns));
        let answer = PeerAnswer { task, attempt, end, timings };
        let outcome = self.core.peer_answered(PeerId(peer), answer, self.now, &mut self.port);
        self.core.audit();
        outcome
    }

    /// Reports the loss of a peer. The link knows that the tasks `unsent` never left.
    pub fn lose_peer(&mut self, peer: u16, unsent: &[TaskId]) {
        let unsent: Vec<_> = unsent
            .iter()
            .map(|&task| self.delegated(task))
            .map(|one| (one.task, one.attempt))
            .collect();
        self.port.delegated.retain(|one| one.peer != peer);
        let report = LossReport::of_node("n", "silent");
        let (whom, now) = ((PeerId(peer), Epoch(1)), self.now);
        self.core.peer_lost(whom, report, &unsent, now, &mut self.port);
        self.core.audit();
    }

    /// Reports that a peer has returned all tasks that it could.
    pub fn recalled(&mut self, peer: u16) {
        self.core.peer_recalled(PeerId(peer), self.now, &mut self.port);
        self.core.audit();
    }

    /// Lets a call end at a peer after `ran_ns`, so that the engine learns the run time of the function.
    pub fn teach_peers(&mut self, ran_ns: u64) {
        let task = self.submit();
        let _outcome = self.reply_in(task, returned(), ran_ns);
        self.core.release(task);
        self.port.finished.clear();
    }

    /// Submits tasks and returns the peer that each went to.
    pub fn spread_over_peers(&mut self, count: usize) -> Vec<Option<u16>> {
        let tasks: Vec<_> = (0..count).map(|_| self.submit()).collect();
        tasks.into_iter().map(|task| self.peer_of(task)).collect()
    }
}

#[test]
fn peers_with_idle_workers_come_first() {
    let mut engine = client_of(&[1, 2]);
    let peers = engine.spread_over_peers(3);
    let count = |peer| peers.iter().filter(|one| **one == Some(peer)).count();
    assert_eq!((count(0), count(1)), (1, 2), "each worker has something to do");
}

#[test]
fn short_tasks_stay_together_while_another_peer_could_not_be_faster() {
    let mut engine = client_of(&[100, 100]);
    engine.teach_peers(100);
    let peers = engine.spread_over_peers(50);
    assert!(peers.iter().all(|peer| *peer == peers[0]), "one peer gets them all: {peers:?}");
}

#[test]
fn a_peer_gets_a_window_of_work_and_as_much_as_the_way_there_takes() {
    let mut near = client_of(&[1]);
    near.teach_peers(20_000);
    assert_eq!(near.spread_over_peers(60).iter().flatten().count(), 10, "200 us at 20 us each");
    let mut far = starting(Config { workers: 0, spare_max: 0, ..Config::default() });
    far.join(0, 1, 400_000);
    far.teach_peers(20_000);
    assert_eq!(far.spread_over_peers(60).iter().flatten().count(), 30, "400 us more");
}

#[test]
fn a_peer_whose_link_is_full_gets_nothing_until_it_has_room() {
    let mut engine = client_of(&[2]);
    engine.port.full_peers = vec![0];
    let task = engine.submit();
    assert_eq!(engine.peer_of(task), None);
    engine.port.full_peers.clear();
    engine.core.peer_congested(PeerId(0), false, engine.now, &mut engine.port);
    assert_eq!(engine.peer_of(task), Some(0));
}

#[test]
fn a_peer_that_drains_gets_nothing_more_and_ends_what_it_has() {
    let mut engine = client_of(&[2, 2]);
    let first = engine.submit();
    let old = engine.peer_of(first).unwrap();
    engine.core.peer_draining(PeerId(old), engine.now, &mut engine.port);
    let later = engine.spread_over_peers(3);
    assert!(later.iter().all(|peer| *peer != Some(old)), "{later:?}");
    assert_eq!(engine.reply(first, returned()), AnswerOutcome::Finished(Status::Succeeded));
    assert_eq!(engine.spread_over_peers(1), [Some(1 - old)]);
}

#[test]
fn a_peer_that_drained_and_lasts_longer_gets_tasks_again() {
    let mut engine = client_of(&[2]);
    engine.core.peer_draining(PeerId(0), engine.now, &mut engine.port);
    let task = engine.submit();
    assert_eq!(engine.peer_of(task), None);
    engine.core.peer_lasts(PeerId(0), u64::MAX, engine.now, &mut engine.port);
    assert_eq!(engine.peer_of(task), Some(0));
}

#[test]
fn children_that_wait_for_a_worker_here_do_not_keep_others_from_peers() {
    let config =
        Config { workers: 1, spare_max: 0, depth_min: 1, depth_max: 1, ..Config::default() };
    let mut engine = engine_with(config);
    let parent = engine.submit();
    engine.start(parent);
    let child = engine.submit_from(parent);
    assert!(!engine.is_sent(child), "its parent has the worker");
    engine.join(0, 1, 0);
    let task = engine.submit();
    assert_eq!(engine.peer_of(task), Some(0));
    engine.core.audit();
}

#[test]
fn a_task_of_a_peer_goes_to_another_one() {
    let mut engine = client_of(&[2, 2]);
    for from in [0, 1] {
        let task = engine.submit_as(&[], None, Origin::Peer(PeerId(from))).unwrap();
        assert_eq!(engine.peer_of(task), Some(1 - from));
    }
}

#[test]
fn a_task_of_a_peer_is_given_back_where_no_other_peer_has_room() {
    let mut engine = client_of(&[2]);
    let task = engine.submit_as(&[], None, Origin::Peer(PeerId(0))).unwrap();
    assert_eq!(
        engine.status(task),
        Some(Status::Cancelled),
        "its peer learns that it has not begun"
    );
    assert!(!engine.core.task(task).unwrap().has_started);
    engine.core.audit();
}

#[test]
fn a_task_of_a_peer_waits_while_no_peer_has_room() {
    let config = Config { depth_min: 1, depth_max: 1, ..Config::default() };
    let mut engine = client_with(&[1, 1], config);
    let own = [engine.submit(), engine.submit()];
    let task = engine.submit_as(&[], None, Origin::Peer(PeerId(0))).unwrap();
    assert_eq!(engine.status(task), None);
    let there = own.into_iter().find(|&own| engine.peer_of(own) == Some(1)).unwrap();
    let _outcome = engine.reply(there, returned());
    assert_eq!(engine.peer_of(task), Some(1));
}

#[test]
fn a_peer_s_own_workers_are_told_from_those_of_others() {
    let engine = client_of(&[2, 3]);
    assert_eq!((engine.core.idle_capacity(), engine.core.idle_at(PeerId(1))), (5, 3));
}

#[test]
fn a_value_that_ends_a_task_is_what_the_first_answer_says() {
    let mut engine = client_of(&[1]);
    let task = engine.submit();
    let delegated = engine.delegated(task);
    assert_eq!(engine.reply(task, returned()), AnswerOutcome::Finished(Status::Succeeded));
    assert_eq!(engine.reply_as(&delegated, returned(), 1), AnswerOutcome::Stale);
    assert_eq!(engine.core.stats().stale_answers, 1);
}

#[test]
fn a_worker_of_ones_own_is_nearer_than_a_peer() {
    let mut engine = engine_with(Config { workers: 1, spare_max: 0, ..Config::default() });
    engine.join(0, 4, 0);
    let (own, delegated) = (engine.submit(), engine.submit());
    assert!(engine.is_sent(own) && engine.is_sent(delegated), "two fit");
    let third = engine.submit();
    assert_eq!(engine.peer_of(third), Some(0));
    let _outcome = engine.answer(own, Returned);
}
