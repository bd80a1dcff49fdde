//! A node: tasks of the client are run there, answered, or given back.

use std::collections::HashMap;

use gristmill_core::{FunctionId, Origin, Status, Submission, TaskId};

use crate::engine::Engine;
use crate::errands::{Deed, HomeEnd, Message, ParentPart, Placement};
use crate::world::World;

/// A task of the client that is here, or whose answer the client has yet to confirm.
#[derive(Debug, Clone, Copy)]
struct Guest {
    placement: Placement,
    ours: Option<TaskId>,
    ran_ns: u64,
}

/// The guests of a node, by their numbers in the graph.
#[derive(Debug, Default)]
pub(crate) struct Guests(HashMap<u32, Guest>);

impl Guests {
    /// Takes a task in, and forgets those whose answers the client has.
    pub fn take(
        &mut self,
        node: &mut Engine,
        peer: u16,
        errand: (Placement, &[ParentPart], &[u32]),
    ) {
        let (placement, parents, confirmed) = errand;
        node.world.now += node.world.costs.guest_ns;
        for number in confirmed {
            let ours = self.0.remove(number).and_then(|guest| guest.ours);
            ours.into_iter().for_each(|ours| node.core.release(ours));
        }
        let ours = self.accept(node, placement.number, parents);
        self.0.insert(placement.number, Guest { placement, ours, ran_ns: 0 });
        if ours.is_none() {
            answer(node, peer, placement, HomeEnd::Unstarted);
        }
    }

    /// Hands a task to the machine, with its parents' values or after them; nothing: it needs what is not here.
    fn accept(&self, node: &mut Engine, number: u32, parents: &[ParentPart]) -> Option<TaskId> {
        let Engine { core, world, .. } = node;
        let mut named = Vec::with_capacity(parents.len());
        let mut values = Vec::new();
        for parent in parents {
            if parent.is_there {
                named.extend(self.0.get(&parent.number).and_then(|guest| guest.ours));
            } else {
                let value = core.insert_value(world.result(parent.number));
                values.push(value);
                named.push(value);
            }
        }
        let submission = Submission {
            function: FunctionId(world.graph.task(number).function),
            payload: World::arguments(number),
            handle: u64::from(number),
            submitted_ticks: world.now,
            parents: &named,
            options: None,
            origin: Origin::External,
        };
        let is_whole = named.len() == parents.len();
        let submitted = is_whole.then(|| core.submit(submission, world.now, world).ok());
        values.into_iter().for_each(|value| core.release(value));
        submitted.flatten()
    }

    /// Notes how long one ran.
    pub fn note_run(&mut self, number: u32, ran_ns: u64) {
        if let Some(guest) = self.0.get_mut(&number) {
            guest.ran_ns = ran_ns;
        }
    }

    /// Answers those that are final.
    pub fn tell_ends(&mut self, node: &mut Engine, peer: u16) {
        for (_, number, status) in std::mem::take(&mut node.world.finished) {
            let Some(guest) = self.0.get(&number) else { continue };
            let end = match status {
                Status::Succeeded => HomeEnd::Returned(guest.ran_ns),
                _ => HomeEnd::Unstarted,
            };
            answer(node, peer, guest.placement, end);
        }
    }
}

/// Gives back up to so many tasks that have not started.
pub(crate) fn give_back(node: &mut Engine, count: u32) {
    let Engine { core, world, .. } = node;
    world.now += world.costs.guest_ns;
    core.withdraw(count, world.now, world);
}

/// Says that this was all.
pub(crate) fn tell_recalled(node: &mut Engine, peer: u16) {
    node.world.note(Deed::ToClient { message: Message::Recalled { peer }, size: 0 });
}

fn answer(node: &mut Engine, peer: u16, placement: Placement, end: HomeEnd) {
    let returned = matches!(end, HomeEnd::Returned(_));
    let world = &mut node.world;
    world.now += world.costs.guest_ns;
    let size = if returned { world.graph.task(placement.number).result_size } else { 0 };
    let message = Message::Home { peer, placement, end };
    world.note(Deed::ToClient { message, size });
}
