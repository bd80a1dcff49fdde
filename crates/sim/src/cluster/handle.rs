//! A shared handle of an engine, for the threads of its process, which use it one at a time. Each use lends the engine the
//! state that all engines share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use gristmill_client::{BlobTables, InboundTasks, Links};
use gristmill_core::{Config, Core};

use super::blob_server::SimBlobServer;
use super::clock::Clock;
use super::engine::Engine;
use super::network::Air;
use super::plan::ClusterPlan;
use super::shared::Shared;
use super::sim_port::SimPort;
use super::wires::SimBlobTransport;
use crate::contexts::SimContexts;
use crate::random::SeededRandom;
use crate::world::SimWorld;

/// Time that a worker may still begin tasks after its lease is over, nanoseconds: its agent has to notice first.
pub(crate) const SLACK_NS: u64 = 300_000;

/// State of an engine's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// The process runs.
    Alive,
    /// The process is dead; its workers die at this true time.
    Dead(u64),
    /// All processes of the engine are gone.
    Over,
}

/// A handle of an engine.
#[derive(Clone)]
pub(crate) struct Handle {
    engine: Rc<RefCell<Engine>>,
    pub shared: Rc<RefCell<Shared>>,
    pub life: Rc<RefCell<Life>>,
    /// True time since which the lease is over although its agent, which was frozen, has not noticed.
    over_since: Rc<Cell<Option<u64>>>,
    pub who: Rc<str>,
    pub clock: Clock,
    /// Number of the engine: 0 is the client's, all others belong to leases.
    pub number: usize,
    pub workers: usize,
    /// Simulated thread of the blob server.
    pub blob_server: Rc<RefCell<Option<SimBlobServer>>>,
}

impl Handle {
    /// Creates an engine with its workers: the program's, or that of a lease on `node`.
    pub fn new(
        shared: &Rc<RefCell<Shared>>,
        (who, clock): (String, Clock),
        config: Config,
        (plan, air): (&ClusterPlan, &Air),
        node: Option<usize>,
    ) -> Self {
        let is_client = node.is_none();
        let number = shared.borrow_mut().next_number();
        let (blobs, blob_server) = blobs_of(number, node, plan, air);
        let mut memory = plan.base.memory();
        memory.blobs = blobs;
        let world = SimWorld::new(&config, plan.base.ring_max, memory);
        let contexts = SimContexts::of_engine(SeededRandom::new(0x5e70 + number as u64));
        let world = SimWorld { is_alone: false, engine: number, contexts, ..world };
        let mut links = Links::new(None, !is_client);
        links.sizes = plan.sizes;
        let workers = usize::from(config.workers);
        let engine = Engine {
            core: Core::new(config),
            port: SimPort::new(world, links, air),
            inbound: InboundTasks::default(),
            events: VecDeque::new(),
            guests_max: usize::MAX,
        };
        let handle = Self {
            engine: Rc::new(RefCell::new(engine)),
            shared: Rc::clone(shared),
            life: Rc::new(RefCell::new(Life::Alive)),
            over_since: Rc::default(),
            who: who.into(),
            clock,
            number,
            workers,
            blob_server: Rc::new(RefCell::new(blob_server)),
        };
        handle.with(|engine| {
            engine.port.plan = plan.blobs;
            engine.port.kinds.clone_from(&plan.kinds);
            if is_client {
                let define = |number: u64| engine.port.functions.define(&number.to_le_bytes(), "f");
                engine.port.program = (0..3).map(define).collect();
            }
            let now = engine.port.world.now;
            engine.core.start(now, &mut engine.port);
        });
        handle
    }

