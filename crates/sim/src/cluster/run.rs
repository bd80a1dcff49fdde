//! One seed of a cluster, from the first task to the end of the last lease.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use gristmill_client::LinkWork;
use gristmill_core::Status;

use super::client::Client;
use super::clock::Clock;
use super::engine::Engine;
use super::handle::Handle;
use super::network::{Air, Network, look};
use super::node::{Condition, Node};
use super::plan::ClusterPlan;
use super::shared::Shared;
use crate::random::Random;

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
    /// Bytes of large parts that the client has given, and that nodes have got from each other.
    pub blob_bytes: [u64; 2],
    /// Large results that were made again.
    pub made_again: u64,
    /// What happened, if asked for.
    pub trace: Vec<String>,
}

/// A client, its nodes and the choices of a seed: real graphs, links, doors and desks.
pub struct Cluster {
    pub(super) plan: Rc<ClusterPlan>,
    pub(super) random: Random,
    pub(super) shared: Rc<RefCell<Shared>>,
    pub(super) air: Air,
    pub(super) client: Client,
    pub(super) nodes: Vec<Node>,
    pub(super) faults_left: u64,
    /// Something has befallen it, or does without a fault: leases that end, or cannot start workers, or are given up for
    /// what they sent.
    pub(super) is_troubled: bool,
    /// Until when each node is apart, true time.
    pub(super) apart_until: Vec<u64>,
    pub(super) steps: u64,
    /// Bytes of large parts that the client has given, and that nodes have got from each other.
    pub(super) blob_bytes: [u64; 2],
    /// When all was well, or something was still to be submitted, last.
    pub(super) busy_at: u64,
}

impl Cluster {
    /// Sets a seed up; with a trace if asked for.
    #[must_use]
    pub fn new(seed: u64, with_trace: bool) -> Self {
        let mut random = Random::new(seed ^ 0xc105_7e12);
        let plan = ClusterPlan::draw(&mut random);
        let plan = plan.with_blobs(&mut Random::new(seed ^ 0xb0b));
        let plan = Rc::new(plan.with_contexts(&mut Random::new(seed ^ 0xc0_7e47)));
        let count = plan.nodes.len();
        let shared = Rc::new(RefCell::new(Shared::new(with_trace)));
        let mut network = Network::new(plan.weather, Random::new(random.next()), count);
        network.damage_rate = plan.blobs.map_or(0, |blobs| blobs.damage_rate);
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
            is_troubled: plan.ask.duration_ns != u64::MAX
                || plan.lease.start_failures > 0
                || plan.blobs.is_some_and(|blobs| blobs.lie_rate > 0),
            apart_until: vec![0; count],
            steps: 0,
            blob_bytes: [0; 2],
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
            let links = (&plan.joins, &plan.weather, &plan.sizes);
            format!("{:?}", (&plan.nodes, links, &plan.ask, &plan.blobs, &plan.kinds))
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
        self.client.handle.with(|engine| engine.lanes.world.check_values(&engine.core));
        self.client.release_all();
        self.log(|| "all futures are gone".to_owned());
        while !self.is_at_rest() {
            self.forget_contexts();
            self.step();
        }
    }

    /// Tasks that nobody waits for may have named some again.
    fn forget_contexts(&self) {
        self.client.handle.with(Engine::forget_contexts);
        for node in &self.nodes {
            let engines = node.engines.borrow();
            engines
                .iter()
                .filter(|one| one.is_alive())
                .for_each(|one| one.with(Engine::forget_contexts));
        }
    }

    fn is_at_rest(&self) -> bool {
        let is_empty = |handle: &Handle| {
            handle.with(|engine| {
                engine.lanes.contexts.count() == 0
                    && engine.guests.count() == 0
                    && !engine.core.is_recalling()
                    && engine.core.record_count() == 0
                    && engine.lanes.world.memory.block_count() == 0
                    && engine.leftovers().is_none()
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
        self.check_traffic();
        self.client.handle.with(|engine| {
            engine.end_links("the client has finished");
            let links = engine.lanes.links.peers().filter_map(|peer| engine.lanes.links.get(peer));
            let theirs: BTreeSet<_> = links.flat_map(|link| link.functions.ours()).collect();
            let count = engine.lanes.functions.used_count();
            assert_eq!(
                count,
                engine.lanes.program.len() + theirs.len(),
                "functions outlive their tasks"
            );
        });
        self.log(|| "the client leaves".to_owned());
        self.client.has_left = true;
        self.is_troubled = true;
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

    pub(super) fn is_over(&self) -> bool {
        self.nodes.iter().all(Node::is_over)
    }
}
