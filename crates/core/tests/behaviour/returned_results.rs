//! Results that stay with the peers where they were made.

use gristmill_core::{
    AnswerOutcome, Budgets, CancelMode, CancelOutcome, Config, LossReport, Payload, PeerEnd,
    PeerId, Status, TaskId, TaskLocation,
};
use proptest::prelude::*;

use crate::fake::{DelegatedTask, Engine};
use crate::faraway::{client_of, client_with, returned};

/// Returns a client whose tasks may run again `loss_retries` times after a loss.
fn client(peers: &[u32], loss_retries: u16) -> Engine {
    let budgets = Budgets { loss_retries, ..Budgets::default() };
    client_with(peers, Config { budgets, ..Config::default() })
}

fn stayed() -> PeerEnd {
    PeerEnd::Stayed(Payload::copy_from(b"name"))
}

/// Returns a task whose result stayed, the delegated task as its peer had it, and a child that needs the result.
fn one_that_stayed(engine: &mut Engine) -> (TaskId, DelegatedTask, TaskId) {
    let task = engine.submit();
    let child = engine.submit_after(&[task]);
    let delegated = engine.delegated(task);
    assert!(engine.core.should_stay(task));
    assert_eq!(engine.reply(task, stayed()), AnswerOutcome::Stayed);
    (task, delegated, child)
}

#[test]
fn what_needs_it_goes_on_and_it_ends_when_it_comes_home() {
    let mut engine = client(&[1, 1], 1);
    let (task, delegated, child) = one_that_stayed(&mut engine);
    assert!(!engine.core.is_final(task));
    assert_eq!(engine.core.location(task), TaskLocation::Returned { peer: PeerId(delegated.peer) });
    let late = engine.submit_after(&[task]);
    assert_eq!(engine.delegated(late).parents, [(task, true)], "its name goes along");
    assert_eq!(engine.core.stayed_at(PeerId(delegated.peer)), [task]);
    let _ = engine.reply_as(&delegated, returned(), 1_000);
    assert_eq!(engine.port.finished, [(task, Status::Succeeded)]);
    for one in [child, late] {
        let _ = engine.reply(one, returned());
        assert!(engine.core.is_final(one));
    }
    assert_eq!(engine.core.stats().finished[Status::Succeeded as usize], 3);
}

#[test]
fn one_that_is_lost_is_made_again_for_those_that_need_it() {
    let mut engine = client(&[1, 1], 1);
    let (task, delegated, child) = one_that_stayed(&mut engine);
    let _ = engine.reply(child, PeerEnd::Unstarted);
    let other = 1 - delegated.peer;
    engine.port.full_peers = vec![0, 1];
    let ready = engine.submit_after(&[task]);
    assert_eq!(engine.peer_of(ready), None);
    engine.lose_peer(delegated.peer, &[]);
    assert_eq!(engine.core.location(ready), TaskLocation::Blocked { parents: 1, first: task });
    engine.port.full_peers.clear();
    engine.core.peer_congested(PeerId(other), false, engine.now, &mut engine.port);
    assert_eq!(engine.peer_of(task), Some(other), "it runs again");
    let _ = engine.reply(task, returned());
    for one in [child, ready] {
        let _ = engine.reply(one, returned());
    }
    assert!([task, child, ready].iter().all(|&one| engine.core.is_final(one)));
}

#[test]
fn what_waits_again_for_a_result_leaves_its_worker_to_others() {
    let mut engine = client(&[2], 1);
    let (task, delegated, child) = one_that_stayed(&mut engine);
    assert_eq!(engine.core.idle_at(PeerId(0)), 1, "the child may run");
    engine.port.full_peers = vec![0];
    let (peer, report) = (PeerId(delegated.peer), LossReport::of_node("n", "its disk is full"));
    engine.core.result_lost(peer, task, report, engine.now, &mut engine.port);
    engine.core.audit();
    assert_eq!(engine.peer_of(child), Some(0));
    assert_eq!(engine.core.idle_at(PeerId(0)), 2);
}

