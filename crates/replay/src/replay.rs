//! The run of a graph in virtual time.

use std::sync::Arc;

use gristmill_core::PeerId;

use crate::calendar::Calendar;
use crate::client::{Program, join};
use crate::costs::{ClusterSpec, Costs};
use crate::engine::{Engine, configs};
use crate::error::ReplayError;
use crate::forecast::{Forecast, Wait};
use crate::graph::Graph;
use crate::links::Links;
use crate::messages::{EngineEffect, Message};
use crate::node::{ReplayInboundTasks, give_back, tell_recalled};
use crate::watch::Watch;
use crate::workers::RingPoll;

/// Upper limit of the estimated overhead, seconds: 32 years. Virtual time, which is this overhead plus run and arrival times,
/// then fits in 64 bits of nanoseconds.
const SECONDS_MAX: f64 = 1e9;

/// An event of the simulation, with the index of its engine. Engine 0 is the client, the others are its nodes.
#[derive(Debug)]
enum Event {
    /// A message arrives at an engine.
    Message(usize, Message),
    /// An engine has finished the handling of a message.
    Free(usize),
    /// A worker polls its ring.
    Look(usize, u16),
    /// A worker has run its task.
    End(usize, u16),
}

/// A replay in progress.
#[derive(Debug)]
pub struct Replay {
    graph: Arc<Graph>,
    cluster: ClusterSpec,
    calendar: Calendar<Event>,
    /// The client's engine, and then those of its nodes. `place` is an index of this vector.
    engines: Vec<Engine>,
    /// Inbound tasks of each engine, by the same index.
    inbound_tasks: Vec<ReplayInboundTasks>,
    program: Program,
    links: Links,
    watch: Watch,
    events: u64,
    makespan_ns: u64,
}

impl Replay {
    /// Creates a replay. All workers have started and are idle.
    ///
    /// # Errors
    /// [`ReplayError::NoWorkers`], [`ReplayError::TooLong`].
    pub fn new(
        graph: Graph,
        cluster: ClusterSpec,
        costs: Costs,
        seed: u64,
    ) -> Result<Self, ReplayError> {
        if cluster.workers == 0 {
            return Err(ReplayError::NoWorkers);
        }
        let seconds = costs.most_s(graph.tasks().len(), graph.moved_size());
        if seconds >= SECONDS_MAX {
            return Err(ReplayError::TooLong { seconds });
        }
        let graph = Arc::new(graph);
        let seeds = (0..).map(|number| seed.wrapping_mul(1 << 20).wrapping_add(number));
        let configs = configs(&cluster).into_iter().zip(seeds);
        let mut engines: Vec<Engine> = configs
            .map(|(config, seed)| Engine::new(config, Arc::clone(&graph), costs, seed))
            .collect();
        join(&mut engines[0], &cluster);
        let mut calendar = Calendar::new();
        let first = graph.task(0).arrival_ns;
        calendar.note(first, Event::Message(0, Message::Submit(0)));
        Ok(Self {
            program: Program::new(&engines[0]),
            inbound_tasks: engines.iter().map(|_| ReplayInboundTasks::default()).collect(),
            watch: Watch::new(graph.tasks().len(), engines.len()),
            links: Links::new(cluster.nodes, &costs, !seed),
            graph,
            cluster,
            calendar,
            engines,
            events: 0,
            makespan_ns: 0,
        })
    }

