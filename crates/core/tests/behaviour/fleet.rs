//! The machine and its peers against [`Model`]: tasks go where they may, each is in one place, and its end is what was asked
//! and answered, whoever joins, drains, is full or is lost.

use std::collections::HashMap;

use gristmill_core::{
    AnswerOutcome, Budgets, CancelMode, CancelOutcome, Config, Epoch, Origin, Outcome, Payload,
    PeerEnd, PeerId, PeerOffer, StartFailure, Status, TaskId, TaskOptions, Whereabouts,
};
use gristmill_wire::Demand;
use proptest::prelude::*;

use crate::fake::{Away, Engine, starting};
use crate::faraway::{death, returned};
use crate::fleet_events::{Event, How, PEERS, event};
use crate::fleet_model::Model;

/// A good one, which comes last.
const GOOD: u16 = 7;
/// Tasks under way per worker at most.
pub const DEPTH: u32 = 3;

/// What a peer with so many workers has.
pub fn offer(workers: u32) -> PeerOffer {
    PeerOffer { memory: 6, gpus: 1, ..PeerOffer::of_workers(workers) }
}

/// What is known of a peer that is joined.
#[derive(Debug, Clone, Copy, Default)]
pub struct Peer {
    pub workers: u32,
    pub is_draining: bool,
}

/// The machine, what is expected of it, and what the peers do.
pub struct Fleet {
    pub engine: Engine,
    pub model: Model,
    pub peers: HashMap<u16, Peer>,
    /// What runs somewhere.
    running: Vec<Away>,
    /// Where each task that succeeded did.
    homes: HashMap<TaskId, u16>,
    /// All that the machine did, in order.
    pub log: Vec<String>,
}

impl Fleet {
    fn new() -> Self {
        let config = Config { workers: 0, spare_max: 0, depth_max: DEPTH, ..Config::default() };
        let mut engine = starting(config);
        engine.port.holders = vec![0, 2];
        Self {
            engine,
            model: Model::default(),
            peers: HashMap::new(),
            running: Vec::new(),
            homes: HashMap::new(),
            log: Vec::new(),
        }
    }

