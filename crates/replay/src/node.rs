//! A node: runs tasks of the client and sends their ends to the client, or gives the tasks back.

use std::collections::HashMap;

use gristmill_core::{FunctionId, Origin, Status, Submission, TaskId};

use crate::engine::Engine;
use crate::engine_model::EngineModel;
use crate::messages::{EngineEffect, HomeEnd, Message, ParentPart, TaskPlacement};

/// A task of the client that is at this node, or whose answer the client has not confirmed yet.
#[derive(Debug, Clone, Copy)]
struct ReplayInboundTask {
    placement: TaskPlacement,
    /// Id of the task in the node's engine; `None` if the engine has not accepted it.
    ours: Option<TaskId>,
    ran_ns: u64,
}

/// The inbound tasks of a node, by their indices in the graph.
#[derive(Debug, Default)]
pub(crate) struct ReplayInboundTasks(HashMap<u32, ReplayInboundTask>);

impl ReplayInboundTasks {
    /// Accepts a task, and forgets the tasks whose answers the client has confirmed.
    pub fn take(
        &mut self,
        node: &mut Engine,
        peer: u16,
        dispatch: (TaskPlacement, &[ParentPart], &[u32]),
    ) {
        let (placement, parents, confirmed) = dispatch;
        node.model.now += node.model.costs.inbound_ns;
        for number in confirmed {
            let ours = self.0.remove(number).and_then(|inbound_task| inbound_task.ours);
            ours.into_iter().for_each(|ours| node.core.release(ours));
        }
        let ours = self.accept(node, placement.number, parents);
        self.0.insert(placement.number, ReplayInboundTask { placement, ours, ran_ns: 0 });
        if ours.is_none() {
            answer(node, peer, placement, HomeEnd::Unstarted);
        }
    }

    /// Submits a task to the engine, with the values of its parents, or to run after those parents that are at this node.
    /// Returns `None` if a parent that should be at this node is not.
    fn accept(&self, node: &mut Engine, number: u32, parents: &[ParentPart]) -> Option<TaskId> {
        let Engine { core, model, .. } = node;
        let mut named = Vec::with_capacity(parents.len());
        let mut values = Vec::new();
        for parent in parents {
            if parent.is_there {
                named.extend(self.0.get(&parent.number).and_then(|inbound_task| inbound_task.ours));
            } else {
                let value = core.insert_value(model.result(parent.number));
                values.push(value);
                named.push(value);
            }
        }
        let submission = Submission {
            function: FunctionId(model.graph.task(number).function),
            payload: EngineModel::arguments(number),
            handle: u64::from(number),
            submitted_ticks: model.now,
            parents: &named,
            options: None,
            origin: Origin::External,
        };
        let is_whole = named.len() == parents.len();
        let submitted = is_whole.then(|| core.submit(submission, model.now, model).ok());
        values.into_iter().for_each(|value| core.release(value));
        submitted.flatten()
    }

    /// Records the run time of a task.
    pub fn note_run(&mut self, number: u32, ran_ns: u64) {
        if let Some(inbound_task) = self.0.get_mut(&number) {
            inbound_task.ran_ns = ran_ns;
        }
    }

    /// Sends the client the ends of the tasks that became final.
    pub fn tell_ends(&mut self, node: &mut Engine, peer: u16) {
        for (_, number, status) in std::mem::take(&mut node.model.finished) {
            let Some(inbound_task) = self.0.get(&number) else { continue };
            let end = match status {
                Status::Succeeded => HomeEnd::Returned(inbound_task.ran_ns),
                _ => HomeEnd::Unstarted,
            };
            answer(node, peer, inbound_task.placement, end);
        }
    }
}

/// Gives back up to `count` tasks that have not started.
pub(crate) fn give_back(node: &mut Engine, count: u32) {
    let Engine { core, model, .. } = node;
    model.now += model.costs.inbound_ns;
    core.withdraw(count, model.now, model);
}

/// Tells the client that the node has given back all tasks that it can.
pub(crate) fn tell_recalled(node: &mut Engine, peer: u16) {
    node.model.note(EngineEffect::ToClient { message: Message::Recalled { peer }, size: 0 });
}

fn answer(node: &mut Engine, peer: u16, placement: TaskPlacement, end: HomeEnd) {
    let returned = matches!(end, HomeEnd::Returned(_));
    let model = &mut node.model;
    model.now += model.costs.inbound_ns;
    let size = if returned { model.graph.task(placement.number).result_size } else { 0 };
    let message = Message::Home { peer, placement, end };
    model.note(EngineEffect::ToClient { message, size });
}
