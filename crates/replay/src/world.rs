//! What the machine of one engine asks for: rings of its workers, links to its nodes.

use std::collections::HashMap;
use std::sync::Arc;

use gristmill_core::{
    Block, ContextId, Dispatch, Errand, Holders, KillReason, Outfit, Payload, PayloadRef, PeerId,
    Port, Progress, Sent, SlotId, Status, TakeBack, TaskId,
};

use crate::costs::{Costs, transfer_ns};
use crate::errands::{Deed, Message, ParentPart, Placement};
use crate::graph::Graph;
use crate::random::Latencies;
use crate::workers::Worker;

/// Results from here on are blobs: sent to a node once, and where they are counts. As in `core`.
const BLOB_MIN: u64 = 1 << 20;
/// Holders of a blob that the machine is told of.
const HOLDERS_MAX: usize = 64;

/// One engine's world.
#[derive(Debug)]
pub(crate) struct World {
    /// The time of the current step, with what was done in it so far.
    pub now: u64,
    pub graph: Arc<Graph>,
    pub costs: Costs,
    pub workers: Vec<Worker>,
    pub latencies: Latencies,
    /// What it did, and when.
    pub deeds: Vec<(u64, Deed)>,
    /// Tasks that became final, by their ids and their numbers.
    pub finished: Vec<(TaskId, u32, Status)>,
    /// Slots whose workers were asked for.
    pub spawned: Vec<SlotId>,
    /// Of the client: nodes that have a blob, by its task.
    holders: HashMap<u32, Vec<u16>>,
    /// Of the client: tasks whose answers it has, by node.
    pub confirmed: Vec<Vec<u32>>,
}

impl World {
    pub fn new(graph: Arc<Graph>, costs: Costs, workers: u16, seed: u64) -> Self {
        Self {
            now: 0,
            graph,
            costs,
            workers: (0..workers).map(|_| Worker::default()).collect(),
            latencies: Latencies::new(seed, costs.scatter),
            deeds: Vec::new(),
            finished: Vec::new(),
            spawned: Vec::new(),
            holders: HashMap::new(),
            confirmed: Vec::new(),
        }
    }

    /// Notes something that it does now.
    pub fn note(&mut self, deed: Deed) {
        self.deeds.push((self.now, deed));
    }

    /// What a task's arguments are here: its number.
    pub fn arguments(number: u32) -> Payload {
        Payload::copy_from(&number.to_le_bytes())
    }

    /// What it returned: a block, if it is large.
    pub fn result(&self, number: u32) -> Payload {
        let size = self.graph.task(number).result_size;
        if size < BLOB_MIN {
            return Self::arguments(number);
        }
        Payload::in_arena(Block { offset: u64::from(number), size })
    }

    /// Notes that a node has made a result.
    pub fn note_maker(&mut self, number: u32, peer: u16) {
        if self.graph.task(number).result_size >= BLOB_MIN {
            self.holders.entry(number).or_default().push(peer);
        }
    }

    /// The bytes of a result that go to a node with a task that needs it.
    fn value_size(&mut self, number: u32, peer: u16) -> u64 {
        let size = self.graph.task(number).result_size;
        if size < BLOB_MIN {
            return size;
        }
        let holders = self.holders.entry(number).or_default();
        if holders.contains(&peer) {
            return 0;
        }
        holders.push(peer);
        size
    }

    /// How long copies take of what a task is given and returns.
    pub fn copies_ns(&self, number: u32) -> u64 {
        let task = self.graph.task(number);
        let given = task.parents.iter().map(|&one| self.graph.task(one).result_size);
        let size = given.fold(task.result_size, u64::saturating_add);
        transfer_ns(size, self.costs.memory_rate)
    }

    fn tell_node(&mut self, peer: PeerId, message: Message, size: u64) {
        self.note(Deed::ToNode { peer: peer.0, message, size });
    }
}

/// The number of a task, by its arguments.
fn number_of(payload: &Payload) -> u32 {
    let PayloadRef::Bytes(bytes) = payload.get() else { unreachable!("arguments are bytes") };
    u32::from_le_bytes(bytes.try_into().expect("a number has four"))
}

