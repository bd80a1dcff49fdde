//! Tasks on their way to peers.

use gristmill_core::{Errand, Payload, PayloadRef, Sent};
use gristmill_wire::peer::{Control, Definition, ParentResult, Parted, TaskLimits, TaskMessage};
use gristmill_wire::{BlobName, ContextId, FunctionId, PeerId, SlotId};

use super::contexts::ContextTelling;
use super::home::{LinkPort, PayloadStore};
use crate::bundle::{Bundle, Bundles};

/// Where the function table notes which peer knows what: behind the slots of workers.
const fn told_place(peer: PeerId) -> SlotId {
    SlotId(PEERS_START | peer.0)
}

/// Half of all places: an engine has fewer workers, and fewer peers.
const PEERS_START: u16 = 1 << 15;

impl PayloadStore for Bundles {
    fn put(&self, payload: &Payload, out: &mut Vec<u8>) {
        match payload.get() {
            PayloadRef::Bytes(bytes) => Parted::put_plain(out, bytes),
            PayloadRef::Block(block) => {
                let bundle = self.get(block);
                put_bundle(bundle, |place| bundle.name(place), out);
            }
        }
    }

    fn put_result(&self, payload: &Payload, names: &[Option<BlobName>], out: &mut Vec<u8>) {
        let PayloadRef::Block(block) = payload.get() else { return self.put(payload, out) };
        put_bundle(self.get(block), |place| names.get(place).copied().flatten(), out);
    }

    fn named_size(&self, payload: &Payload) -> u64 {
        let PayloadRef::Block(block) = payload.get() else { return 0 };
        let names = self.get(block).named_parts().filter_map(|(_, name)| name);
        names.map(|name| name.size).fold(0, u64::saturating_add)
    }
}

fn put_bundle(bundle: &Bundle, name: impl Fn(usize) -> Option<BlobName>, out: &mut Vec<u8>) {
    Parted::put_head(out, bundle.bytes(), bundle.parts().len());
    for (place, part) in bundle.parts().iter().enumerate() {
        match name(place) {
            Some(name) => Parted::put_name(out, &name),
            None => Parted::put_part(out, part.size(), |space| part.copy_to(space)),
        }
    }
}

fn limits(errand: &Errand<'_>, context: ContextId, now: u64) -> Option<TaskLimits> {
    let extension = errand.task.extension;
    let is_timeless = errand.deadline_ns.is_none() && errand.timeout_ns.is_none();
    if is_timeless && extension.is_none() && errand.demand.is_none() {
        return None;
    }
    Some(TaskLimits {
        deadline_left_ns: errand.deadline_ns.map_or(u64::MAX, |at| at.saturating_sub(now)),
        timeout_ns: errand.timeout_ns.unwrap_or(u64::MAX),
        grace_ns: errand.grace_ns,
        priority: extension.map_or(0, |extension| extension.priority),
        context,
        demand: errand.demand,
    })
}

/// What a graph with links needs to send.
pub trait Sending: LinkPort {
    /// Writes a task for a peer.
    fn send_away(&mut self, peer: PeerId, errand: &Errand<'_>) -> Sent {
        let now = self.now();
        let Some(link) = self.links_mut().get_mut(peer) else { return Sent::Full };
        if link.is_congested() {
            link.is_held = true;
            return Sent::Full;
        }
        self.tell_new_contexts(peer);
        if let Some(from) = errand.from {
            self.tell_contexts_of(peer, from);
        }
        let named = errand.task.extension.map_or(ContextId(0), |extension| extension.context);
        let context = self.name_context(peer, named);
        let (links, functions, store) = self.writing();
        let Some(link) = links.get_mut(peer) else { return Sent::Full };
        if !functions.is_told(errand.task.function, told_place(peer)) {
            let function = errand.task.function;
            let definition = functions.definition(function);
            let name = functions.name(function).as_bytes();
            Definition { function, definition: &definition, name }.write(&mut link.out);
            functions.told(function, told_place(peer));
        }
        let task = &errand.task;
        let parent_count = errand.parents.clone().count();
        let Ok(parent_count) = u16::try_from(parent_count) else {
            let text = format!("\0{parent_count} results are too many for one task");
            return Sent::Failed(Payload::from(text.into_bytes()));
        };
        let name = (task.id, task.function, task.attempt);
        TaskMessage::write(
            &mut link.out,
            name,
            limits(errand, context, now).as_ref(),
            (parent_count, errand.may_stay),
            |out| {
                for (parent, attempt, result) in errand.parents.clone() {
                    match result {
                        Some(result) => store.put(result, out),
                        None => ParentResult::put_task(out, parent, attempt),
                    }
                }
                store.put(task.payload, out);
            },
        );
        let results = errand.parents.clone().filter_map(|(_, _, result)| result);
        let named = results.chain([task.payload]).map(|payload| store.named_size(payload));
        link.traffic.named = named.fold(link.traffic.named, u64::saturating_add);
        links.has_outgoing = true;
        Sent::Written(0)
    }

    /// Appends a message of few words.
    fn say(&mut self, peer: PeerId, message: &Control) {
        let links = self.links_mut();
        if let Some(link) = links.get_mut(peer) {
            link.say(|out| message.write(out));
            links.has_outgoing = true;
        }
    }

    /// A peer knows no function any more: its place has another one.
    fn forget_told(&mut self, peer: PeerId) {
        self.writing().1.forget_slot(told_place(peer));
    }

    /// A function of a peer's own, by the id that the peer gives it.
    fn peer_function(&self, peer: PeerId, function: FunctionId) -> Option<FunctionId> {
        self.links().get(peer)?.functions.get(function)
    }
}

impl<P: LinkPort> Sending for P {}