    /// Calls `act` with the engine, then asserts the invariants that always hold.
    pub fn with<R>(&self, act: impl FnOnce(&mut Engine) -> R) -> R {
        let mut engine = self.engine.borrow_mut();
        let mut shared = self.shared.borrow_mut();
        let world = &mut engine.port.world;
        world.ledger = std::mem::take(&mut shared.ledger);
        world.trace = shared.trace.take();
        world.now = self.clock.local(shared.now);
        world.who = Some((self.who.to_string(), shared.now));
        let before = engine.left_with_draining();
        let result = catch_unwind(AssertUnwindSafe(|| act(&mut engine)));
        let result = result.unwrap_or_else(|panic| {
            // The trace must include the events that led to the panic.
            shared.trace = engine.port.world.trace.take();
            resume_unwind(panic)
        });
        let lost = std::mem::take(&mut engine.port.lost);
        shared.silences += std::mem::take(&mut engine.port.silences);
        let world = &mut engine.port.world;
        shared.ledger = std::mem::take(&mut world.ledger);
        shared.trace = world.trace.take();
        if self.is_client() {
            shared.note_lost(lost, &engine.port.air);
        }
        if *self.life.borrow() == Life::Alive {
            engine.core.audit();
            engine.check_left(&before);
            if self.is_client() {
                engine.check_shares();
            }
            engine.check_drained();
            if let Some(blobs) = engine.tables().filter(|_| shared.now.is_multiple_of(8)) {
                blobs.audit();
            }
        }
        let is_over = self.over_since.get().is_some_and(|since| shared.now > since + SLACK_NS);
        let has_begun = !engine.port.world.started.is_empty();
        assert!(!is_over || !has_begun || !self.is_alive(), "a lease that was over goes on");
        let begun = std::mem::take(&mut engine.port.world.begun);
        shared.begun.extend(begun);
        shared.check_starts(&mut engine, self.is_client());
        result
    }

    /// Notes that the process continues after it was frozen.
    pub fn note_thaw(&self) {
        let is_over = self.with(|engine| {
            let now = engine.port.world.now;
            let links = engine.port.links.peers().filter_map(|peer| engine.port.links.get(peer));
            !self.is_client() && links.into_iter().any(|link| link.heartbeat.expires_at() <= now)
        });
        if is_over {
            self.over_since.set(Some(self.shared.borrow().now));
        }
    }

    /// Returns whether this is the program's engine.
    pub const fn is_client(&self) -> bool {
        self.number == 0
    }

    /// Returns the lines that the links of this engine began with.
    pub fn lines(&self) -> Vec<usize> {
        self.with(|engine| {
            let links = &engine.port.links;
            let peers = links.peers().filter(|&peer| links.get(peer).is_some());
            peers.filter_map(|peer| engine.port.line_of(peer)).collect()
        })
    }

    /// Returns whether it is time for the workers of a dead agent to end.
    pub fn is_left_to_die(&self, now: u64) -> bool {
        matches!(*self.life.borrow(), Life::Dead(until) if until <= now)
    }

    pub fn is_alive(&self) -> bool {
        *self.life.borrow() == Life::Alive
    }

    /// Ends all processes of the engine.
    pub fn bury(&self) {
        *self.life.borrow_mut() = Life::Over;
        *self.blob_server.borrow_mut() = None;
        self.with(|engine| {
            let world = &mut engine.port.world;
            (0..world.workers.len()).for_each(|slot| {
                world.bury(slot);
                world.workers[slot].is_up = false;
                world.workers[slot].is_starting = false;
            });
        });
    }

    /// Marks the process as dead and closes its connections.
    pub fn die(&self, workers_until: u64) {
        *self.life.borrow_mut() = Life::Dead(workers_until);
        *self.blob_server.borrow_mut() = None;
        self.with(|engine| {
            for peer in engine.port.links.peers() {
                engine.port.links.disconnect(peer);
            }
        });
    }
}

/// Creates the blob tables of an engine and, for a lease, its simulated blob server.
fn blobs_of(
    number: usize,
    node: Option<usize>,
    plan: &ClusterPlan,
    air: &Air,
) -> (Option<BlobTables>, Option<SimBlobServer>) {
    let Some(blobs) = plan.blobs else { return (None, None) };
    let Some(node) = node else {
        return (Some(BlobTables::of_client(blobs.spread).expect("there is memory")), None);
    };
    let transport = SimBlobTransport { air: air.clone(), lease: number, node };
    let port = u16::try_from(number).expect("few engines");
    let made = BlobTables::of_lease(blobs.limits(), blobs.sizes, (transport, port));
    let (tables, server) = made.expect("there is memory");
    (Some(tables), Some(SimBlobServer::new(server, air.clone(), number, &blobs)))
}
