//! Explanations of why a task does not run yet, in a few sentences.

use gristmill_core::{PeerStats, SlotState, TakenResources, TaskLocation};
use gristmill_wire::{ContextId, ResourceRequest, SlotId, TaskId, WHOLE_GPU};

use crate::client::Client;
use crate::client_port::split_handle;
use crate::inner::Inner;

/// Number of tasks that an explanation follows along their dependencies.
const DEPTH_MAX: usize = 8;
/// Number of nodes that an explanation names one by one.
const NODES_MAX: usize = 8;

impl Client {
    /// Returns the reason why a task does not run yet, or its location. `failures` holds the failures of absent nodes.
    pub fn explain(&self, task: TaskId, failures: &[(String, String)]) -> String {
        let mut inner = self.lock();
        inner.drain();
        let text = inner.explain(task, failures, DEPTH_MAX);
        self.leave(inner, false);
        text
    }
}

impl Inner {
    fn named(&self, task: TaskId) -> String {
        let function = self.core.task(task).map(|view| split_handle(view.handle).0);
        let name = function.map_or("?", |function| self.port.functions.name(function));
        format!("{task} ({name})")
    }

    pub(crate) fn explain(
        &self,
        task: TaskId,
        failures: &[(String, String)],
        depth: usize,
    ) -> String {
        let who = self.named(task);
        match self.core.location(task) {
            TaskLocation::Blocked { parents, first } => {
                let text = format!("{who} waits for {} among its arguments", tasks(parents));
                if depth == 0 {
                    return text;
                }
                format!("{text}. {}", self.explain(first, failures, depth - 1))
            }
            TaskLocation::Ready { ahead } => {
                let text = format!("{who} waits for a worker; {} before it", are(ahead));
                format!("{text}. {}", self.why_no_worker(failures))
            }
            TaskLocation::Demanding { demand, ahead, taken, is_there } => {
                let text = format!("{who} waits for {}; {} before it", needs(&demand), are(ahead));
                format!("{text}. {}", self.why_not_enough(&taken, is_there, failures))
            }
            TaskLocation::InContext { context, ahead, workers } => {
                let workers = workers + self.workers_elsewhere(context);
                let name = self.port.contexts.name(context);
                let has = format!("context {name:?}, which {workers} have or set up");
                let text = format!("{who} waits for a worker with {has}; {} before it", are(ahead));
                self.with_nodes(text, failures)
            }
            TaskLocation::Nested { slot } => format!(
                "{who} waits for a worker; it was submitted by a task on worker {}, which can run it while that \
                 task waits. {}",
                slot.0,
                self.why_no_worker(failures)
            ),
            TaskLocation::Sent { slot, ahead } => self.explain_sent(&who, slot, ahead),
            TaskLocation::Delegated { peer, ahead, parents } => {
                let name = self.port.links.get(peer).map_or("?", |link| &link.names.theirs);
                let text = format!("{who} is with node {name}, {}", self.node_state(peer));
                let arguments = self.core.arguments(task);
                let blobs = arguments.and_then(|payload| self.port.explain_blobs(peer, payload));
                if let Some((received, size)) = self.port.inbound_results.progress(task) {
                    format!("{text}; it has returned: {received} of {size} result bytes have come")
                } else if parents > 0 {
                    format!("{text}; it waits there for {} among its arguments", tasks(parents))
                } else if let Some(blobs) = blobs {
                    format!("{text}; {blobs}")
                } else {
                    format!("{text}; {} sent there before it and not answered", were(ahead))
                }
            }
            TaskLocation::Returned { peer } => {
                let name = self.port.links.get(peer).map_or("?", |link| &link.names.theirs);
                let text = format!("{who} has returned, and its result is at node {name}");
                match self.port.inbound_results.progress(task) {
                    Some((received, size)) => {
                        format!("{text}: {received} of {size} bytes have arrived")
                    }
                    None => format!("{text} until the program requests it"),
                }
            }
            TaskLocation::Final(status) => format!("{who} has ended: {status:?}"),
            TaskLocation::Gone => {
                "the task has ended, and the program has taken its result".to_owned()
            }
        }
    }

    /// Returns the text about a resource that a task lacks.
    fn why_not_enough(
        &self,
        taken: &TakenResources,
        is_there: bool,
        failures: &[(String, String)],
    ) -> String {
        if let Some(holders) = holders(taken) {
            return format!("{holders} have {} that it needs", kinds(&taken.demand));
        }
        let able = if is_there { "" } else { "No connected node has so much. " };
        format!("{able}{}", self.why_no_worker(failures))
    }

    /// Adds the state of the nodes if only nodes have workers.
    fn with_nodes(&self, text: String, failures: &[(String, String)]) -> String {
        if !self.core.stats().slots.is_empty() {
            return text;
        }
        format!("{text}. {}", self.why_no_worker(failures))
    }

    /// Returns the number of workers of nodes that have a context, by the reports of these nodes.
    fn workers_elsewhere(&self, context: ContextId) -> u32 {
        let links = &self.port.links;
        let there = links.peers().filter_map(|peer| links.get(peer)?.contexts.state(context));
        there.fold(0, |all, state| all.saturating_add(state.workers))
    }

    fn explain_sent(&self, who: &str, slot: SlotId, ahead: usize) -> String {
        if ahead > 0 {
            return format!("{who} is queued at worker {}; {} before it", slot.0, are(ahead));
        }
        let channel = self.port.channels.get(usize::from(slot.0)).and_then(Option::as_ref);
        let loading = channel.and_then(|channel| channel.ends.control.loading());
        let doing = loading.map_or_else(String::new, |loading| format!(", {loading}"));
        format!("{who} runs on worker {}{doing}", slot.0)
    }

