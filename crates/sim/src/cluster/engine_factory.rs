//! Parts of a new agent: its lease server, its connection manager, and the factory for the engines of its leases.

use std::cell::RefCell;
use std::rc::Rc;

use gristmill_agent::{CpuSlotAffinity, EngineFactory, LeaseServer, NodeDescription};
use gristmill_core::{Config, Supply};
use gristmill_wire::peer::{LeaseGrant, LeaseRequest};

use super::clock::Clock;
use super::connections::SimConnections;
use super::handle::Handle;
use super::network::Air;
use super::plan::ClusterPlan;
use super::shared::Shared;

/// Factory for the engines of a simulated agent's leases. It records the engines that it starts.
pub(crate) struct SimEngineFactory {
    shared: Rc<RefCell<Shared>>,
    engines: Rc<RefCell<Vec<Handle>>>,
    clock: Clock,
    plan: Rc<ClusterPlan>,
    /// Simulated network.
    air: Air,
    /// Index of the node.
    place: usize,
}

impl EngineFactory for SimEngineFactory {
    type Engine = Handle;

    fn start(
        &mut self,
        request: &LeaseRequest,
        grant: &LeaseGrant,
        _: &[u16],
    ) -> Result<Handle, String> {
        let workers = u16::try_from(grant.workers).expect("few workers");
        let config = Config {
            workers,
            tasks_per_worker_max: request.tasks_per_worker,
            supply: Supply { memory: grant.memory, gpus: grant.gpus },
            ..self.plan.lease.config.clone()
        };
        let who = format!("n{}/{:x}", self.place, request.lease & 0xffff);
        let handle = Handle::new(
            &self.shared,
            (who, self.clock),
            config,
            (&self.plan, &self.air),
            Some(self.place),
        );
        self.engines.borrow_mut().push(handle.clone());
        Ok(handle)
    }
}

/// Creates the lease server and the connection manager (a [`SimConnections`]) of a new agent, which has no leases yet.
pub(super) fn begin(
    place: usize,
    clock: Clock,
    (shared, engines): (&Rc<RefCell<Shared>>, &Rc<RefCell<Vec<Handle>>>),
    plan: &Rc<ClusterPlan>,
    air: &Air,
) -> (LeaseServer<SimEngineFactory>, SimConnections) {
    let facts = NodeDescription {
        python: "3".to_owned(),
        engine: "sim".to_owned(),
        name: format!("n{place}"),
        capacity: plan.nodes[place],
        affinity: CpuSlotAffinity::default(),
        labels: String::new(),
        message_max: plan.sizes.message as u64,
        joins: plan.joins[place],
        drain_ns: plan.drain_ns,
        lease_min_ns: 0,
        ends_at: u64::MAX,
    };
    let (shared, engines) = (Rc::clone(shared), Rc::clone(engines));
    let (air, plan) = (air.clone(), Rc::clone(plan));
    let engine_factory = SimEngineFactory {
        shared,
        engines,
        clock,
        plan: Rc::clone(&plan),
        air: air.clone(),
        place,
    };
    let dialled = if plan.joins[place] { vec![place] } else { Vec::new() };
    (LeaseServer::new(facts, engine_factory), SimConnections::new(&air, 1, vec![place], dialled))
}