    /// Simulates up to `events` events. Returns true if all tasks have ended.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn advance(&mut self, events: u64) -> Result<bool, ReplayError> {
        let count = self.graph.tasks().len();
        for _ in 0..events {
            if self.program.ended as usize == count {
                return Ok(true);
            }
            let Some((now, event)) = self.calendar.next() else {
                return Err(ReplayError::Stuck { ended: self.program.ended, count });
            };
            self.events += 1;
            match event {
                Event::Message(engine, message) => self.deliver(engine, message, now)?,
                Event::Free(engine) => self.go_on(engine, now)?,
                Event::Look(engine, slot) => self.look(engine, slot, now),
                Event::End(engine, slot) => self.end(engine, slot, now),
            }
            if let Some((task, what)) = self.watch.complaint {
                return Err(ReplayError::Broken { task, what });
            }
        }
        Ok(false)
    }

    /// Returns the result, which is complete once all tasks have ended.
    #[must_use]
    pub fn forecast(&self) -> Forecast {
        let own = usize::from(self.cluster.nodes > 0);
        Forecast {
            makespan_ns: self.makespan_ns,
            work_ns: self.graph.work_ns(),
            critical_path_ns: self.graph.critical_path_ns(),
            bound_ns: self.graph.bound_ns(self.cluster.worker_count()),
            wait: Wait::of(&self.watch.waits_ns(&self.graph)),
            tasks_of_nodes: self.watch.counts[own..].to_vec(),
            bytes_sent: self.links.sent,
            bytes_received: self.links.received,
            given_back: self.program.returned,
            events: self.events,
        }
    }

    fn deliver(&mut self, place: usize, message: Message, now: u64) -> Result<(), ReplayError> {
        let engine = &mut self.engines[place];
        if matches!(message, Message::Poll) {
            if engine.poll_at != Some(now) {
                // The poll was postponed, or has already run.
                return Ok(());
            }
            engine.poll_at = None;
        }
        if !engine.is_busy(now) {
            return self.handle(place, message, now);
        }
        engine.inbox.push_back(message);
        if !std::mem::replace(&mut engine.is_awaited, true) {
            self.calendar.note(engine.busy_until, Event::Free(place));
        }
        Ok(())
    }

    fn go_on(&mut self, place: usize, now: u64) -> Result<(), ReplayError> {
        let engine = &mut self.engines[place];
        engine.is_awaited = false;
        let Some(message) = engine.inbox.pop_front() else { return Ok(()) };
        self.handle(place, message, now)
    }

    /// Lets an engine handle a message, and schedules the effects.
    fn handle(&mut self, place: usize, message: Message, now: u64) -> Result<(), ReplayError> {
        self.engines[place].begin(now, &message);
        if place == 0 {
            self.handle_at_client(message)?
        } else {
            self.handle_at_node(place, message)
        }
        let engine = &mut self.engines[place];
        engine.settle();
        if place == 0 {
            self.program.note_ends(engine);
        } else {
            self.inbound_tasks[place].tell_ends(engine, peer_of(place));
            engine.busy_until = engine.model.now;
        }
        self.tell_deeds(place);
        let engine = &mut self.engines[place];
        // A poll at the same time again would change nothing.
        let later = engine.busy_until + 1;
        let wake = engine.core.next_wake(engine.busy_until).map(|at| at.max(later));
        if wake != engine.poll_at {
            engine.poll_at = wake;
            let polled = wake.map(|at| (at, Event::Message(place, Message::Poll)));
            polled.into_iter().for_each(|(at, event)| self.calendar.note(at, event));
        }
        if !engine.inbox.is_empty() && !std::mem::replace(&mut engine.is_awaited, true) {
            self.calendar.note(engine.busy_until, Event::Free(place));
        }
        if let Some((task, status)) = self.program.failed {
            return Err(ReplayError::Failed { task, status });
        }
        self.makespan_ns = self.makespan_ns.max(self.engines[0].busy_until);
        Ok(())
    }

    fn handle_at_client(&mut self, message: Message) -> Result<(), ReplayError> {
        let client = &mut self.engines[0];
        match message {
            Message::Submit(task) => {
                let submitted = self.program.submit(client, task);
                submitted.map_err(|error| ReplayError::Refused { task, error })?;
                let now = client.model.now;
                self.watch.submitted(task, now);
                if let Some(next) = self.graph.tasks().get(task as usize + 1) {
                    let message = Message::Submit(task + 1);
                    self.calendar.note(now.max(next.arrival_ns), Event::Message(0, message));
                }
            }
            Message::Answer { slot, record, ran_ns } => client.take_answer(slot, &record, ran_ns),
            Message::Home { peer, placement, end } => {
                self.program.take_home(client, peer, (placement, end));
            }
            Message::Recalled { peer } => {
                let Engine { core, model, .. } = client;
                core.peer_recalled(PeerId(peer), model.now, model);
            }
            Message::Poll => client.poll(),
            Message::Dispatch { .. } | Message::Recall(_) => unreachable!("it is no node"),
        }
        Ok(())
    }

    fn handle_at_node(&mut self, place: usize, message: Message) {
        let (node, inbound_tasks) = (&mut self.engines[place], &mut self.inbound_tasks[place]);
        match message {
            Message::Dispatch { placement, parents, confirmed } => {
                inbound_tasks.take(node, peer_of(place), (placement, &parents, &confirmed));
            }
            Message::Recall(count) => {
                give_back(node, count);
                inbound_tasks.tell_ends(node, peer_of(place));
                tell_recalled(node, peer_of(place));
            }
            Message::Answer { slot, record, ran_ns } => {
                inbound_tasks.note_run(record.number, ran_ns);
                node.take_answer(slot, &record, ran_ns);
            }
            Message::Poll => node.poll(),
            Message::Submit(_) | Message::Home { .. } | Message::Recalled { .. } => {
                unreachable!("it is not the client")
            }
        }
    }

    /// Schedules the events that the effects of an engine cause.
    fn tell_deeds(&mut self, place: usize) {
        for (at, effect) in std::mem::take(&mut self.engines[place].model.effects) {
            let (at, event) = match effect {
                EngineEffect::Rouse { slot } => (at, Event::Look(place, slot)),
                EngineEffect::ToNode { peer, message, size } => {
                    let node = usize::from(peer) + 1;
                    (self.links.send_to_node(peer, size, at), Event::Message(node, message))
                }
                EngineEffect::ToClient { message, size } => {
                    let at = self.links.send_to_client(peer_of(place), size, at);
                    (at, Event::Message(0, message))
                }
            };
            self.calendar.note(at, event);
        }
    }

    fn look(&mut self, place: usize, slot: u16, now: u64) {
        let model = &mut self.engines[place].model;
        match model.workers[usize::from(slot)].look(now) {
            RingPoll::Begins(record) => {
                self.watch.began(&self.graph, (record.number, place), now);
                let run_ns = self.graph.task(record.number).run_ns;
                let around_ns = model.costs.call_ns + model.costs.wrap_ns;
                let took_ns = run_ns + around_ns + model.copies_ns(record.number);
                self.calendar.note(now + took_ns, Event::End(place, slot));
            }
            RingPoll::Later(at) => self.calendar.note(at, Event::Look(place, slot)),
            RingPoll::Idles => {}
        }
    }

    fn end(&mut self, place: usize, slot: u16, now: u64) {
        let model = &mut self.engines[place].model;
        let Some((record, begun_at)) = model.workers[usize::from(slot)].end() else { return };
        self.watch.ended(record.number, now);
        let seen_at = now + model.latencies.draw(model.costs.see_ns);
        let message = Message::Answer { slot, record, ran_ns: now - begun_at };
        self.calendar.note(seen_at, Event::Message(place, message));
        self.look(place, slot, now);
    }
}

/// Returns the peer number of the node whose engine has the index `place`. It fits because a cluster has at most 65,535 nodes.
#[expect(clippy::cast_possible_truncation, reason = "there are as many nodes as such numbers")]
const fn peer_of(place: usize) -> u16 {
    (place - 1) as u16
}