#[test]
fn one_that_is_lost_and_may_not_run_again_is_lost() {
    let mut engine = client(&[1, 1], 1);
    let (task, delegated, child) = one_that_stayed(&mut engine);
    engine.lose_peer(delegated.peer, &[]);
    let again = engine.delegated(task);
    assert!(!engine.core.should_stay(task), "it would be lost for good");
    engine.lose_peer(again.peer, &[]);
    assert_eq!(engine.core.task(task).unwrap().status, Some(Status::Lost));
    assert_eq!(engine.core.task(child).unwrap().status, Some(Status::DependencyFailed));
}

#[test]
fn one_that_has_failed_since_has_no_result_that_stayed() {
    let mut engine = client(&[1, 1], 1);
    let (task, _, _) = one_that_stayed(&mut engine);
    assert!(engine.core.result_that_stayed(task).is_some());
    engine.core.poison("a test", engine.now, &mut engine.port);
    assert!(engine.core.is_final(task));
    assert!(engine.core.result_that_stayed(task).is_none());
}

#[test]
fn a_peer_can_lose_it_alone() {
    let mut engine = client(&[1, 1], 1);
    let (task, delegated, child) = one_that_stayed(&mut engine);
    let report = LossReport::of_node("n", "");
    engine.core.result_lost(PeerId(delegated.peer), task, report, engine.now, &mut engine.port);
    engine.core.audit();
    let _ = engine.reply(task, returned());
    // The child could not have run: its peer returns it.
    let _ = engine.reply(child, PeerEnd::Unstarted);
    let _ = engine.reply(child, returned());
    assert!(engine.core.is_final(child));
}

#[test]
fn a_task_whose_argument_was_lost_and_cancelled_is_withdrawn_from_its_peer() {
    let mut engine = client(&[1], 1);
    let (task, delegated, child) = one_that_stayed(&mut engine);
    assert_eq!(engine.peer_of(child), Some(delegated.peer), "it waits there for the result");
    engine.port.full_peers = vec![delegated.peer];
    let report = LossReport::of_node("n", "its disk failed");
    engine.core.result_lost(PeerId(delegated.peer), task, report, engine.now, &mut engine.port);
    let _ = engine.core.cancel(task, CancelMode::Unstarted, engine.now, &mut engine.port);
    engine.core.audit();
    assert_eq!(engine.core.task(child).unwrap().status, Some(Status::DependencyFailed));
    assert_eq!(engine.port.withdrawn, [child], "its peer would keep it for ever");
}

#[test]
fn a_result_that_no_peer_can_request_ends_where_it_is() {
    let mut engine = client(&[1], 1);
    let (task, _, child) = one_that_stayed(&mut engine);
    engine.core.release(task);
    let _ = engine.reply(child, returned());
    assert_eq!(engine.port.finished, [(child, Status::Succeeded), (task, Status::Succeeded)]);
    engine.core.release(child);
    assert_eq!(engine.core.record_count(), 0);

    let (task, _, child) = one_that_stayed(&mut engine);
    let _ = engine.reply(child, returned());
    engine.core.release(task);
    assert_eq!(engine.core.next_wake(engine.now), Some(engine.now));
    engine.core.poll(engine.now, &mut engine.port);
    engine.core.release(child);
    assert_eq!(engine.core.record_count(), 0);
}

#[test]
fn a_chain_of_them_comes_home_now_and_then() {
    let mut engine = client(&[1], 1);
    let mut last = engine.submit();
    let mut homes = Vec::new();
    for length in 1..40 {
        let next = engine.submit_after(&[last]);
        let stays = engine.core.should_stay(last);
        let _ = engine.reply(last, if stays { stayed() } else { returned() });
        if !stays {
            homes.push(length);
        }
        engine.core.release(last);
        last = next;
    }
    assert_eq!(homes, [17, 34]);
    assert!(engine.core.record_count() <= 17, "the later records are freed");
}

#[test]
fn only_what_may_run_twice_and_is_needed_stays() {
    let mut engine = client_of(&[1]);
    let task = engine.submit();
    let _child = engine.submit_after(&[task]);
    assert!(!engine.core.should_stay(task), "nothing pays for a loss");
    let mut engine = client(&[1], 1);
    let task = engine.submit();
    assert!(!engine.core.should_stay(task), "nothing needs it");
}

