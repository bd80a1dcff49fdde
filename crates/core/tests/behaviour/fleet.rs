//! The engine and its peers against [`Model`]: tasks go only where they may, and each is at one location. The end of
//! each task follows from the requests and the answers, whichever peers join, drain, are full or are lost.

use std::collections::HashMap;

use gristmill_core::{
    AnswerOutcome, Budgets, CancelMode, CancelOutcome, Config, ContextId, ContextOptions, Epoch,
    Origin, Payload, PeerEnd, PeerId, PeerOffer, StartFailure, Status, TaskId, TaskLocation,
    TaskOptions, TaskOutcome,
};
use gristmill_wire::ResourceRequest;
use proptest::prelude::*;

use crate::fake::{DelegatedTask, Engine, starting};
use crate::faraway::{death, returned};
use crate::fleet_events::{Event, How, PEERS, event};
use crate::fleet_model::Model;

/// Index of a good peer, which joins last.
const GOOD: u16 = 7;
/// Most tasks under way per worker.
pub const DEPTH: u32 = 3;

/// Resources that workers of each context have besides CPU slots; the first context is 1.
pub const NEEDS: [ResourceRequest; 2] =
    [ResourceRequest::NONE, ResourceRequest { memory: 4, ..ResourceRequest::NONE }];

/// Returns the offer of a peer with this number of workers.
pub fn offer(workers: u32) -> PeerOffer {
    PeerOffer { memory: 6, gpus: 1, ..PeerOffer::of_workers(workers) }
}

/// State of a joined peer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Peer {
    pub workers: u32,
    pub is_draining: bool,
}

/// The engine, the model of it, and the state of the peers.
pub struct Fleet {
    pub engine: Engine,
    pub model: Model,
    pub peers: HashMap<u16, Peer>,
    /// Tasks that run at peers.
    running: Vec<DelegatedTask>,
    /// Peer of each task that succeeded.
    homes: HashMap<TaskId, u16>,
    /// Actions of the engine, in order.
    pub log: Vec<String>,
}

