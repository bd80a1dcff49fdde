//! Why a task does not run yet, in a few sentences.

use gristmill_core::{PeerStats, SlotState, Whereabouts};
use gristmill_wire::{Demand, TaskId, WHOLE_GPU};

use crate::client::Client;
use crate::inner::Inner;
use crate::lanes::split_handle;

/// Tasks that are followed to what they wait for.
const DEPTH_MAX: usize = 8;
/// Nodes that are named one by one.
const NODES_MAX: usize = 8;

impl Client {
    /// Why a task does not run yet, or where it is; `troubles` are those of nodes that should be there.
    pub fn explain(&self, task: TaskId, troubles: &[(String, String)]) -> String {
        let mut inner = self.lock();
        inner.drain();
        let text = inner.explain(task, troubles, DEPTH_MAX);
        self.leave(inner, false);
        text
    }
}

impl Inner {
    fn named(&self, task: TaskId) -> String {
        let function = self.core.task(task).map(|view| split_handle(view.handle).0);
        let name = function.map_or("?", |function| self.lanes.functions.name(function));
        format!("{task} ({name})")
    }

    pub(crate) fn explain(
        &self,
        task: TaskId,
        troubles: &[(String, String)],
        depth: usize,
    ) -> String {
        let who = self.named(task);
        match self.core.whereabouts(task) {
            Whereabouts::Blocked { parents, first } => {
                let text = format!("{who} waits for {} among its arguments", tasks(parents));
                if depth == 0 {
                    return text;
                }
                format!("{text}. {}", self.explain(first, troubles, depth - 1))
            }
            Whereabouts::Ready { ahead } => {
                let text = format!("{who} waits for a worker; {} before it", are(ahead));
                format!("{text}. {}", self.why_no_worker(troubles))
            }
            Whereabouts::Demanding { demand, ahead, is_there } => {
                let text = format!("{who} waits for {}; {} before it", needs(&demand), are(ahead));
                let able = if is_there { "" } else { " No node that is there has so much." };
                format!("{text}.{able} {}", self.why_no_worker(troubles))
            }
            Whereabouts::InContext { context, ahead, workers } => {
                let name = self.lanes.contexts.name(context);
                let has = format!("context {name:?}, which {workers} have or set up");
                format!("{who} waits for a worker with {has}; {} before it", are(ahead))
            }
            Whereabouts::Nested { slot } => format!(
                "{who} waits for a worker; it was submitted by a task on worker {}, which runs it when it waits for \
                 it. {}",
                slot.0,
                self.why_no_worker(troubles)
            ),
            Whereabouts::Sent { slot, ahead: 0 } => format!("{who} runs on worker {}", slot.0),
            Whereabouts::Sent { slot, ahead } => {
                format!("{who} is queued at worker {}; {} before it", slot.0, are(ahead))
            }
            Whereabouts::Away { peer, ahead, parents } => {
                let name = self.lanes.links.get(peer).map_or("?", |link| &link.name);
                let text = format!("{who} is with node {name}, {}", self.node_state(peer));
                let arguments = self.core.arguments(task);
                let blobs = arguments.and_then(|payload| self.lanes.explain_blobs(peer, payload));
                if let Some((received, size)) = self.lanes.homing.progress(task) {
                    format!(
                        "{text}; it has returned: {received} of {size} bytes have come from there"
                    )
                } else if parents > 0 {
                    format!("{text}; it waits there for {} among its arguments", tasks(parents))
                } else if let Some(blobs) = blobs {
                    format!("{text}; {blobs}")
                } else {
                    format!("{text}; {} sent there before it and not answered", were(ahead))
                }
            }
            Whereabouts::Returned { peer } => {
                let name = self.lanes.links.get(peer).map_or("?", |link| &link.name);
                let text = format!("{who} has returned, and its result is at node {name}");
                match self.lanes.homing.progress(task) {
                    Some((received, size)) => {
                        format!("{text}: {received} of {size} bytes have come from there")
                    }
                    None => format!("{text} until somebody asks for it"),
                }
            }
            Whereabouts::Final(status) => format!("{who} has ended: {status:?}"),
            Whereabouts::Gone => "the task has ended, and its result was taken".to_owned(),
        }
    }

    fn node_state(&self, peer: gristmill_wire::PeerId) -> String {
        let Some(link) = self.lanes.links.get(peer) else { return "which is gone".to_owned() };
        let last = link.pulse.last;
        if !link.is_connected() {
            return "to which there is no connection now".to_owned();
        }
        format!(
            "which had {} workers up, {} tasks with them and {} waiting when it was heard last",
            last.workers, last.running, last.waiting
        )
    }

    fn why_no_worker(&self, troubles: &[(String, String)]) -> String {
        let stats = self.core.stats();
        let count = |state| stats.slots.iter().filter(|slot| slot.state == state).count();
        let (ready, starting) = (count(SlotState::Ready), count(SlotState::Starting));
        let mut sentences = Vec::new();
        if ready > 0 {
            sentences.push(format!("All {ready} workers here have as much as they may have"));
        }
        if starting > 0 {
            sentences.push(format!("{starting} workers are being started"));
        }
        let peers: Vec<_> = self.core.peer_stats().collect();
        for peer in peers.iter().take(NODES_MAX) {
            let name = self.lanes.links.get(peer.peer).map_or("?", |link| &link.name);
            let state = match peer {
                PeerStats { is_draining: true, .. } => ", and gets no more",
                PeerStats { is_distrusted: true, .. } => {
                    ", and gets none for a while, as its workers died again and again"
                }
                _ => "",
            };
            let (tasks, workers) = (peer.in_flight, peer.workers);
            sentences.push(format!("Node {name} has {tasks} tasks for {workers} workers{state}"));
        }
        if peers.len() > NODES_MAX {
            sentences.push(format!("There are {} more nodes", peers.len() - NODES_MAX));
        }
        if sentences.is_empty() {
            sentences.push("No node is there".to_owned());
        }
        sentences.extend(troubles.iter().map(|(whom, text)| format!("{whom}: {text}")));
        sentences.join(". ")
    }
}

fn tasks(count: u32) -> String {
    if count == 1 { "a task".to_owned() } else { format!("{count} tasks") }
}

fn needs(demand: &Demand) -> String {
    let mut parts = Vec::new();
    if demand.places() > 1 {
        parts.push(format!("the places of {} workers", demand.places()));
    }
    if demand.gpus > 0 {
        parts.push(format!("{} GPUs", f64::from(demand.gpus) / f64::from(WHOLE_GPU)));
    }
    if demand.memory > 0 {
        parts.push(format!("{} bytes of memory", demand.memory));
    }
    parts.join(", ")
}

fn are(count: usize) -> String {
    match count {
        0 => "none is".to_owned(),
        1 => "1 is".to_owned(),
        _ => format!("{count} are"),
    }
}

fn were(count: usize) -> String {
    match count {
        0 => "none was".to_owned(),
        1 => "1 was".to_owned(),
        _ => format!("{count} were"),
    }
}