#[test]
fn one_that_has_returned_is_not_cancelled() {
    let mut engine = client(&[1, 1], 1);
    let (task, ..) = one_that_stayed(&mut engine);
    for mode in [CancelMode::Unstarted, CancelMode::Running { grace_ns: None }] {
        let outcome = engine.core.cancel(task, mode, engine.now, &mut engine.port);
        assert_eq!(outcome, CancelOutcome::AlreadyRunning);
    }
}

#[test]
fn one_that_was_to_be_stopped_and_others_run_with_is_there_when_they_run_again() {
    let mut engine = client(&[1, 1], 1);
    let task = engine.submit();
    let child = engine.submit_after(&[task]);
    let delegated = engine.delegated(task);
    let mode = CancelMode::Running { grace_ns: None };
    let outcome = engine.core.cancel(task, mode, engine.now, &mut engine.port);
    assert_eq!(outcome, CancelOutcome::Requested);
    assert_eq!(engine.reply(task, stayed()), AnswerOutcome::Stayed);
    let outcome = engine.reply_as(&delegated, returned(), 1_000);
    assert_eq!(outcome, AnswerOutcome::Finished(Status::Succeeded));
    engine.lose_peer(delegated.peer, &[]);
    assert_eq!(engine.delegated(child).parents, [(task, true)]);
    let _ = engine.reply(child, returned());
    assert!(engine.core.is_final(child));
}

#[test]
fn one_that_finds_no_room_at_home_fails_and_so_does_what_needs_it() {
    let mut engine = client(&[1, 1], 1);
    let (task, delegated, child) = one_that_stayed(&mut engine);
    engine.port.delegated.retain(|one| one.task != child);
    let _ = engine.reply_as(&delegated, PeerEnd::Raised(Payload::copy_from(b"full")), 1);
    assert_eq!(engine.core.task(task).unwrap().status, Some(Status::Failed));
    assert_eq!(engine.core.task(child).unwrap().status, Some(Status::DependencyFailed));
}

/// Step of a random program. Numbers choose among the existing tasks.
#[derive(Debug, Clone, Copy)]
enum Step {
    Submit(u8, u8),
    Stay(u8),
    Return(u8),
    GiveBack(u8),
    ComeHome(u8),
    LoseResult(u8),
    LosePeer(bool),
    Release(u8),
    Cancel(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u8>(), any::<u8>()).prop_map(|(one, other)| Step::Submit(one, other)),
        5 => any::<u8>().prop_map(Step::Stay),
        3 => any::<u8>().prop_map(Step::Return),
        2 => any::<u8>().prop_map(Step::GiveBack),
        2 => any::<u8>().prop_map(Step::ComeHome),
        1 => any::<u8>().prop_map(Step::LoseResult),
        1 => any::<bool>().prop_map(Step::LosePeer),
        3 => any::<u8>().prop_map(Step::Release),
        1 => any::<u8>().prop_map(Step::Cancel),
    ]
}

fn pick<T: Clone>(among: &[T], number: u8) -> Option<T> {
    among.get(usize::from(number).checked_rem(among.len())?).cloned()
}

/// A client, its futures, and the results that its peers keep.
struct Fleet {
    engine: Engine,
    futures: Vec<TaskId>,
    kept: Vec<DelegatedTask>,
}

impl Fleet {
    /// Returns the tasks at peers whose parents have all given their results.
    fn able(&self) -> Vec<DelegatedTask> {
        let is_able = |one: &&DelegatedTask| {
            let view = self.engine.core.location(one.task);
            matches!(view, TaskLocation::Delegated { parents: 0, .. })
        };
        self.engine.port.delegated.iter().filter(is_able).cloned().collect()
    }

    fn reply(&mut self, one: &DelegatedTask, end: PeerEnd) {
        let _ = self.engine.reply_in(one.task, end, 1_000);
    }

    /// Hands a task back from its peer to the client, unless the task has ended meanwhile.
    fn give_back(&mut self, one: &DelegatedTask) {
        if self.engine.core.awaits(PeerId(one.peer), one.task, one.attempt) {
            self.reply(one, PeerEnd::Unstarted);
            self.give_dependants_back(one);
        }
    }