    /// Returns the module that a starting worker loads, or that the zygote to fork it from loads.
    fn loading_at_start(&self) -> Option<String> {
        let starting = self.port.channels.iter().flatten().filter(|channel| !channel.is_ready);
        let of_workers = starting.filter_map(|channel| channel.ends.control.loading());
        of_workers.chain(self.tree.loading()).next()
    }

    fn node_state(&self, peer: gristmill_wire::PeerId) -> String {
        let Some(link) = self.port.links.get(peer) else { return "which has left".to_owned() };
        let last = link.heartbeat.last;
        if !link.is_connected() {
            return "to which the program has no connection now".to_owned();
        }
        format!(
            "whose last report counts {}, {} in them and {} waiting",
            counted(last.workers.into(), "worker"),
            counted(last.running.into(), "task"),
            last.waiting
        )
    }

    fn why_no_worker(&self, failures: &[(String, String)]) -> String {
        let stats = self.core.stats();
        let count = |state| stats.slots.iter().filter(|slot| slot.state == state).count();
        let (ready, starting) = (count(SlotState::Ready), count(SlotState::Starting));
        let mut sentences = Vec::new();
        if ready > 0 {
            let workers = counted(ready as u64, "worker");
            sentences.push(match ready {
                1 => "The worker of this machine has as many tasks as it may have".to_owned(),
                _ => format!("All {workers} of this machine have as many tasks as they may have"),
            });
        }
        if starting > 0 {
            let verb = if starting == 1 { "is" } else { "are" };
            let doing =
                self.loading_at_start().map_or_else(String::new, |text| format!(", {text}"));
            let workers = counted(starting as u64, "worker");
            sentences.push(format!("{workers} {verb} being started{doing}"));
        }
        let peers: Vec<_> = self.core.peer_stats().collect();
        for peer in peers.iter().take(NODES_MAX) {
            let name = self.port.links.get(peer.peer).map_or("?", |link| &link.names.theirs);
            let state = match peer {
                PeerStats { is_draining: true, .. } => ", and gets no more because it drains",
                PeerStats { is_distrusted: true, .. } => {
                    ", and gets none for a while, because its workers died repeatedly"
                }
                _ => "",
            };
            let tasks = counted(peer.in_flight.into(), "task");
            let workers = counted(peer.workers.into(), "worker");
            sentences.push(format!("Node {name} has {tasks} for {workers}{state}"));
        }
        if peers.len() > NODES_MAX {
            sentences.push(format!("{} more nodes are connected", peers.len() - NODES_MAX));
        }
        if sentences.is_empty() {
            // An executor of this machine has slots for workers; an executor with nodes has none of its own.
            let nowhere = if stats.slots.is_empty() {
                "No node is connected"
            } else {
                "No worker has been started yet"
            };
            sentences.push(nowhere.to_owned());
        }
        sentences.extend(failures.iter().map(|(whom, text)| format!("{whom}: {text}")));
        sentences.join(". ")
    }
}

/// Returns a number of things as an English phrase.
fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn tasks(count: u32) -> String {
    if count == 1 { "a task".to_owned() } else { format!("{count} tasks") }
}

/// Returns all that a task waits for. A worker is part of it: its other needs may be free.
fn needs(demand: &ResourceRequest) -> String {
    let mut parts = vec![match demand.places() {
        0 | 1 => "a worker".to_owned(),
        workers => format!("the CPU slots of {workers} workers"),
    }];
    if demand.gpus > 0 {
        let gpus = f64::from(demand.gpus) / f64::from(WHOLE_GPU);
        parts.push(format!("{gpus} GPU{}", if gpus > 1.0 { "s" } else { "" }));
    }
    if demand.memory > 0 {
        parts.push(format!("{} of memory", in_bytes(demand.memory)));
    }
    parts.join(" and ")
}

/// Returns those that have what a task needs.
const fn holders(taken: &TakenResources) -> Option<&'static str> {
    match (taken.by_tasks, taken.by_contexts) {
        (true, true) => Some("Other tasks, and workers with a context,"),
        (true, false) => Some("Other tasks"),
        (false, true) => Some("Workers with a context"),
        (false, false) => None,
    }
}

fn kinds(demand: &ResourceRequest) -> &'static str {
    match (demand.memory > 0, demand.gpus > 0) {
        (true, true) => "memory and GPUs",
        (true, false) => "memory",
        _ => "GPUs",
    }
}

/// Returns a size in the largest unit of which it has one or more, rounded to hundredths.
fn in_bytes(size: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match UNITS.into_iter().find(|&(unit, _)| size >= unit) {
        #[expect(clippy::cast_precision_loss, reason = "rounded to hundredths")]
        Some((unit, name)) => {
            format!("{} {name}", (size as f64 / unit as f64 * 100.0).round() / 100.0)
        }
        None => counted(size, "byte"),
    }
}

fn are(count: usize) -> String {
    match count {
        0 => "no task is".to_owned(),
        1 => "1 task is".to_owned(),
        _ => format!("{count} tasks are"),
    }
}

fn were(count: usize) -> String {
    match count {
        0 => "no task was".to_owned(),
        1 => "1 task was".to_owned(),
        _ => format!("{count} tasks were"),
    }
}