impl Fleet {
    fn new() -> Self {
        let config = Config { workers: 0, spare_max: 0, depth_max: DEPTH, ..Config::default() };
        let mut engine = starting(config);
        engine.port.holders = vec![0, 2];
        for (number, demand) in (1..).zip(NEEDS) {
            let options = ContextOptions { workers_max: 1, linger_ns: u64::MAX, demand };
            engine.core.define_context(ContextId(number), options);
        }
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
            let before = fleet.engine.port.delegated.clone();
            fleet.apply(event.clone());
            fleet.check(&before);
        }
        fleet
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Submit { parents, demand, context, budgets, is_bulky, priority } => {
                let context = ContextId(context);
                let options =
                    TaskOptions { demand, context, is_bulky, priority, ..TaskOptions::default() };
                self.submit(&parents, options, budgets);
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
                if let Some(delegated) = waiting.get(at % waiting.len().max(1)) {
                    self.answer(delegated, PeerEnd::Unstarted);
                }
            }
            Event::Vacant { peer, context, count } => {
                let engine = &mut self.engine;
                let place = (peer, ContextId(context));
                let mark = engine.port.marks.get(&place).map_or(0, |&(_, mark)| mark);
                let (place, word) = ((PeerId(peer), ContextId(context)), (count, mark));
                engine.core.peer_vacant(place, word, engine.now, &mut engine.port);
            }
            Event::AnswerRequests => self.answer_requests(),
            Event::Pass(ns) => self.engine.pass(ns),
        }
    }

    fn submit(&mut self, picks: &[usize], options: TaskOptions, budgets: (u16, u16)) {
        let parents: Vec<TaskId> = picks.iter().filter_map(|&at| self.model.pick(at)).collect();
        let (loss_retries, retries) = budgets;
        let budgets = Budgets { loss_retries, retries, ..Budgets::default() };
        let options = TaskOptions { budgets: Some(budgets), ..options };
        let TaskOptions { demand, context, priority, .. } = options;
        let task = self.engine.submit_as(&parents, Some(options), Origin::External).unwrap();
        self.model.submit(task, parents, (demand, context, priority), budgets);
    }

    fn cancel(&mut self, at: usize, stops: bool) {
        let Some(task) = self.model.pick(at) else { return };
        let is_delegated =
            matches!(self.engine.core.location(task), TaskLocation::Delegated { .. });
        let mode =
            if stops { CancelMode::Running { grace_ns: None } } else { CancelMode::Unstarted };
        let engine = &mut self.engine;
        let outcome = engine.core.cancel(task, mode, engine.now, &mut engine.port);
        let is_live = self.model.is_live(task);
        let known = self.model.known.get_mut(&task).unwrap();
        let expected = match (is_live, is_delegated) {
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

    /// Reports the loss of a peer. The last `unsent` of its tasks never left.
    fn lose(&mut self, peer: u16, unsent: usize) {
        if self.peers.remove(&peer).is_none() {
            return;
        }
        let here = |delegated: &&DelegatedTask| delegated.peer == peer;
        let sent: Vec<DelegatedTask> =
            self.engine.port.delegated.iter().filter(here).cloned().collect();
        let begun = sent
            .iter()
            .rposition(|delegated| self.running.contains(delegated))
            .map_or(0, |at| at + 1);
        let (left, unsent) = sent.split_at(begun.max(sent.len().saturating_sub(unsent)));
        let unsent: Vec<TaskId> = unsent.iter().map(|delegated| delegated.task).collect();
        self.running.retain(|delegated| delegated.peer != peer);
        self.engine.lose_peer(peer, &unsent);
        unsent.iter().rev().for_each(|&task| self.model.returned_unstarted(task));
        left.iter().for_each(|delegated| self.model.lost(delegated.task, true));
        let asked = &mut self.engine.port.recalled;
        asked.retain(|&(one, _)| one != peer);
    }

    /// Returns the tasks that peers have and have not begun.
    fn waiting(&self, is_meant: impl Fn(&DelegatedTask) -> bool) -> Vec<DelegatedTask> {
        let delegated = self.engine.port.delegated.iter();
        delegated
            .filter(|delegated| !self.running.contains(delegated) && is_meant(delegated))
            .cloned()
            .collect()
    }

    fn begin(&mut self, at: usize) {
        let waiting = self.waiting(|delegated| {
            let here = self.running.iter().filter(|one| one.peer == delegated.peer).count();
            let has = |(parent, has_value): &(TaskId, bool)| {
                *has_value || self.homes.get(parent) == Some(&delegated.peer)
            };
            here < self.peers[&delegated.peer].workers as usize && delegated.parents.iter().all(has)
        });
        if let Some(delegated) = waiting.get(at % waiting.len().max(1)) {
            self.running.push(delegated.clone());
        }
    }

    fn end(&mut self, at: usize, how: How) {
        if self.running.is_empty() {
            return;
        }
        let delegated = self.running.remove(at % self.running.len());
        let end = match how {
            How::Returned => returned(),
            How::Raised => PeerEnd::Raised(Payload::EMPTY),
            How::Died => PeerEnd::Lost(death()),
        };
        self.answer(&delegated, end);
    }

    /// Answers a task at a peer, and updates the model.
    fn answer(&mut self, delegated: &DelegatedTask, end: PeerEnd) {
        let (task, is_live) = (delegated.task, self.model.is_live(delegated.task));
        match &end {
            PeerEnd::Returned(_) if is_live => {
                self.homes.insert(task, delegated.peer);
                self.model.returned(task);
            }
            PeerEnd::Raised(_) => self.model.raised(task),
            PeerEnd::Lost(_) => self.model.lost(task, false),
            PeerEnd::Unstarted => self.model.returned_unstarted(task),
            PeerEnd::Stopped if is_live => self.model.end(task, Status::Cancelled),
            _ => {}
        }
        self.engine.port.delegated.retain(|one| one != delegated);
        let outcome = self.engine.reply_as(delegated, end, 1_000);
        assert_eq!(outcome == AnswerOutcome::Stale, !is_live, "of {task}");
    }

    /// Lets peers carry out all requests.
    fn answer_requests(&mut self) {
        for task in std::mem::take(&mut self.engine.port.stopped) {
            let Some(delegated) = self.delegated(task).filter(|_| self.model.is_live(task)) else {
                continue;
            };
            let has_begun = self.running.contains(&delegated);
            self.running.retain(|one| *one != delegated);
            let end = if has_begun { PeerEnd::Stopped } else { PeerEnd::Unstarted };
            self.answer(&delegated, end);
        }
        for task in std::mem::take(&mut self.engine.port.withdrawn) {
            let Some(delegated) = self.delegated(task).filter(|_| self.model.is_live(task)) else {
                continue;
            };
            if self.running.contains(&delegated) {
                let (engine, peer) = (&mut self.engine, PeerId(delegated.peer));
                engine.core.peer_kept_task(
                    peer,
                    task,
                    delegated.attempt,
                    engine.now,
                    &mut engine.port,
                );
                self.model.known.get_mut(&task).unwrap().is_asked = false;
            } else {
                self.answer(&delegated, PeerEnd::Unstarted);
            }
        }
        for (peer, count) in std::mem::take(&mut self.engine.port.recalled) {
            let waiting = self.waiting(|delegated| delegated.peer == peer);
            for delegated in waiting.iter().rev().take(count as usize) {
                self.answer(delegated, PeerEnd::Unstarted);
            }
            self.engine.recalled(peer);
        }
    }

    fn delegated(&self, task: TaskId) -> Option<DelegatedTask> {
        self.engine.port.delegated.iter().find(|one| one.task == task).cloned()
    }

    /// Reports the loss of all peers, and that none will come: each task ends with that.
    fn give_up(&mut self) {
        (0..PEERS).for_each(|peer| self.lose(peer, 0));
        let failure = StartFailure { text: "no node".into(), permanent: true, is_expiry: false };
        let engine = &mut self.engine;
        engine.core.give_up_workers(failure, engine.now, &mut engine.port);
        for &task in &self.model.order {
            let view = self.engine.core.task(task).unwrap();
            let is_told = match view.outcome.unwrap() {
                TaskOutcome::StartFailed(failure) => &*failure.text == "no node",
                TaskOutcome::DependencyFailed { .. } => true,
                _ => !self.model.is_live(task),
            };
            assert!(is_told, "{task} ended without a reason: {:?}", view.outcome);
        }
    }

    /// Adds a good peer, at which all tasks end.
    fn go_on(&mut self) {
        self.join(GOOD, 4);
        for _ in 0..10_000 {
            if self.engine.core.stats().outstanding == 0 {
                return;
            }
            let before = self.engine.port.delegated.clone();
            self.answer_requests();
            self.begin(0);
            self.end(0, How::Returned);
            // A task that was delegated ahead of a parent that failed there is returned.
            if self.running.is_empty()
                && let Some(delegated) = self.waiting(|_| true).first()
            {
                self.answer(delegated, PeerEnd::Unstarted);
            }
            self.engine.pass(2_000_000);
            self.check(&before);
        }
        panic!("the remaining tasks never end: {:?}", self.engine.core.stats());
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
