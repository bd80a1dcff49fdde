//! Who does something next: one step of one thread at a time, in an order that the seed draws; and the passing of time.

use std::rc::Rc;

use super::handle::{Handle, Life};
use super::network::look;
use super::run::Cluster;

/// Steps after which a seed is said to hang.
const STEPS_MAX: u64 = 500_000;
/// Steps after which workers are killed no more: something has to come of all starts.
const KILLS_END: u64 = 20_000;
/// The last ones are traced, whatever they do.
const LAST_STEPS: u64 = 100;

/// Who does something.
#[derive(Debug, Clone, Copy)]
enum Actor {
    Fault,
    Program,
    ClientLeader,
    ClientDoor,
    ClientTree,
    ClientWorker,
    /// The agent of a node.
    Desk(usize),
    /// Something of a lease: the node, and which of its leases.
    Lease(Part, usize, usize),
}

/// What a lease has.
#[derive(Debug, Clone, Copy)]
enum Part {
    Courier,
    Leader,
    Tree,
    Worker,
    Depot,
}

impl Cluster {
    /// Lets the next of those who can do something do it, or time pass if there is none.
    pub(super) fn step(&mut self) {
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "it goes on and on: {}", self.describe());
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
                    wakes.push(handle.next_look());
                }
                if let Life::Dead(until) = *handle.life.borrow() {
                    wakes.push(Some(until));
                }
            }
        }
        let now = self.now();
        let wake = wakes.into_iter().flatten().min();
        let Some(wake) = wake else {
            assert!(self.is_over(), "nothing can happen any more");
            return;
        };
        self.set_time(wake.max(now + 1));
    }

    /// When the earliest running task may end, true time.
    fn next_end(&self, handle: &Handle) -> Option<u64> {
        let end = handle.with(|engine| engine.lanes.world.next_end())?;
        Some(handle.clock.when(end))
    }

    /// Asks for the end of a task that would run for ever; false when there is none.
    fn stop_hanging(&mut self) -> bool {
        let nodes = self.nodes.iter().flat_map(|node| node.engines.borrow().clone());
        for handle in nodes.chain([self.client.handle.clone()]).filter(Handle::is_alive) {
            let Some(number) = handle.with(|engine| engine.lanes.world.hanging()) else { continue };
            let owner = self.shared.borrow().ledger[number].owner;
            // Where its owner is gone, whoever runs it will hear so.
            let Some(handle) = self.engine_of(owner) else { continue };
            if handle.is_client() && self.client.waits() {
                continue;
            }
            super::program::stop(&handle, number);
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
            actors.extend([Actor::Program, Actor::Program, Actor::ClientLeader]);
            actors.extend([Actor::ClientLeader, Actor::ClientDoor, Actor::ClientTree]);
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
                    let parts = [Part::Courier, Part::Leader, Part::Tree];
                    actors.extend(parts.map(|part| Actor::Lease(part, place, index)));
                    if self.plan.blobs.is_some() {
                        actors.push(Actor::Lease(Part::Depot, place, index));
                    }
                }
                if node.workers_run() {
                    actors.extend([Actor::Lease(Part::Worker, place, index); 2]);
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
            Actor::ClientLeader => self.client.lead(&self.air, &plan.base, random),
            Actor::ClientDoor => self.client.attend_door(),
            Actor::ClientTree => {
                self.client.handle.tend(&plan.base, random, self.steps < KILLS_END)
            }
            Actor::ClientWorker => self.client.handle.work(&plan.base, random),
            Actor::Desk(place) => {
                self.check_drained(place);
                self.end_drained(place) || self.nodes[place].attend()
            }
            Actor::Lease(part, place, index) => {
                let lease = self.nodes[place].engines.borrow().get(index).cloned();
                lease.is_some_and(|lease| self.act_in_lease(part, place, &lease))
            }
        }
    }

    fn act_in_lease(&mut self, part: Part, place: usize, lease: &Handle) -> bool {
        let (plan, random) = (&self.plan.lease, &mut self.random);
        match part {
            Part::Courier => lease.carry(&self.air),
            Part::Leader => lease.complete(&self.air, plan, random),
            Part::Tree => lease.tend(plan, random, self.steps < KILLS_END),
            Part::Depot => lease.keep_store(),
            Part::Worker if lease.is_left_to_die(self.shared.borrow().now) => {
                lease.bury();
                self.nodes[place].forget_dead();
                true
            }
            Part::Worker => lease.work(plan, random),
        }
    }
}
