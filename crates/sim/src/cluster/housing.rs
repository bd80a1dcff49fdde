//! What an agent begins with: its desk, its door, and what starts the engines of its leases.

use std::cell::RefCell;
use std::rc::Rc;

use gristmill_agent::{Desk, Facts, Housing, Places};
use gristmill_core::{Config, Supply};
use gristmill_wire::peer::{Ask, Grant};

use super::clock::Clock;
use super::doorway::Doorway;
use super::handle::Handle;
use super::network::Air;
use super::plan::ClusterPlan;
use super::shared::Shared;

/// Starts the engines of leases, and remembers them.
pub(crate) struct SimHousing {
    shared: Rc<RefCell<Shared>>,
    engines: Rc<RefCell<Vec<Handle>>>,
    clock: Clock,
    plan: Rc<ClusterPlan>,
    air: Air,
    place: usize,
}

impl Housing for SimHousing {
    type Engine = Handle;

    fn start(&mut self, ask: &Ask, grant: &Grant, _: &[u16]) -> Result<Handle, String> {
        let workers = u16::try_from(grant.workers).expect("few workers");
        let config = Config {
            workers,
            tasks_per_worker_max: ask.tasks_per_worker,
            supply: Supply { memory: grant.memory, gpus: grant.gpus },
            ..self.plan.lease.config.clone()
        };
        let who = format!("n{}/{:x}", self.place, ask.lease & 0xffff);
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

/// An agent that knows of no lease.
pub(super) fn begin(
    place: usize,
    clock: Clock,
    (shared, engines): (&Rc<RefCell<Shared>>, &Rc<RefCell<Vec<Handle>>>),
    plan: &Rc<ClusterPlan>,
    air: &Air,
) -> (Desk<SimHousing>, Doorway) {
    let facts = Facts {
        python: "3".to_owned(),
        engine: "sim".to_owned(),
        name: format!("n{place}"),
        capacity: plan.nodes[place],
        places: Places::default(),
        labels: String::new(),
        joins: plan.joins[place],
        drain_ns: plan.drain_ns,
        lease_min_ns: 0,
        ends_at: u64::MAX,
    };
    let (shared, engines) = (Rc::clone(shared), Rc::clone(engines));
    let (air, plan) = (air.clone(), Rc::clone(plan));
    let housing =
        SimHousing { shared, engines, clock, plan: Rc::clone(&plan), air: air.clone(), place };
    let dialled = if plan.joins[place] { vec![place] } else { Vec::new() };
    (Desk::new(facts, housing), Doorway::new(&air, 1, vec![place], dialled))
}