    /// Hands back the tasks that wait at a peer for a result that the peer will not have.
    fn give_dependants_back(&mut self, one: &DelegatedTask) {
        let needs = |other: &&DelegatedTask| {
            other.peer == one.peer && other.parents.iter().any(|&(parent, _)| parent == one.task)
        };
        let dependants: Vec<DelegatedTask> =
            self.engine.port.delegated.iter().filter(needs).cloned().collect();
        dependants.iter().for_each(|other| self.give_back(other));
    }

    fn take(&mut self, step: Step) {
        self.kept.retain(|one| self.engine.core.awaits(PeerId(one.peer), one.task, one.attempt));
        match step {
            Step::Submit(one, other) => {
                let parents: Vec<_> = [pick(&self.futures, one), pick(&self.futures, other)]
                    .into_iter()
                    .flatten()
                    .collect();
                let task = self.engine.submit_after(&parents);
                self.futures.push(task);
            }
            Step::Stay(number) => {
                let Some(one) = pick(&self.able(), number) else { return };
                let stays = self.engine.core.should_stay(one.task);
                self.reply(&one, if stays { stayed() } else { returned() });
                self.kept.extend(stays.then_some(one));
            }
            Step::Return(number) => {
                let Some(one) = pick(&self.able(), number) else { return };
                self.reply(&one, returned());
            }
            Step::GiveBack(number) => {
                let Some(one) = pick(&self.engine.port.delegated.clone(), number) else { return };
                self.give_back(&one);
            }
            Step::ComeHome(number) => {
                let Some(one) = pick(&self.kept, number) else { return };
                let _ = self.engine.reply_as(&one, returned(), 1_000);
            }
            Step::LoseResult(number) => {
                let Some(one) = pick(&self.kept, number) else { return };
                let Engine { core, port, now, .. } = &mut self.engine;
                core.result_lost(
                    PeerId(one.peer),
                    one.task,
                    LossReport::of_node("n", ""),
                    *now,
                    port,
                );
                core.audit();
                self.give_dependants_back(&one);
            }
            Step::LosePeer(second) => {
                let peer = u16::from(second);
                self.engine.lose_peer(peer, &[]);
                self.engine.join(peer, 2, 0);
            }
            Step::Release(number) => {
                let Some(task) = pick(&self.futures, number) else { return };
                self.futures.retain(|&one| one != task);
                self.engine.core.release(task);
            }
            Step::Cancel(number) => {
                let Some(task) = pick(&self.futures, number) else { return };
                let Engine { core, port, now, .. } = &mut self.engine;
                let _ = core.cancel(task, CancelMode::Unstarted, *now, port);
                core.audit();
                // The peer has not begun the task, or answers that it has.
                for one in self.engine.port.withdrawn.drain(..).collect::<Vec<_>>() {
                    if let Some(delegated) =
                        self.able().into_iter().find(|delegated| delegated.task == one)
                    {
                        self.reply(&delegated, PeerEnd::Unstarted);
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_is_lost_every_task_ends(
        loss_retries in 0_u16..4,
        program in proptest::collection::vec(step(), 0..120),
    ) {
        let engine = client(&[2, 2], loss_retries);
        let mut fleet = Fleet { engine, futures: Vec::new(), kept: Vec::new() };
        for step in program {
            fleet.take(step);
        }
        // Nothing fails any more, and all results that peers keep are asked for.
        while let Some(one) = fleet.able().first().cloned() {
            fleet.reply(&one, returned());
        }
        while let Some(one) = fleet.kept.pop() {
            let _ = fleet.engine.reply_as(&one, returned(), 1_000);
            while let Some(one) = fleet.able().first().cloned() {
                fleet.reply(&one, returned());
            }
        }
        let core = &mut fleet.engine.core;
        prop_assert!(fleet.futures.iter().all(|&task| core.is_final(task)));
        fleet.futures.drain(..).for_each(|task| core.release(task));
        core.poll(fleet.engine.now, &mut fleet.engine.port);
        core.audit();
        prop_assert!(core.is_drained());
        prop_assert_eq!(core.record_count(), 0);
    }
}
