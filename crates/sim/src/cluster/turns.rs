//! Scheduling of the simulation: one step of one thread at a time, in an order that the seed draws, and the passing of time.

use std::rc::Rc;

use super::handle::{Handle, Life};
use super::network::look;
use super::run::SimCluster;

/// Number of steps after which a seed counts as hanging.
const STEPS_MAX: u64 = 500_000;
/// Number of steps after which no more workers are killed, so that starts can succeed.
const KILLS_END: u64 = 20_000;
/// Number of steps directly before [`STEPS_MAX`] whose actors the trace names, to show what hangs.
const LAST_STEPS: u64 = 100;

/// A thread, or the source of faults, that does a step.
#[derive(Debug, Clone, Copy)]
enum Actor {
    /// The source of faults.
    Fault,
    /// The client's program.
    Program,
    /// The thread that completes the client's tasks and serves its links.
    ClientLeader,
    /// The client's connection manager.
    ClientDoor,
    /// The thread that reports starts and deaths of the client's workers; it may kill one.
    ClientTree,
    /// One of the client's workers.
    ClientWorker,
    /// The agent of a node: its lease server and its connection manager.
    LeaseServer(usize),
    /// A thread of a lease: the part, the node, and the index of the lease on this node.
    Lease(Part, usize, usize),
}

/// The threads of a lease.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// The thread that serves the links.
    Courier,
    /// The thread that completes tasks.
    Leader,
    /// The thread that reports starts and deaths of workers; it may kill one.
    Tree,
    /// One of the workers. It also ends the workers of a dead agent when their time is over.
    Worker,
    /// The blob server.
    Depot,
}

impl SimCluster {
    /// Lets the next thread that can do something do a step, or lets time pass if there is none.
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
                self.check_precedence();
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

    /// Lets time pass until the next thread can do something.
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

    /// Returns the earliest true time at which a running task may end.
    fn next_end(&self, handle: &Handle) -> Option<u64> {
        let end = handle.with(|engine| engine.port.world.next_end())?;
        Some(handle.clock.when(end))
    }

    /// Requests the end of a task that would run forever; returns false if there is none.
    fn stop_hanging(&mut self) -> bool {
        let nodes = self.nodes.iter().flat_map(|node| node.engines.borrow().clone());
        for handle in nodes.chain([self.client.handle.clone()]).filter(Handle::is_alive) {
            let Some(number) = handle.with(|engine| engine.port.world.hanging()) else { continue };
            let owner = self.shared.borrow().ledger[number].owner;
            // If the owner is gone, the engine that runs the task learns that by itself.
            let Some(handle) = self.engine_of(owner) else { continue };
            if handle.is_client() && self.client.waits() {
                continue;
            }
            super::program::stop(&handle, number);
            return true;
        }
        false
    }

    /// Returns the engine with a number, if its process can do something.
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
                actors.push(Actor::LeaseServer(place));
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
            Actor::LeaseServer(place) => {
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
