//! The model of an engine's host, which is the scheduler's port: the rings of its workers, the nodes that have blobs, the
//! confirmations for nodes, and the effects that the simulation carries out.

use std::collections::HashMap;
use std::sync::Arc;

use gristmill_core::{
    Block, ContextId, Dispatch, Holders, KillReason, Payload, PayloadRef, PeerId, Port,
    RemoteDispatch, RingProgress, Sent, SlotId, Status, TakeBackResult, TaskId, WorkerGrant,
};

use crate::costs::{Costs, transfer_ns};
use crate::graph::Graph;
use crate::messages::{EngineEffect, Message, ParentPart, TaskPlacement};
use crate::random::Latencies;
use crate::workers::Worker;

/// Smallest result that is a blob, bytes. A blob is sent to a node once, and its location affects scheduling, as in `core`.
const BLOB_MIN: u64 = 1 << 20;
/// Maximum number of a blob's holders that the scheduler is told besides the near peer. It is always told if the near peer
/// has the blob.
const HOLDERS_MAX: usize = 64;

/// The host of one engine: everything outside its scheduler.
#[derive(Debug)]
pub(crate) struct EngineModel {
    /// Virtual time within the current step, including the cost of the work so far.
    pub now: u64,
    pub graph: Arc<Graph>,
    pub costs: Costs,
    pub workers: Vec<Worker>,
    pub latencies: Latencies,
    /// Effects of the engine that are not scheduled yet, with their times.
    pub effects: Vec<(u64, EngineEffect)>,
    /// Tasks that became final, by their ids and their indices.
    pub finished: Vec<(TaskId, u32, Status)>,
    /// Slots for which the engine asked for workers.
    pub spawned: Vec<SlotId>,
    /// Nodes that have a blob, by the index of its task. Used by the client only.
    holders: HashMap<u32, Vec<u16>>,
    /// Tasks whose answers the client has, by node. Used by the client only.
    pub confirmed: Vec<Vec<u32>>,
}

impl EngineModel {
    pub fn new(graph: Arc<Graph>, costs: Costs, workers: u16, seed: u64) -> Self {
        Self {
            now: 0,
            graph,
            costs,
            workers: (0..workers).map(|_| Worker::default()).collect(),
            latencies: Latencies::new(seed, costs.scatter),
            effects: Vec::new(),
            finished: Vec::new(),
            spawned: Vec::new(),
            holders: HashMap::new(),
            confirmed: Vec::new(),
        }
    }

    /// Records an effect at the current time.
    pub fn note(&mut self, effect: EngineEffect) {
        self.effects.push((self.now, effect));
    }

    /// Returns the arguments of a task, which are its index in this model.
    pub fn arguments(number: u32) -> Payload {
        Payload::copy_from(&number.to_le_bytes())
    }

    /// Returns the result of a task: a block in the arena, if it is large.
    pub fn result(&self, number: u32) -> Payload {
        let size = self.graph.task(number).result_size;
        if size < BLOB_MIN {
            return Self::arguments(number);
        }
        Payload::in_arena(Block { offset: u64::from(number), size })
    }

    /// Records that a node has made a result.
    pub fn note_maker(&mut self, number: u32, peer: u16) {
        if self.graph.task(number).result_size >= BLOB_MIN {
            self.holders.entry(number).or_default().push(peer);
        }
    }

    /// Returns how many bytes of a result a message must carry to a node: 0 for a blob that the node has. Records that the
    /// node has the blob from now on, so a second call returns 0.
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

    /// Returns the time of the copies of a task's arguments and result.
    pub fn copies_ns(&self, number: u32) -> u64 {
        let task = self.graph.task(number);
        let given = task.parents.iter().map(|&one| self.graph.task(one).result_size);
        let size = given.fold(task.result_size, u64::saturating_add);
        transfer_ns(size, self.costs.memory_rate)
    }

    fn tell_node(&mut self, peer: PeerId, message: Message, size: u64) {
        self.note(EngineEffect::ToNode { peer: peer.0, message, size });
    }
}

/// Returns the index of a task from its arguments.
fn number_of(payload: &Payload) -> u32 {
    let PayloadRef::Bytes(bytes) = payload.get() else { unreachable!("arguments are bytes") };
    u32::from_le_bytes(bytes.try_into().expect("a number has four"))
}

impl Port for EngineModel {
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent {
        let number = number_of(frame.payload);
        let spin_ns = self.costs.spin_ns;
        let worker = &mut self.workers[usize::from(slot.0)];
        let asleep = worker.is_asleep(self.now, spin_ns);
        let median_ns = if asleep { self.costs.wake_ns } else { self.costs.see_ns };
        let seen_at = self.now + self.latencies.draw(median_ns);
        // `is_told`: the worker is idle and no poll of its ring is scheduled.
        let (sequence, is_told) = worker.push((number, frame.id, frame.attempt), seen_at);
        if is_told {
            self.effects.push((seen_at, EngineEffect::Rouse { slot: slot.0 }));
        }
        Sent::Written(sequence)
    }

    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBackResult>) {
        let worker = &mut self.workers[usize::from(slot.0)];
        taken.extend(sequences.iter().map(|&one| worker.take_back(one)));
    }

    fn progress(&self, slot: SlotId) -> RingProgress {
        self.workers[usize::from(slot.0)].progress
    }

    // No task has a time limit, no task is cancelled while it runs, and no worker ends.
    fn interrupt(&mut self, _: SlotId, _: u64) {}
    fn kill(&mut self, _: SlotId, _: KillReason) {}
    fn retire(&mut self, _: SlotId) {}

    fn spawn(&mut self, slot: SlotId, _: ContextId, _: WorkerGrant) {
        self.spawned.push(slot);
    }

    fn send_to_peer(&mut self, peer: PeerId, dispatch: RemoteDispatch<'_>) -> Sent {
        self.now += self.costs.dispatch_ns;
        let number = number_of(dispatch.task.payload);
        let placement =
            TaskPlacement { number, task: dispatch.task.id, attempt: dispatch.task.attempt };
        let graph = Arc::clone(&self.graph);
        let named = graph.task(number).parents.iter().zip(dispatch.parents);
        let parents: Box<[ParentPart]> = named
            .map(|(&number, (_, _, value))| ParentPart { number, is_there: value.is_none() })
            .collect();
        let mut size = 0;
        for parent in parents.iter().filter(|one| !one.is_there) {
            size += self.value_size(parent.number, peer.0);
        }
        let confirmed = std::mem::take(&mut self.confirmed[usize::from(peer.0)]);
        self.tell_node(peer, Message::Dispatch { placement, parents, confirmed }, size);
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
    use crate::graph::RecordedTask;

    #[test]
    fn a_node_has_a_result_once_for_all_requests() {
        let made = RecordedTask {
            run_ns: 0,
            arrival_ns: 0,
            result_size: BLOB_MIN,
            function: 0,
            parents: vec![],
        };
        let graph = Graph::new(vec![made]).expect("it is one");
        let mut model = EngineModel::new(Arc::new(graph), Costs::nothing(), 0, 1);
        model.note_maker(0, 3);
        assert_eq!(model.value_size(0, 5), BLOB_MIN);
        assert_eq!(model.value_size(0, 5), 0, "it is there");
        let peers = |near| model.holders(&model.result(0), PeerId(near)).peers;
        assert_eq!(peers(5).to_vec(), [PeerId(5), PeerId(3)]);
        assert_eq!(peers(7).to_vec(), [PeerId(3), PeerId(5)]);
    }
}