impl Port for World {
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent {
        let number = number_of(frame.payload);
        let spin_ns = self.costs.spin_ns;
        let worker = &mut self.workers[usize::from(slot.0)];
        let asleep = worker.is_asleep(self.now, spin_ns);
        let median_ns = if asleep { self.costs.wake_ns } else { self.costs.see_ns };
        let seen_at = self.now + self.latencies.draw(median_ns);
        let (sequence, is_told) = worker.push((number, frame.id, frame.attempt), seen_at);
        if is_told {
            self.deeds.push((seen_at, Deed::Rouse { slot: slot.0 }));
        }
        Sent::Written(sequence)
    }

    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBack>) {
        let worker = &mut self.workers[usize::from(slot.0)];
        taken.extend(sequences.iter().map(|&one| worker.take_back(one)));
    }

    fn progress(&self, slot: SlotId) -> Progress {
        self.workers[usize::from(slot.0)].progress
    }

    // No task has a limit, none is cancelled while it runs, and workers stay.
    fn interrupt(&mut self, _: SlotId, _: u64) {}
    fn kill(&mut self, _: SlotId, _: KillReason) {}
    fn retire(&mut self, _: SlotId) {}

    fn spawn(&mut self, slot: SlotId, _: ContextId, _: Outfit) {
        self.spawned.push(slot);
    }

    fn send_to_peer(&mut self, peer: PeerId, errand: Errand<'_>) -> Sent {
        self.now += self.costs.errand_ns;
        let number = number_of(errand.task.payload);
        let placement = Placement { number, task: errand.task.id, attempt: errand.task.attempt };
        let graph = Arc::clone(&self.graph);
        let named = graph.task(number).parents.iter().zip(errand.parents);
        let parents: Box<[ParentPart]> = named
            .map(|(&number, (_, _, value))| ParentPart { number, is_there: value.is_none() })
            .collect();
        let mut size = 0;
        for parent in parents.iter().filter(|one| !one.is_there) {
            size += self.value_size(parent.number, peer.0);
        }
        let confirmed = std::mem::take(&mut self.confirmed[usize::from(peer.0)]);
        self.tell_node(peer, Message::Errand { placement, parents, confirmed }, size);
        Sent::Written(0)
    }

    fn holders(&self, payload: &Payload, near: PeerId) -> Holders {
        let Some(block) = payload.block() else { return Holders::default() };
        let number = u32::try_from(block.offset).unwrap_or(u32::MAX);
        let all = self.holders.get(&number).map_or(&[][..], Vec::as_slice);
        let has_near = all.contains(&near.0).then_some(near);
        let others = all.iter().map(|&one| PeerId(one)).filter(|&one| one != near);
        let peers = has_near.into_iter().chain(others.take(HOLDERS_MAX));
        Holders { peers: peers.collect(), fetch_ns: transfer_ns(block.size, self.costs.link_rate) }
    }

    fn recall_from_peer(&mut self, peer: PeerId, count: u32) {
        self.tell_node(peer, Message::Recall(count), 0);
    }

    fn finished(&mut self, task: TaskId, handle: u64, status: Status) {
        let number = u32::try_from(handle).unwrap_or(u32::MAX);
        self.finished.push((task, number, status));
    }

    fn is_asleep(&self, slot: SlotId) -> bool {
        self.workers[usize::from(slot.0)].is_asleep(self.now, self.costs.spin_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Task;

    #[test]
    fn a_node_has_a_result_once_whoever_asks_for_it() {
        let made =
            Task { run_ns: 0, arrival_ns: 0, result_size: BLOB_MIN, function: 0, parents: vec![] };
        let graph = Graph::new(vec![made]).expect("it is one");
        let mut world = World::new(Arc::new(graph), Costs::nothing(), 0, 1);
        world.note_maker(0, 3);
        assert_eq!(world.value_size(0, 5), BLOB_MIN);
        assert_eq!(world.value_size(0, 5), 0, "it is there");
        let peers = |near| world.holders(&world.result(0), PeerId(near)).peers;
        assert_eq!(peers(5).to_vec(), [PeerId(5), PeerId(3)]);
        assert_eq!(peers(7).to_vec(), [PeerId(3), PeerId(5)]);
    }
}
