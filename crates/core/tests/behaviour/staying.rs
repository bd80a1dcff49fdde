//! Results that stay with the peers where they were made.

use gristmill_core::{
    AnswerOutcome, Budgets, CancelMode, CancelOutcome, Config, LossReport, Payload, PeerEnd,
    PeerId, Status, TaskId, Whereabouts,
};
use proptest::prelude::*;

use crate::fake::{Away, Engine};
use crate::faraway::{client_of, client_with, returned};

/// A client whose tasks may run again so often after a loss.
fn client(peers: &[u32], loss_retries: u16) -> Engine {
    let budgets = Budgets { loss_retries, ..Budgets::default() };
    client_with(peers, Config { budgets, ..Config::default() })
}

fn stayed() -> PeerEnd {
    PeerEnd::Stayed(Payload::copy_from(b"name"))
}

/// A task whose result stayed, what its peer had of it, and one that needs it, wherever that is.
fn one_that_stayed(engine: &mut Engine) -> (TaskId, Away, TaskId) {
    let task = engine.submit();
    let child = engine.submit_after(&[task]);
    let away = engine.away(task);
    assert!(engine.core.should_stay(task));
    assert_eq!(engine.reply(task, stayed()), AnswerOutcome::Stayed);
    (task, away, child)
}

#[test]
fn what_needs_it_goes_on_and_it_ends_when_it_comes_home() {
    let mut engine = client(&[1, 1], 1);
    let (task, away, child) = one_that_stayed(&mut engine);
    assert!(!engine.core.is_final(task));
    assert_eq!(engine.core.whereabouts(task), Whereabouts::Returned { peer: PeerId(away.peer) });
    let late = engine.submit_after(&[task]);
    assert_eq!(engine.away(late).parents, [(task, true)], "its name goes along");
    assert_eq!(engine.core.stayed_at(PeerId(away.peer)), [task]);
    let _ = engine.reply_as(&away, returned(), 1_000);
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
    let (task, away, child) = one_that_stayed(&mut engine);
    let _ = engine.reply(child, PeerEnd::Unstarted);
    let other = 1 - away.peer;
    engine.port.full_peers = vec![0, 1];
    let ready = engine.submit_after(&[task]);
    assert_eq!(engine.peer_of(ready), None);
    engine.lose_peer(away.peer, &[]);
    assert_eq!(engine.core.whereabouts(ready), Whereabouts::Blocked { parents: 1, first: task });
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
    let (task, away, child) = one_that_stayed(&mut engine);
    assert_eq!(engine.core.idle_at(PeerId(0)), 1, "the child may run");
    engine.port.full_peers = vec![0];
    let (peer, report) = (PeerId(away.peer), LossReport::of_node("n", "its disk is full"));
    engine.core.result_lost(peer, task, report, engine.now, &mut engine.port);
    engine.core.audit();
    assert_eq!(engine.peer_of(child), Some(0));
    assert_eq!(engine.core.idle_at(PeerId(0)), 2);
}

#[test]
fn one_that_is_lost_and_may_not_run_again_is_lost() {
    let mut engine = client(&[1, 1], 1);
    let (task, away, child) = one_that_stayed(&mut engine);
    engine.lose_peer(away.peer, &[]);
    let again = engine.away(task);
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
    let (task, away, child) = one_that_stayed(&mut engine);
    let report = LossReport::of_node("n", "");
    engine.core.result_lost(PeerId(away.peer), task, report, engine.now, &mut engine.port);
    engine.core.audit();
    let _ = engine.reply(task, returned());
    // The one that needs it could not have run: its peer gives it back.
    let _ = engine.reply(child, PeerEnd::Unstarted);
    let _ = engine.reply(child, returned());
    assert!(engine.core.is_final(child));
}

#[test]
fn one_that_nobody_can_ask_for_ends_where_it_is() {
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
    assert!(engine.core.record_count() <= 17, "what is behind that is gone");
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
fn one_that_finds_no_room_at_home_fails_and_so_does_what_needs_it() {
    let mut engine = client(&[1, 1], 1);
    let (task, away, child) = one_that_stayed(&mut engine);
    engine.port.away.retain(|one| one.task != child);
    let _ = engine.reply_as(&away, PeerEnd::Raised(Payload::copy_from(b"full")), 1);
    assert_eq!(engine.core.task(task).unwrap().status, Some(Status::Failed));
    assert_eq!(engine.core.task(child).unwrap().status, Some(Status::DependencyFailed));
}

/// A step of a random program; numbers choose among what there is.
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
struct World {
    engine: Engine,
    futures: Vec<TaskId>,
    kept: Vec<Away>,
}

impl World {
    /// Tasks at peers whose parents have all given their results.
    fn able(&self) -> Vec<Away> {
        let is_able = |one: &&Away| {
            let view = self.engine.core.whereabouts(one.task);
            matches!(view, Whereabouts::Away { parents: 0, .. })
        };
        self.engine.port.away.iter().filter(is_able).cloned().collect()
    }

    fn reply(&mut self, one: &Away, end: PeerEnd) {
        let _ = self.engine.reply_in(one.task, end, 1_000);
    }

    /// A peer gives a task back, unless it has come to an end since.
    fn give_back(&mut self, one: &Away) {
        if self.engine.core.awaits(PeerId(one.peer), one.task, one.attempt) {
            self.reply(one, PeerEnd::Unstarted);
            self.give_dependants_back(one);
        }
    }

    /// A peer gives back what waits there for a result that it will not have.
    fn give_dependants_back(&mut self, one: &Away) {
        let needs = |other: &&Away| {
            other.peer == one.peer && other.parents.iter().any(|&(parent, _)| parent == one.task)
        };
        let dependants: Vec<Away> = self.engine.port.away.iter().filter(needs).cloned().collect();
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
                let Some(one) = pick(&self.engine.port.away.clone(), number) else { return };
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
                // The peer has not begun it, or says that it has.
                for one in self.engine.port.withdrawn.drain(..).collect::<Vec<_>>() {
                    if let Some(away) = self.able().into_iter().find(|away| away.task == one) {
                        self.reply(&away, PeerEnd::Unstarted);
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
        let mut world = World { engine, futures: Vec::new(), kept: Vec::new() };
        for step in program {
            world.take(step);
        }
        // Nothing fails any more, and all that is kept is asked for.
        while let Some(one) = world.able().first().cloned() {
            world.reply(&one, returned());
        }
        while let Some(one) = world.kept.pop() {
            let _ = world.engine.reply_as(&one, returned(), 1_000);
            while let Some(one) = world.able().first().cloned() {
                world.reply(&one, returned());
            }
        }
        let core = &mut world.engine.core;
        prop_assert!(world.futures.iter().all(|&task| core.is_final(task)));
        world.futures.drain(..).for_each(|task| core.release(task));
        core.poll(world.engine.now, &mut world.engine.port);
        core.audit();
        prop_assert!(core.is_drained());
        prop_assert_eq!(core.record_count(), 0);
    }
}
