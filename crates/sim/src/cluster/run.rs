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
use super::waiting::Precedence;
use crate::random::SeededRandom;

/// Report of one seed.
#[derive(Debug, Clone, Default)]
pub struct ClusterReport {
    /// Number of steps.
    pub steps: u64,
    /// Number of the program's tasks by final state.
    pub finished: [u64; Status::COUNT],
    /// Number of tasks sent to nodes.
    pub placements: u64,
    /// Number of the client's links that were lost. Tasks sent over them that had no answer yet counted as lost.
    pub lost_links: u64,
    /// Number of tasks that began more than once.
    pub repeated: u64,
    /// Bytes of large parts that the client has provided, and that nodes have fetched from each other.
    pub blob_bytes: [u64; 2],
    /// Number of large results that were made again.
    pub made_again: u64,
    /// Trace of all events, if requested.
    pub trace: Vec<String>,
}

/// A client, its nodes and the choices of a seed. Scheduler cores, links, connection managers and lease servers are real.
pub struct SimCluster {
    pub(super) plan: Rc<ClusterPlan>,
    pub(super) random: SeededRandom,
    pub(super) shared: Rc<RefCell<Shared>>,
    pub(super) air: Air,
    pub(super) client: Client,
    pub(super) precedence: Precedence,
    pub(super) nodes: Vec<Node>,
    pub(super) faults: FaultState,
    pub(super) steps: u64,
    /// Bytes of large parts that the client has provided, and that nodes have fetched from each other.
    pub(super) blob_bytes: [u64; 2],
    /// Latest true time at which a fault was active or tasks were still being submitted.
    pub(super) busy_at: u64,
}

/// Faults so far and to come.
pub(super) struct FaultState {
    /// Number of faults to come.
    pub left: u64,
    /// True once links may fall silent: a fault has happened, the client has left, or the plan itself causes trouble (leases
    /// that end, cannot start workers, or are given up because of wrong bytes).
    pub is_troubled: bool,
    /// True time until which each node is apart, which means cut off from the network.
    pub apart_until: Vec<u64>,
}

impl SimCluster {
    /// Sets up a seed; with a trace if requested.
    #[must_use]
    pub fn new(seed: u64, with_trace: bool) -> Self {
        let mut random = SeededRandom::new(seed ^ 0xc105_7e12);
        let plan = ClusterPlan::draw(&mut random);
        let plan = plan.with_blobs(&mut SeededRandom::new(seed ^ 0xb0b));
        let plan = plan.with_priorities(&mut SeededRandom::new(seed ^ 0x9107));
        let plan = Rc::new(plan.with_contexts(&mut SeededRandom::new(seed ^ 0xc0_7e47)));
        let count = plan.nodes.len();
        let shared = Rc::new(RefCell::new(Shared::new(with_trace)));
        let mut network = Network::new(plan.weather, SeededRandom::new(random.next()), count);
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
            precedence: Precedence::default(),
            faults: FaultState {
                left: plan.faults,
                is_troubled: plan.request.duration_ns != u64::MAX
                    || plan.lease.start_failures > 0
                    || plan.blobs.is_some_and(|blobs| blobs.lie_rate > 0),
                apart_until: vec![0; count],
            },
            steps: 0,
            blob_bytes: [0; 2],
            busy_at: 0,
            plan,
            random,
            shared,
            air,
        }
    }

    /// Returns the trace so far.
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
    /// If an invariant does not hold.
    pub fn run(&mut self) -> ClusterReport {
        self.log_plan();
        while !self.is_program_over() {
            self.step();
        }
        if self.client.runs() {
            self.faults.left = 0;
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
            format!("{:?}", (&plan.nodes, links, &plan.request, &plan.blobs, &plan.kinds))
        });
    }

    fn is_program_over(&self) -> bool {
        let client = &self.client;
        client.condition == Condition::Gone
            || (client.runs()
                && client.submitted == self.plan.base.tasks
                && client.handle.with(|engine| engine.core.is_drained()))
    }

    /// Runs without faults until all futures are dropped and no state of any task is left.
    fn come_to_rest(&mut self) {
        self.client.handle.with(|engine| engine.port.world.check_values(&engine.core));
        self.client.release_all();
        self.log(|| "all futures are gone".to_owned());
        while !self.is_at_rest() {
            self.forget_contexts();
            self.step();
        }
    }

    /// Drops all contexts. The caller repeats this before each step: tasks that still run, though no future waits for their
    /// results, may define contexts anew.
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
                engine.port.contexts.count() == 0
                    && engine.inbound.count() == 0
                    && !engine.core.is_recalling()
                    && engine.core.record_count() == 0
                    && engine.port.world.memory.block_count() == 0
                    && engine.leftovers().is_none()
            })
        };
        is_empty(&self.client.handle)
            && self.nodes.iter().all(|node| {
                let engines = node.engines.borrow();
                engines.iter().filter(|one| one.is_alive()).all(is_empty)
            })
    }

    /// Ends the links of the client, which has no more to do, and then its process.
    fn leave(&mut self) {
        self.check_traffic();
        self.client.handle.with(|engine| {
            engine.end_links("the client has finished");
            let links = engine.port.links.peers().filter_map(|peer| engine.port.links.get(peer));
            let theirs: BTreeSet<_> = links.flat_map(|link| link.functions.ours()).collect();
            let count = engine.port.functions.used_count();
            assert_eq!(
                count,
                engine.port.program.len() + theirs.len(),
                "functions outlive their tasks"
            );
        });
        self.log(|| "the client leaves".to_owned());
        self.client.has_left = true;
        // Links to a client that has left may fall silent.
        self.faults.is_troubled = true;
        self.end_client(false);
    }

    /// Ends the client's process.
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
        self.client.connections =
            super::connections::SimConnections::new(&self.air, 0, nodes.clone(), nodes);
        self.busy_at = now;
    }

    pub(super) fn is_over(&self) -> bool {
        self.nodes.iter().all(Node::is_over)
    }
}
