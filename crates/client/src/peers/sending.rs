//! Tasks on their way to peers.

use gristmill_core::{Floor, Payload, PayloadRef, RemoteDispatch, Sent};
use gristmill_wire::peer::{Control, Definition, ParentResult, Parted, TaskLimits, TaskMessage};
use gristmill_wire::{BlobName, ContextId, FunctionId, PeerId, SlotId};

use super::contexts::ContextTelling;
use super::home::{LinkPort, PayloadStore};
use super::size_errors::{SizeExcess, large_arguments, large_function, no_memory};
use crate::bundle::{Bundle, Bundles};

/// Bytes that a message has at most besides payloads, definitions and names.
pub(super) const ENVELOPE_SIZE: usize = 256;
/// Bytes of a parent that is named in a task's message.
const PARENT_SIZE: usize = 16;

/// Returns the slot under which the function table records what a peer knows: these slots follow those of workers.
const fn pseudo_slot(peer: PeerId) -> SlotId {
    SlotId(PEERS_START | peer.0)
}

/// Returns the peer of a slot that follows those of workers, or `None` for a worker's slot.
pub const fn peer_of_pseudo_slot(place: SlotId) -> Option<PeerId> {
    if place.0 < PEERS_START { None } else { Some(PeerId(place.0 & !PEERS_START)) }
}

/// First slot of peers. Each half of all slots suffices, because an engine has fewer workers, and fewer peers.
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

    fn put_size(&self, payload: &Payload) -> usize {
        match payload.get() {
            PayloadRef::Bytes(bytes) => Parted::written_size(bytes.len(), std::iter::empty()),
            PayloadRef::Block(block) => {
                let bundle = self.get(block);
                bundle_size(bundle, |place| bundle.name(place))
            }
        }
    }

    fn result_size(&self, payload: &Payload, names: &[Option<BlobName>]) -> usize {
        let PayloadRef::Block(block) = payload.get() else { return self.put_size(payload) };
        bundle_size(self.get(block), |place| names.get(place).copied().flatten())
    }

    fn named_size(&self, payload: &Payload) -> u64 {
        let PayloadRef::Block(block) = payload.get() else { return 0 };
        let names = self.get(block).named_parts().filter_map(|(_, name)| name);
        names.map(|name| name.size).fold(0, u64::saturating_add)
    }
}

fn put_bundle(bundle: &Bundle, name: impl Fn(usize) -> Option<BlobName>, out: &mut Vec<u8>) {
    Parted::put_head(out, &bundle.bytes(), bundle.parts().len());
    for (place, part) in bundle.parts().iter().enumerate() {
        match name(place) {
            Some(name) => Parted::put_name(out, &name),
            None => Parted::put_part(out, part.size(), |space| part.copy_to(space)),
        }
    }
}

/// Returns the number of bytes that [`put_bundle`] appends at most.
fn bundle_size(bundle: &Bundle, name: impl Fn(usize) -> Option<BlobName>) -> usize {
    let parts = bundle.parts().iter().enumerate();
    let sizes = parts.map(|(place, part)| name(place).is_none().then(|| part.size()));
    Parted::written_size(bundle.body_size(), sizes)
}

/// Returns the number of a task's parents, and the largest size that its message can have, bytes.
#[inline]
fn counts<S: PayloadStore>(store: &S, dispatch: &RemoteDispatch<'_>) -> (u32, usize) {
    let own = (0_u32, ENVELOPE_SIZE.saturating_add(store.put_size(dispatch.task.payload)));
    dispatch.parents.clone().fold(own, |(count, size), (_, _, result)| {
        let more = result.map_or(PARENT_SIZE, |result| store.put_size(result));
        (count.saturating_add(1), size.saturating_add(more))
    })
}

fn limits(dispatch: &RemoteDispatch<'_>, context: ContextId, now: u64) -> Option<TaskLimits> {
    let extension = dispatch.task.extension;
    let is_timeless = dispatch.deadline_ns.is_none() && dispatch.timeout_ns.is_none();
    if is_timeless && extension.is_none() && dispatch.demand.is_none() {
        return None;
    }
    Some(TaskLimits {
        deadline_left_ns: dispatch.deadline_ns.map_or(u64::MAX, |at| at.saturating_sub(now)),
        timeout_ns: dispatch.timeout_ns.unwrap_or(u64::MAX),
        grace_ns: dispatch.grace_ns,
        priority: extension.map_or(0, |extension| extension.priority),
        context,
        demand: dispatch.demand,
    })
}

