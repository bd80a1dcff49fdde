//! One seed of a cluster, from the first task to the end of the last lease.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use gristmill_client::LinkWork;
use gristmill_core::{SlotState, Status};

use super::client::Client;
use super::clock::Clock;
use super::handle::{Handle, Life, SLACK_NS, Shared};
use super::network::{Air, Network, look};
use super::node::{Condition, Node};
use super::plan::ClusterPlan;
use crate::random::Random;

/// Steps after which a seed is said to hang.
const STEPS_MAX: u64 = 100_000;
/// The last ones are traced, whatever they do.
const LAST_STEPS: u64 = 100;
/// Once nothing is wrong any more all must be over in this time: dials that are 10 s late, leases that run out.
const PATIENCE_NS: u64 = 60_000_000_000;

/// What one seed did.
#[derive(Debug, Clone, Default)]
pub struct ClusterReport {
    /// Steps.
    pub steps: u64,
    /// The program's tasks by final state.
    pub finished: [u64; Status::COUNT],
    /// Tasks sent to nodes.
    pub placements: u64,
    /// Links that were lost with all that was not answered.
    pub lost_links: u64,
    /// Tasks that began more than once.
    pub repeated: u64,
    /// What happened, if asked for.
    pub trace: Vec<String>,
}

/// A client, its nodes and the choices of a seed.
pub struct Cluster {
    pub(super) plan: Rc<ClusterPlan>,
    pub(super) random: Random,
    pub(super) shared: Rc<RefCell<Shared>>,
    pub(super) air: Air,
    pub(super) client: Client,
    pub(super) nodes: Vec<Node>,
    pub(super) faults_left: u64,
    /// Until when each node is apart, true time.
    pub(super) apart_until: Vec<u64>,
    /// When each node's agent is stopped because it drains; `u64::MAX`: not.
    pub(super) drained_until: Vec<u64>,
    steps: u64,
    /// When all was well, or something was still to be submitted, last.
    pub(super) busy_at: u64,
}

/// Who does something.
#[derive(Debug, Clone, Copy)]
enum Actor {
    Program,
    Fault,
    ClientLeads,
    ClientDoor,
    ClientTree,
    ClientWorker,
    Desk(usize),
    Courier(usize, usize),
    Leader(usize, usize),
    Tree(usize, usize),
    Worker(usize, usize),
}

impl Cluster {
    /// Sets a seed up; with a trace if asked for.
    #[must_use]
    pub fn new(seed: u64, with_trace: bool) -> Self {
        let mut random = Random::new(seed ^ 0xc105_7e12);
        let plan = Rc::new(ClusterPlan::draw(&mut random));
        let count = plan.nodes.len();
        let shared = Shared { trace: with_trace.then(Vec::new), now: 1, ..Shared::default() };
        let shared = Rc::new(RefCell::new(shared));
        let network = Network::new(plan.weather, Random::new(random.next()), count);
        let air = Arc::new(Mutex::new(network));
        let mut clock = || Clock {
            offset_ns: random.below(1 << 40),
            drift_ppm: if random.chance(50) { 0 } else { random.below(20_000) },
        };
        let client = Client::new(clock(), &shared, &plan, &air, seed);
        let node = |place| Node::new(place, clock(), &shared, &plan, &air);
        Self {
            nodes: (0..count).map(node).collect(),
            client,
            faults_left: plan.faults,
            apart_until: vec![0; count],
            drained_until: vec![u64::MAX; count],
            steps: 0,
            busy_at: 0,
            plan,
            random,
            shared,
            air,
        }
    }