    fn run(events: &[Event]) -> Self {
        let mut fleet = Self::new();
        for event in events {
            let before = fleet.engine.port.away.clone();
            fleet.apply(event.clone());
            fleet.check(&before);
        }
        fleet
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Submit { parents, demand, budgets, is_bulky } => {
                self.submit(&parents, demand, budgets, is_bulky);
            }
            Event::Cancel { task, stops } => self.cancel(task, stops),
            Event::Join { peer, workers } => self.join(peer, workers),
            Event::Drain(peer) => {
                let Some(known) = self.peers.get_mut(&peer) else { return };
                known.is_draining = true;
                let engine = &mut self.engine;
                engine.core.peer_draining(PeerId(peer), engine.now, &mut engine.port);
            }
            Event::Fill { peer, is_full } => {
                let engine = &mut self.engine;
                engine.port.full_peers.retain(|&one| one != peer);
                engine.port.full_peers.extend(is_full.then_some(peer));
                engine.core.peer_congested(PeerId(peer), is_full, engine.now, &mut engine.port);
            }
            Event::Lose { peer, unsent } => self.lose(peer, unsent),
            Event::Begin(at) => self.begin(at),
            Event::End { at, how } => self.end(at, how),
            Event::GiveBack(at) => {
                let waiting = self.waiting(|_| true);
                if let Some(away) = waiting.get(at % waiting.len().max(1)) {
                    self.answer(away, PeerEnd::Unstarted);
                }
            }
            Event::Obey => self.obey(),
            Event::Pass(ns) => self.engine.pass(ns),
        }
    }

    fn submit(&mut self, picks: &[usize], demand: Demand, budgets: (u16, u16), is_bulky: bool) {
        let parents: Vec<TaskId> = picks.iter().filter_map(|&at| self.model.pick(at)).collect();
        let (loss_retries, retries) = budgets;
        let budgets = Budgets { loss_retries, retries, ..Budgets::default() };
        let options =
            TaskOptions { demand, budgets: Some(budgets), is_bulky, ..TaskOptions::default() };
        let task = self.engine.submit_as(&parents, Some(options), Origin::External).unwrap();
        self.model.submit(task, parents, demand, budgets);
    }

    fn cancel(&mut self, at: usize, stops: bool) {
        let Some(task) = self.model.pick(at) else { return };
        let is_away = matches!(self.engine.core.whereabouts(task), Whereabouts::Away { .. });
        let mode =
            if stops { CancelMode::Running { grace_ns: None } } else { CancelMode::Unstarted };
        let engine = &mut self.engine;
        let outcome = engine.core.cancel(task, mode, engine.now, &mut engine.port);
        let is_live = self.model.is_live(task);
        let known = self.model.known.get_mut(&task).unwrap();
        let expected = match (is_live, is_away) {
            (false, _) => CancelOutcome::AlreadyFinal,
            (true, false) => CancelOutcome::Cancelled,
            (true, true) if stops => CancelOutcome::Requested,
            (true, true) if known.is_stopped => CancelOutcome::AlreadyRunning,
            (true, true) => CancelOutcome::Asked,
        };
        assert_eq!(outcome, expected);
        match outcome {
            CancelOutcome::Cancelled => self.model.end(task, Status::Cancelled),
            CancelOutcome::Requested => (known.is_asked, known.is_stopped) = (false, true),
            CancelOutcome::Asked => known.is_asked = true,
            CancelOutcome::AlreadyRunning | CancelOutcome::AlreadyFinal => {}
        }
    }

    fn join(&mut self, peer: u16, workers: u32) {
        if self.peers.contains_key(&peer) {
            return;
        }
        self.peers.insert(peer, Peer { workers, is_draining: false });
        let engine = &mut self.engine;
        let (offer, now) = (offer(workers), engine.now);
        engine.core.peer_joined(PeerId(peer), Epoch(1), offer, now, &mut engine.port);
    }

    /// A peer is lost, of whose last tasks so many never left.
    fn lose(&mut self, peer: u16, unsent: usize) {
        if self.peers.remove(&peer).is_none() {
            return;
        }
        let here = |away: &&Away| away.peer == peer;
        let sent: Vec<Away> = self.engine.port.away.iter().filter(here).cloned().collect();
        let begun =
            sent.iter().rposition(|away| self.running.contains(away)).map_or(0, |at| at + 1);
        let (left, unsent) = sent.split_at(begun.max(sent.len().saturating_sub(unsent)));
        let unsent: Vec<TaskId> = unsent.iter().map(|away| away.task).collect();
        self.running.retain(|away| away.peer != peer);
        self.engine.lose_peer(peer, &unsent);
        unsent.iter().rev().for_each(|&task| self.model.returned_unstarted(task));
        left.iter().for_each(|away| self.model.lost(away.task, true));
        let asked = &mut self.engine.port.recalled;
        asked.retain(|&(one, _)| one != peer);
    }

    /// What peers have and have not begun.
    fn waiting(&self, is_meant: impl Fn(&Away) -> bool) -> Vec<Away> {
        let away = self.engine.port.away.iter();
        away.filter(|away| !self.running.contains(away) && is_meant(away)).cloned().collect()
    }

    fn begin(&mut self, at: usize) {
        let waiting = self.waiting(|away| {
            let here = self.running.iter().filter(|one| one.peer == away.peer).count();
            let has = |(parent, has_value): &(TaskId, bool)| {
                *has_value || self.homes.get(parent) == Some(&away.peer)
            };
            here < self.peers[&away.peer].workers as usize && away.parents.iter().all(has)
        });
        if let Some(away) = waiting.get(at % waiting.len().max(1)) {
            self.running.push(away.clone());
        }
    }

    fn end(&mut self, at: usize, how: How) {
        if self.running.is_empty() {
            return;
        }
        let away = self.running.remove(at % self.running.len());
        let end = match how {
            How::Returned => returned(),
            How::Raised => PeerEnd::Raised(Payload::EMPTY),
            How::Died => PeerEnd::Lost(death()),
        };
        self.answer(&away, end);
    }

    /// A peer answers, and the model knows what that means.
    fn answer(&mut self, away: &Away, end: PeerEnd) {
        let (task, is_live) = (away.task, self.model.is_live(away.task));
        match &end {
            PeerEnd::Returned(_) if is_live => {
                self.homes.insert(task, away.peer);
                self.model.end(task, Status::Succeeded);
            }
            PeerEnd::Raised(_) => self.model.raised(task),
            PeerEnd::Lost(_) => self.model.lost(task, false),
            PeerEnd::Unstarted => self.model.returned_unstarted(task),
            PeerEnd::Stopped if is_live => self.model.end(task, Status::Cancelled),
            _ => {}
        }
        self.engine.port.away.retain(|one| one != away);
        let outcome = self.engine.reply_as(away, end, 1_000);
        assert_eq!(outcome == AnswerOutcome::Stale, !is_live, "of {task}");
    }

    /// Peers do all that they were asked to.
    fn obey(&mut self) {
        for task in std::mem::take(&mut self.engine.port.stopped) {
            let Some(away) = self.away(task).filter(|_| self.model.is_live(task)) else { continue };
            let has_begun = self.running.contains(&away);
            self.running.retain(|one| *one != away);
            let end = if has_begun { PeerEnd::Stopped } else { PeerEnd::Unstarted };
            self.answer(&away, end);
        }
        for task in std::mem::take(&mut self.engine.port.withdrawn) {
            let Some(away) = self.away(task).filter(|_| self.model.is_live(task)) else { continue };
            if self.running.contains(&away) {
                self.engine.core.peer_kept(PeerId(away.peer), task, away.attempt);
                self.model.known.get_mut(&task).unwrap().is_asked = false;
            } else {
                self.answer(&away, PeerEnd::Unstarted);
            }
        }
        for (peer, count) in std::mem::take(&mut self.engine.port.recalled) {
            let waiting = self.waiting(|away| away.peer == peer);
            for away in waiting.iter().rev().take(count as usize) {
                self.answer(away, PeerEnd::Unstarted);
            }
            self.engine.recalled(peer);
        }
    }

    fn away(&self, task: TaskId) -> Option<Away> {
        self.engine.port.away.iter().find(|one| one.task == task).cloned()
    }

    /// All peers are lost, and none will come: each task says so.
    fn give_up(&mut self) {
        (0..PEERS).for_each(|peer| self.lose(peer, 0));
        let failure = StartFailure { text: "no node".into(), permanent: true, is_expiry: false };
        let engine = &mut self.engine;
        engine.core.give_up_workers(failure, engine.now, &mut engine.port);
        for &task in &self.model.order {
            let view = self.engine.core.task(task).unwrap();
            let is_told = match view.outcome.unwrap() {
                Outcome::StartFailed(failure) => &*failure.text == "no node",
                Outcome::DependencyFailed { .. } => true,
                _ => !self.model.is_live(task),
            };
            assert!(is_told, "{task} ended without a reason: {:?}", view.outcome);
        }
    }

    /// A good peer comes: all ends.
    fn go_on(&mut self) {
        self.join(GOOD, 4);
        for _ in 0..10_000 {
            if self.engine.core.stats().outstanding == 0 {
                return;
            }
            let before = self.engine.port.away.clone();
            self.obey();
            self.begin(0);
            self.end(0, How::Returned);
            // What went ahead of a parent that came to nothing there is given back.
            if self.running.is_empty()
                && let Some(away) = self.waiting(|_| true).first()
            {
                self.answer(away, PeerEnd::Unstarted);
            }
            self.engine.pass(2_000_000);
            self.check(&before);
        }
        panic!("what is left never ends: {:?}", self.engine.core.stats());
    }
}

proptest! {
    #[test]
    fn tasks_at_peers_end_as_the_model_says(
        events in prop::collection::vec(event(), 1..100), gives_up in any::<bool>()
    ) {
        let mut fleet = Fleet::run(&events);
        prop_assert_eq!(&Fleet::run(&events).log, &fleet.log, "the same events, the same actions");
        if gives_up { fleet.give_up() } else { fleet.go_on() }
        fleet.model.order.iter().for_each(|&task| fleet.engine.core.release(task));
        prop_assert_eq!(fleet.engine.core.record_count(), 0);
    }
}