/// Methods of a task graph's port that send to peers.
pub trait Sending: LinkPort {
    /// Writes a task for a peer.
    fn delegate(&mut self, peer: PeerId, dispatch: &RemoteDispatch<'_>) -> Sent {
        let now = self.now();
        let Some(link) = self.links_mut().get_mut(peer) else { return Sent::Full };
        if link.is_congested() {
            link.is_held = true;
            return Sent::Full;
        }
        let sent_max = link.sent_max();
        let (_, functions, store) = self.writing();
        let (parent_count, size) = counts(store, dispatch);
        if size > sent_max {
            let sizes = SizeExcess::of_sent(size, sent_max).to_string();
            return Sent::Failed(self.large_task(peer, dispatch.task.function, &sizes));
        }
        if !functions.is_known(dispatch.task.function, pseudo_slot(peer))
            && let Err(reason) = self.define_function(peer, dispatch.task.function)
        {
            return Sent::Failed(no_memory(&reason).into());
        }
        self.tell_new_contexts(peer);
        if let Some(from) = dispatch.from {
            self.tell_contexts_of(peer, from);
        }
        let named = dispatch.task.extension.map_or(ContextId(0), |extension| extension.context);
        let context = match self.name_context(peer, named) {
            Ok(context) => context,
            Err(reason) => return Sent::Failed(no_memory(&reason).into()),
        };
        let (links, _, store) = self.writing();
        let Some(link) = links.get_mut(peer) else { return Sent::Full };
        let start = link.out.len();
        let task = &dispatch.task;
        let name = (task.id, task.function, task.attempt);
        TaskMessage::write(
            &mut link.out,
            name,
            limits(dispatch, context, now).as_ref(),
            (parent_count, dispatch.may_stay),
            |out| {
                for (parent, attempt, result) in dispatch.parents.clone() {
                    match result {
                        Some(result) => store.put(result, out),
                        None => ParentResult::put_task(out, parent, attempt),
                    }
                }
                store.put(task.payload, out);
            },
        );
        debug_assert!(
            link.out.len() - start <= size,
            "no message is larger than it was said to be"
        );
        let results = dispatch.parents.clone().filter_map(|(_, _, result)| result);
        let named = results.chain([task.payload]).map(|payload| store.named_size(payload));
        link.traffic.named = named.fold(link.traffic.named, u64::saturating_add);
        links.has_outgoing = true;
        Sent::Written(0)
    }

    /// Sends a peer the definition of a function, after what it needs.
    ///
    /// # Errors
    /// A sentence if one of the definitions is too large for the peer, which is then told of none.
    #[cold]
    fn define_function(&mut self, peer: PeerId, function: FunctionId) -> Result<(), String> {
        let receiver = self.name_of(peer);
        let (links, functions, _) = self.writing();
        let Some(link) = links.get_mut(peer) else { return Ok(()) };
        let mut unknown = functions.unknown_needs(function, pseudo_slot(peer));
        unknown.push(function);
        for &function in &unknown {
            let name = functions.name(function);
            let size = ENVELOPE_SIZE + functions.definition(function).len() + name.len();
            link.check(size).map_err(|excess| large_function(&receiver, &excess.to_string()))?;
        }
        for function in unknown {
            let definition = functions.definition(function);
            let name = functions.name(function).as_bytes();
            Definition { function, definition: &definition, name }.write(&mut link.out);
            functions.record_known(function, pseudo_slot(peer));
        }
        Ok(())
    }

    /// Returns the exception of a task whose arguments are too large for a peer, as `sizes` says.
    #[cold]
    fn large_task(&mut self, peer: PeerId, function: FunctionId, sizes: &str) -> Payload {
        let receiver = self.name_of(peer);
        let (_, functions, _) = self.writing();
        let task = format!("the task ({})", functions.name(function));
        large_arguments(&task, &receiver, sizes).into()
    }

    /// Returns the name of a peer, in words.
    fn name_of(&self, peer: PeerId) -> String {
        let links = self.links();
        match links.get(peer) {
            Some(link) if !links.is_lease => format!("node {}", link.names.theirs),
            _ => "the program".to_owned(),
        }
    }

    /// Appends a short control message.
    fn say(&mut self, peer: PeerId, message: &Control) {
        let links = self.links_mut();
        if let Some(link) = links.get_mut(peer) {
            link.say(|out| message.write(out));
            links.has_outgoing = true;
        }
    }

    /// Tells a peer the priority floor of a context, or of tasks without one.
    fn say_floor(&mut self, peer: PeerId, context: ContextId, (floor, mark): (Floor, u32)) {
        let Floor { priority, wide, places } = floor;
        let context = match floor {
            // A peer that has forgotten the context has forgotten its floor.
            Floor::NONE => match self.known_name(peer, context) {
                Some(context) => context,
                None => return,
            },
            _ => match self.name_context(peer, context) {
                Ok(context) => context,
                // No task of the context goes there.
                Err(_) => return,
            },
        };
        self.say(peer, &Control::Floor { context, priority, wide, places, mark });
    }

    /// Tells a peer how many workers have nothing to do because of its floor.
    fn say_vacant(&mut self, peer: PeerId, context: ContextId, (count, mark): (u32, u32)) {
        if let Some(context) = self.known_name(peer, context) {
            self.say(peer, &Control::Vacant { context, count, mark });
        }
    }

    /// Forgets which functions a peer knows, because its number is another peer's from now on.
    fn forget_known_functions(&mut self, peer: PeerId) {
        self.writing().1.forget_slot(pseudo_slot(peer));
    }

    /// Returns the function here that a peer's function id stands for.
    fn peer_function(&self, peer: PeerId, function: FunctionId) -> Option<FunctionId> {
        self.links().get(peer)?.functions.get(function)
    }
}

impl<P: LinkPort> Sending for P {}