    /// The trace so far.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.shared.borrow().trace.clone().unwrap_or_default()
    }

    pub(super) fn now(&self) -> u64 {
        self.shared.borrow().now
    }

    pub(super) fn log(&self, line: impl FnOnce() -> String) {
        let mut shared = self.shared.borrow_mut();
        let now = shared.now;
        if let Some(trace) = &mut shared.trace {
            trace.push(format!("{:>9} {}", now / 1_000, line()));
        }
    }

    /// Runs the seed.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn run(&mut self) -> ClusterReport {
        self.log_plan();
        while !self.is_program_over() {
            self.step();
        }
        if self.client.runs() {
            self.faults_left = 0;
            self.come_to_rest();
            if !self.client.is_closed {
                self.client.close(false);
            }
            while !self.client.handle.with(|engine| engine.core.is_empty()) {
                self.step();
            }
            self.leave();
        }
        while !self.is_over() {
            self.step();
        }
        self.check_end()
    }

    fn log_plan(&self) {
        let plan = Rc::clone(&self.plan);
        self.log(|| {
            format!("{:?}", (&plan.nodes, &plan.joins, &plan.weather, &plan.sizes, &plan.ask))
        });
    }

    fn is_program_over(&self) -> bool {
        let client = &self.client;
        client.condition == Condition::Gone
            || (client.runs()
                && client.submitted == self.plan.base.tasks
                && client.handle.with(|engine| engine.core.is_drained()))
    }

    /// Everything that was lent is given back, and nothing is kept of it, if only all goes well for a while.
    fn come_to_rest(&mut self) {
        self.client.release_all();
        self.log(|| "all futures are gone".to_owned());
        while !self.is_at_rest() {
            self.step();
        }
    }

    fn is_at_rest(&self) -> bool {
        let is_empty = |handle: &Handle| {
            handle.with(|engine| {
                engine.guests.count() == 0
                    && engine.core.record_count() == 0
                    && engine.lanes.world.memory.block_count() == 0
            })
        };
        is_empty(&self.client.handle)
            && self.nodes.iter().all(|node| {
                let engines = node.engines.borrow();
                engines.iter().filter(|one| one.is_alive()).all(is_empty)
            })
    }

    /// The client has no more to do: it says so, and its process ends.
    fn leave(&mut self) {
        self.client.handle.with(|engine| {
            engine.end_links("the client has finished");
            let links = engine.lanes.links.peers().filter_map(|peer| engine.lanes.links.get(peer));
            let theirs: BTreeSet<_> =
                links.flat_map(|link| link.functions.iter().flatten()).collect();
            let count = engine.lanes.functions.used_count();
            assert_eq!(
                count,
                engine.lanes.program.len() + theirs.len(),
                "functions outlive their tasks"
            );
        });
        self.log(|| "the client leaves".to_owned());
        self.client.has_left = true;
        self.end_client(false);
    }

    /// The client's process is gone.
    pub(super) fn end_client(&mut self, is_silent: bool) {
        if is_silent {
            (0..self.nodes.len()).for_each(|place| look(&self.air).silence(place, 0));
        }
        self.client.condition = Condition::Gone;
        self.shared.borrow_mut().is_orphaned = true;
        let now = self.now();
        self.client.handle.die(now);
        self.client.handle.bury();
        let nodes: Vec<usize> = Vec::new();
        self.client.door = super::doorway::Doorway::new(&self.air, 0, nodes.clone(), nodes);
        self.busy_at = now;
    }

    fn is_over(&self) -> bool {
        self.nodes.iter().all(Node::is_over)
    }

    fn step(&mut self) {
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "it goes on and on");
        let later = self.now() + self.random.below(300);
        self.set_time(later);
        self.check_time();
        let actors = self.actors();
        let first = self.random.index(actors.len());
        let order = (0..actors.len()).map(|place| actors[(first + place) % actors.len()]);
        for actor in order.collect::<Vec<_>>() {
            if self.act(actor) {
                if self.steps + LAST_STEPS > STEPS_MAX {
                    self.log(|| format!("{actor:?}"));
                }
                return;
            }
        }
        self.wait();
    }

    fn set_time(&mut self, now: u64) {
        self.shared.borrow_mut().now = now;
        look(&self.air).now = now;
        self.recover();
    }

    /// Nobody can do anything: time passes until somebody can.
    fn wait(&mut self) {
        if self.random.chance(5) && self.stop_hanging() {
            return;
        }
        let client = if self.client.runs() { self.client.next_wake() } else { None };
        let mut wakes = vec![client, look(&self.air).next_event(), self.next_recovery()];
        wakes.push(self.next_end(&self.client.handle));
        for node in &self.nodes {
            if node.runs() {
                wakes.push(node.next_wake());
            }
            for handle in node.engines.borrow().iter() {
                if node.workers_run() {
                    wakes.push(self.next_end(handle));
                }
                if node.runs() && handle.is_alive() {
                    let wake = handle.with(|engine| engine.next_wake(true));
                    wakes.push(wake.map(|wake| handle.clock.when(wake)));
                }
                if let Life::Dead(until) = *handle.life.borrow() {
                    wakes.push(Some(until));
                }
            }
        }
        let now = self.now();
        let wake = wakes.into_iter().flatten().min();
        let wake = wake.unwrap_or_else(|| panic!("nothing can happen any more"));
        self.set_time(wake.max(now + 1));
    }

    /// When the earliest running task may end, true time.
    fn next_end(&self, handle: &Handle) -> Option<u64> {
        let end = handle.with(|engine| engine.lanes.world.next_end())?;
        Some(handle.clock.when(end))
    }

    /// Asks for the end of a task that would run for ever; false when there is none.
    fn stop_hanging(&self) -> bool {
        let nodes = self.nodes.iter().flat_map(|node| node.engines.borrow().clone());
        for handle in nodes.chain([self.client.handle.clone()]).filter(Handle::is_alive) {
            let Some(number) = handle.with(|engine| engine.lanes.world.hanging()) else { continue };
            let owner = self.shared.borrow().ledger[number].owner;
            // Where its owner is gone, whoever runs it will hear so.
            let Some(owner) = self.engine_of(owner) else { continue };
            super::program::stop(&owner, number);
            return true;
        }
        false
    }

    /// The engine of a number, if its process can do something.
    fn engine_of(&self, number: usize) -> Option<Handle> {
        if number == 0 {
            return self.client.runs().then(|| self.client.handle.clone());
        }
        let running = self.nodes.iter().filter(|node| node.runs());
        let mut engines = running.flat_map(|node| node.engines.borrow().clone());
        engines.find(|one| one.number == number && one.is_alive())
    }

    fn actors(&self) -> Vec<Actor> {
        let mut actors = vec![Actor::Fault];
        if self.client.runs() {
            actors.extend([Actor::Program, Actor::Program, Actor::ClientLeads]);
            actors.extend([Actor::ClientLeads, Actor::ClientDoor, Actor::ClientTree]);
        }
        if self.client.handle.workers > 0 {
            actors.push(Actor::ClientWorker);
        }
        for (place, node) in self.nodes.iter().enumerate() {
            if node.runs() {
                actors.push(Actor::Desk(place));
            }
            for (index, handle) in node.engines.borrow().iter().enumerate() {
                if node.runs() && handle.is_alive() {
                    actors.push(Actor::Courier(place, index));
                    actors.push(Actor::Leader(place, index));
                    actors.push(Actor::Tree(place, index));
                }
                if node.workers_run() {
                    actors.extend([Actor::Worker(place, index); 2]);
                }
            }
        }
        actors
    }

    fn act(&mut self, actor: Actor) -> bool {
        let plan = Rc::clone(&self.plan);
        let random = &mut self.random;
        match actor {
            Actor::Fault => self.befall(),
            Actor::Program => {
                let submitted = self.client.submitted;
                let has_moved = self.client.step(&plan, random);
                if self.client.submitted > submitted {
                    self.busy_at = self.now();
                }
                has_moved
            }
            Actor::ClientLeads => self.client.lead(&self.air, &plan.base, random),
            Actor::ClientDoor => self.client.attend_door(),
            Actor::ClientTree => tend(&self.client.handle, &plan.base, random),
            Actor::ClientWorker => work(&self.client.handle, &plan.base, random),
            Actor::Desk(place) => self.nodes[place].attend(),
            Actor::Courier(place, index) => {
                let Some(handle) = self.engine(place, index) else { return false };
                carry(&handle, &self.air)
            }
            Actor::Leader(place, index) => {
                let Some(handle) = self.engine(place, index) else { return false };
                complete(&handle, &self.air, &plan.lease, &mut self.random)
            }
            Actor::Tree(place, index) => {
                let Some(handle) = self.engine(place, index) else { return false };
                tend(&handle, &plan.lease, &mut self.random)
            }
            Actor::Worker(place, index) => {
                let Some(handle) = self.engine(place, index) else { return false };
                if let Life::Dead(until) = *handle.life.borrow()
                    && until <= self.shared.borrow().now
                {
                    // Below, when nobody looks at its life.
                } else {
                    return work(&handle, &plan.lease, &mut self.random);
                }
                handle.bury();
                let mut engines = self.nodes[place].engines.borrow_mut();
                engines.retain(|one| *one.life.borrow() != Life::Over);
                true
            }
        }
    }

    fn engine(&self, place: usize, index: usize) -> Option<Handle> {
        self.nodes[place].engines.borrow().get(index).cloned()
    }

    /// What must hold at any time: shares of a node, the end of leases, and that all is over some time.
    fn check_time(&mut self) {
        let now = self.now();
        for (place, node) in self.nodes.iter().enumerate() {
            let capacity = self.plan.nodes[place] as usize;
            assert!(node.used_workers() <= capacity, "node {place} has given more than it has");
            if node.runs() && now > node.troubled_at + SLACK_NS {
                for handle in node.engines.borrow().iter().filter(|one| one.is_alive()) {
                    check_lease(handle);
                }
            }
        }
        let is_well = self.faults_left == 0 && self.next_recovery().is_none();
        if !is_well {
            self.busy_at = now;
        }
        let state = || {
            let of_node = |node: &Node| {
                let engines = node.engines.borrow();
                let lives: Vec<_> =
                    engines.iter().map(|one| (one.who.clone(), *one.life.borrow())).collect();
                (node.condition, lives)
            };
            let nodes: Vec<_> = self.nodes.iter().map(of_node).collect();
            let stats = self.client.handle.with(|engine| {
                format!("{:?} {:#?}", engine.core.stats(), engine.lanes.world.workers)
            });
            format!("{:?} {nodes:?} {stats:?}", self.client.condition)
        };
        let is_late = now >= self.busy_at + PATIENCE_NS;
        assert!(!is_late, "all is well, and it does not come to an end: {}", state());
    }

    /// Everything is over: nothing may be left.
    fn check_end(&mut self) -> ClusterReport {
        let shared = self.shared.borrow();
        let client_died = !self.client.has_left;
        let mut report = ClusterReport { steps: self.steps, ..ClusterReport::default() };
        for (number, entry) in shared.ledger.iter().enumerate() {
            assert!(entry.running == 0, "task {number} runs on");
            if entry.is_clients() {
                assert!(client_died || entry.status.is_some(), "task {number} has no final state");
                report.placements += entry.placements.len() as u64;
                report.repeated += u64::from(entry.starts > 1);
                if let Some(status) = entry.status {
                    report.finished[status as usize] += 1;
                }
            }
        }
        report.lost_links = shared.lost.len() as u64;
        drop(shared);
        if !client_died {
            self.client.handle.with(|engine| {
                let stats = engine.core.stats();
                assert!(stats.slots.iter().all(|slot| slot.state == SlotState::Absent));
                assert_eq!(stats.finished.iter().sum::<u64>(), stats.submitted, "each ends once");
            });
        }
        report.trace = self.shared.borrow_mut().trace.take().unwrap_or_default();
        report
    }
}

