//! An engine that several hold: its process's threads, one at a time. Whoever uses it lends it what all engines share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use gristmill_client::{BlobTables, Guests, Links};
use gristmill_core::{Config, Core};

use super::blobs::SimDepot;
use super::clock::Clock;
use super::engine::Engine;
use super::lanes::Lanes;
use super::network::Air;
use super::plan::ClusterPlan;
use super::shared::Shared;
use super::wires::SimGate;
use crate::contexts::Contexts;
use crate::random::Random;
use crate::world::World;

/// A worker may begin so long after its lease is over: until its agent has looked.
pub(crate) const SLACK_NS: u64 = 300_000;

/// What became of an engine's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It runs.
    Alive,
    /// It is dead, and its workers will be at that true time.
    Dead(u64),
    /// Nothing is left.
    Over,
}

/// An engine.
#[derive(Clone)]
pub(crate) struct Handle {
    engine: Rc<RefCell<Engine>>,
    pub shared: Rc<RefCell<Shared>>,
    pub life: Rc<RefCell<Life>>,
    /// Since when a lease is over although its agent, which stood still, has not noticed; true time.
    over_since: Rc<Cell<Option<u64>>>,
    pub who: Rc<str>,
    pub clock: Clock,
    /// Which engine it is; 0 is the client's, others are leases'.
    pub number: usize,
    pub workers: usize,
    /// What its depot's thread would do.
    pub depot: Rc<RefCell<Option<SimDepot>>>,
}

impl Handle {
    /// An engine whose workers are asked for: that of the program, or of a lease of a node.
    pub fn new(
        shared: &Rc<RefCell<Shared>>,
        (who, clock): (String, Clock),
        config: Config,
        (plan, air): (&ClusterPlan, &Air),
        node: Option<usize>,
    ) -> Self {
        let is_client = node.is_none();
        let number = shared.borrow_mut().next_number();
        let (blobs, depot) = blobs_of(number, node, plan, air);
        let mut memory = plan.base.memory();
        memory.blobs = blobs;
        let world = World::new(&config, plan.base.ring_max, memory);
        let contexts = Contexts::of_engine(Random::new(0x5e70 + number as u64));
        let world = World { is_alone: false, engine: number, contexts, ..world };
        let mut links = Links::new(None, !is_client);
        links.sizes = plan.sizes;
        let workers = usize::from(config.workers);
        let engine = Engine {
            core: Core::new(config),
            lanes: Lanes::new(world, links, air),
            guests: Guests::default(),
            news: VecDeque::new(),
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
            depot: Rc::new(RefCell::new(depot)),
        };
        handle.with(|engine| {
            engine.lanes.plan = plan.blobs;
            engine.lanes.kinds.clone_from(&plan.kinds);
            if is_client {
                let define =
                    |number: u64| engine.lanes.functions.define(&number.to_le_bytes(), "f");
                engine.lanes.program = (0..3).map(define).collect();
            }
            let now = engine.lanes.world.now;
            engine.core.start(now, &mut engine.lanes);
        });
        handle
    }

    /// Uses the engine; what must hold of it always is asserted behind that.
    pub fn with<R>(&self, act: impl FnOnce(&mut Engine) -> R) -> R {
        let mut engine = self.engine.borrow_mut();
        let mut shared = self.shared.borrow_mut();
        let world = &mut engine.lanes.world;
        world.ledger = std::mem::take(&mut shared.ledger);
        world.trace = shared.trace.take();
        world.now = self.clock.local(shared.now);
        world.who = Some((self.who.to_string(), shared.now));
        let before = engine.left_with_draining();
        let result = catch_unwind(AssertUnwindSafe(|| act(&mut engine)));
        let result = result.unwrap_or_else(|panic| {
            // What led to it is wanted.
            shared.trace = engine.lanes.world.trace.take();
            resume_unwind(panic)
        });
        let lost = std::mem::take(&mut engine.lanes.lost);
        shared.silences += std::mem::take(&mut engine.lanes.silences);
        let world = &mut engine.lanes.world;
        shared.ledger = std::mem::take(&mut world.ledger);
        shared.trace = world.trace.take();
        if self.is_client() {
            shared.note_lost(lost, &engine.lanes.air);
        }
        if *self.life.borrow() == Life::Alive {
            engine.core.audit();
            engine.check_left(&before);
            engine.check_drained();
            if let Some(blobs) = engine.tables().filter(|_| shared.now.is_multiple_of(8)) {
                blobs.audit();
            }
        }
        let is_over = self.over_since.get().is_some_and(|since| shared.now > since + SLACK_NS);
        let has_begun = !engine.lanes.world.started.is_empty();
        assert!(!is_over || !has_begun || !self.is_alive(), "a lease that was over goes on");
        shared.check_starts(&mut engine, self.is_client());
        result
    }

    /// Its process goes on after it stood still.
    pub fn note_thaw(&self) {
        let is_over = self.with(|engine| {
            let now = engine.lanes.world.now;
            let links = engine.lanes.links.peers().filter_map(|peer| engine.lanes.links.get(peer));
            !self.is_client() && links.into_iter().any(|link| link.pulse.expires_at() <= now)
        });
        if is_over {
            self.over_since.set(Some(self.shared.borrow().now));
        }
    }

    /// Whether it is the program's.
    pub const fn is_client(&self) -> bool {
        self.number == 0
    }

    /// The lines that its links began with.
    pub fn lines(&self) -> Vec<usize> {
        self.with(|engine| {
            let links = &engine.lanes.links;
            let peers = links.peers().filter(|&peer| links.get(peer).is_some());
            peers.filter_map(|peer| engine.lanes.line_of(peer)).collect()
        })
    }

    /// Whether its workers, whose agent is dead, are to end at last.
    pub fn is_left_to_die(&self, now: u64) -> bool {
        matches!(*self.life.borrow(), Life::Dead(until) if until <= now)
    }

    pub fn is_alive(&self) -> bool {
        *self.life.borrow() == Life::Alive
    }

    /// Ends all of its processes.
    pub fn bury(&self) {
        *self.life.borrow_mut() = Life::Over;
        *self.depot.borrow_mut() = None;
        self.with(|engine| {
            let world = &mut engine.lanes.world;
            (0..world.workers.len()).for_each(|slot| {
                world.bury(slot);
                world.workers[slot].is_up = false;
                world.workers[slot].is_starting = false;
            });
        });
    }

    /// Its process is dead; its connections end with it.
    pub fn die(&self, workers_until: u64) {
        *self.life.borrow_mut() = Life::Dead(workers_until);
        *self.depot.borrow_mut() = None;
        self.with(|engine| {
            for peer in engine.lanes.links.peers() {
                engine.lanes.links.disconnect(peer);
            }
        });
    }
}

/// Large parts of payloads of an engine, and what its depot's thread would have.
fn blobs_of(
    number: usize,
    node: Option<usize>,
    plan: &ClusterPlan,
    air: &Air,
) -> (Option<BlobTables>, Option<SimDepot>) {
    let Some(blobs) = plan.blobs else { return (None, None) };
    let Some(node) = node else {
        return (Some(BlobTables::of_client(blobs.spread).expect("there is memory")), None);
    };
    let gate = SimGate { air: air.clone(), lease: number, node };
    let port = u16::try_from(number).expect("few engines");
    let made = BlobTables::of_lease(blobs.limits(), blobs.sizes, (gate, port));
    let (tables, warden) = made.expect("there is memory");
    (Some(tables), Some(SimDepot::new(warden, air.clone(), number, &blobs)))
}