/// Asserts that a lease whose client was not heard for too long is over, once its agent had a moment.
fn check_lease(handle: &Handle) {
    handle.with(|engine| {
        let now = engine.lanes.world.now;
        for peer in engine.lanes.links.peers() {
            let Some(link) = engine.lanes.links.get(peer) else { continue };
            let is_heard = now < link.pulse.expires_at().saturating_add(SLACK_NS);
            assert!(is_heard, "a lease goes on whose client is silent");
        }
    });
}

/// Gives the news of births and deaths.
fn tend(handle: &Handle, plan: &crate::plan::Plan, random: &mut Random) -> bool {
    handle.with(|engine| {
        let count = engine.lanes.world.workers.len();
        if count == 0 {
            return false;
        }
        let place = random.index(count);
        let mut drive = engine.drive(plan, random);
        let has_moved = drive.notice(place) || (drive.random.chance(5) && drive.fault(place));
        if has_moved {
            engine.settle_and_flush();
        }
        has_moved
    })
}

/// Lets one worker do one thing.
fn work(handle: &Handle, plan: &crate::plan::Plan, random: &mut Random) -> bool {
    handle.with(|engine| {
        let count = engine.lanes.world.workers.len();
        let first = if count == 0 { 0 } else { random.index(count) };
        (0..count).any(|step| engine.lanes.world.work((first + step) % count, plan, random))
    })
}

/// What the thread does that looks after the links of a node's engine.
fn carry(handle: &Handle, air: &Air) -> bool {
    handle.with(|engine| {
        let now = engine.lanes.world.now;
        let is_due = engine.next_link_wake().is_some_and(|wake| wake <= now);
        if !is_due && !engine.has_arrived(air) {
            return false;
        }
        engine.drain_links();
        gristmill_client::LinkHome::settle(engine);
        engine.flush_links(now);
        true
    })
}

/// What the thread does that completes the tasks of a node's engine.
fn complete(handle: &Handle, air: &Air, plan: &crate::plan::Plan, random: &mut Random) -> bool {
    handle.with(|engine| {
        if !engine.is_due(air, false) {
            return false;
        }
        engine.drain_rings(plan, random);
        engine.poll_if_due();
        engine.settle_and_flush();
        true
    })
}
