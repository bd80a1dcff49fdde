//! Operations of an engine on its links: it attaches links, reads and writes them, and drops those of lost peers.

use std::sync::Arc;

use gristmill_core::LossReport;
use gristmill_transport::Channel;
use gristmill_wire::peer::Control;
use gristmill_wire::{BlobName, PeerId, TaskId};

use super::contexts::ContextWork;
use super::definitions::DefinitionWork;
use super::home::{EngineParts, LinkHome, LinkPort};
use super::inbound::InboundWork;
use super::inbound_messages::InboundMessages;
use super::links::NewLink;
use super::maintenance::LinkMaintenance;
use super::sending::Sending;
use crate::inner::Inner;

/// Way in which a peer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// The peer said that nothing more comes.
    Ended,
    /// The peer was lost, and may come again.
    Lost,
    /// No worker can be started for this lease, nor for another one, as the engine of the lease has said.
    Failed,
}

/// Event of a peer, for the layers above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerEvent {
    /// The connection broke; the lease goes on if another one comes in time.
    Parted {
        /// The peer.
        peer: PeerId,
        /// Reason why the connection broke.
        text: String,
    },
    /// The peer is gone for good.
    Gone {
        /// The peer.
        peer: PeerId,
        /// Name of the peer.
        name: Arc<str>,
        /// Reason why the peer is gone.
        text: String,
        /// Way in which the peer left.
        how: Departure,
        /// True if the peer had workers according to its last heartbeat.
        had_workers: bool,
    },
    /// The peer wants this side to last for a duration from now on.
    Extend {
        /// The peer.
        peer: PeerId,
        /// Duration, nanoseconds; `u64::MAX` is until the lease is given back.
        duration_ns: u64,
    },
}

/// Bytes that a loop of submits gathers before they are handed over: about two hundred small tasks.
const PASSING_SIZE: usize = 8 << 10;

/// Time that peers have to close their ends after they were told that nothing more comes, nanoseconds: longer than any network
/// takes, and shorter than the silence after which peers end by themselves.
const LEAVE_NS: u64 = 1_000_000_000;

/// Operations of an engine on its links.
pub trait LinkWork: LinkHome {
    /// Attaches a link; tasks go there from now on.
    fn attach(&mut self, new: NewLink) -> PeerId {
        let now = self.port_mut().read_clock();
        let labels = new.labels.clone();
        let (peer, epoch, offer) = self.links_mut().insert(new, now);
        self.port_mut().forget_known_functions(peer);
        if offer.workers > 0 {
            self.peer_came(peer, &labels);
            let EngineParts { core, port, .. } = self.parts();
            core.peer_joined(peer, epoch, offer, now, port);
        }
        if let Some(text) = self.links().last_word.clone() {
            self.end_link(peer, &text);
        }
        self.drain_links();
        self.flush_links(now);
        peer
    }

    /// Resumes a link over another connection, whose other end has `received` chunks; returns false if the link is gone.
    fn reattach(&mut self, peer: PeerId, channel: Box<dyn Channel + Send>, received: u64) -> bool {
        let now = self.port_mut().read_clock();
        self.links_mut().disconnect(peer);
        if self.links().is_lease {
            self.expire(peer, now);
        }
        let Some(link) = self.links_mut().get_mut(peer) else { return false };
        let resumed = link.resume(channel, received);
        link.heartbeat.heard_at = now;
        self.links().watch(peer);
        if let Err(error) = resumed {
            self.link_failed(peer, &error);
            return false;
        }
        self.drain_links();
        self.flush_links(now);
        true
    }

    /// Takes in everything that is known to have come; returns the number of messages. The caller has just read the clock, and
    /// afterwards calls [`Self::flush_links`] to hand over the messages that this side sends in reply.
    fn drain_links(&mut self) -> usize {
        let now = self.port().now();
        let mut chunk = std::mem::take(&mut self.links_mut().chunk);
        let mut count = 0;
        for peer in self.links().peers() {
            count += self.drain_link(peer, &mut chunk, now);
        }
        self.links_mut().chunk = chunk;
        self.keep_alive(now);
        if !self.links().is_lease {
            self.ask_for_work();
        }
        count
    }

    /// Tells peers at once when the first nested task finds no worker here, and when no nested task waits any more.
    fn tell_surplus(&mut self, now: u64) {
        let has_surplus = self.core().nested_len() > 0;
        if has_surplus == self.links().has_reported_surplus {
            return;
        }
        self.links_mut().has_reported_surplus = has_surplus;
        let own = self.own_beat();
        for peer in self.links().peers() {
            if let Some(link) = self.links_mut().get_mut(peer) {
                let beat = link.heartbeat.beat(now);
                beat.with(own).write(&mut link.out);
                self.links_mut().has_outgoing = true;
            }
        }
    }

    /// Removes a peer: nothing more will come from it, nor go there.
    fn peer_gone(&mut self, peer: PeerId, text: &str, how: Departure) {
        let now = self.port().now();
        let Some(link) = self.links_mut().remove(peer, now) else { return };
        let report = LossReport::of_node(&link.names.theirs, text);
        let EngineParts { core, port, .. } = self.parts();
        core.peer_lost((peer, link.epoch), report, &link.never_sent(), now, port);
        self.peer_left(peer);
        self.drop_inbound(link.inbound_indices(), now);
        link.functions.ours().for_each(|function| self.release_function(function));
        link.contexts.all_ours().into_iter().for_each(|ours| self.release_context(ours, now));
        link.contexts
            .states()
            .for_each(|state| self.port_mut().contexts_mut().note_departed(state));
        self.port_mut().forget_known_functions(peer);
        let (name, text) = (link.names.theirs, text.to_owned());
        let had_workers = link.heartbeat.last.workers > 0;
        // If this side has ended the link, the layers above need not know of the departure.
        if !link.is_ending {
            self.record_event(PeerEvent::Gone { peer, name, text, how, had_workers });
        }
    }

    /// Accepts no more tasks of peers, and gives back those that have not started.
    fn drain_inbound(&mut self, text: &str) {
        let now = self.port_mut().read_clock();
        let EngineParts { core, port, inbound } = self.parts();
        inbound.is_draining = true;
        for peer in port.links().peers() {
            port.say(peer, &Control::Drain { text: text.to_owned() });
            if let Some(link) = port.links_mut().get_mut(peer) {
                link.drains_open += 1;
            }
        }
        core.withdraw(u32::MAX, now, port);
        self.settle();
        self.flush_links(now);
    }

    /// Returns true if no inbound task is left here, and nothing is on its way to a peer.
    fn has_no_inbound(&self) -> bool {
        let mut links = self.links().peers().filter_map(|peer| self.links().get(peer));
        let is_drained = self.inbound().is_draining && self.core().is_drained();
        let is_said = links.all(|link| link.drains_open == 0 && link.is_confirmed());
        is_drained && is_said && !self.owes_results()
    }

    /// Tells a peer that this engine lasts for `duration_ns` from now on; accepts tasks again if the engine was draining.
    fn last(&mut self, peer: PeerId, duration_ns: u64) {
        let EngineParts { port, inbound, .. } = self.parts();
        inbound.is_draining = false;
        port.say(peer, &Control::Lasts { duration_ns });
    }

    /// Asks a peer to last for `duration_ns` from now on.
    fn extend_peer(&mut self, peer: PeerId, duration_ns: u64) {
        self.port_mut().say(peer, &Control::Extend { duration_ns });
    }

    /// Asks all peers to last for `duration_ns` from now on.
    fn extend_peers(&mut self, duration_ns: u64) {
        for peer in self.links().peers() {
            self.extend_peer(peer, duration_ns);
        }
    }

    /// Tells all peers that nothing more will come. They close their ends then, and this side waits for that: a connection that
    /// is closed while something comes over it drops the bytes under way.
    fn end_links(&mut self, text: &str) {
        let now = self.port().now();
        self.links_mut().leave_until_ns = now.saturating_add(LEAVE_NS);
        self.links_mut().last_word = Some(text.to_owned());
        for peer in self.links().peers() {
            self.end_link(peer, text);
        }
        self.flush_links(now);
    }

    /// Tells one peer, once, that nothing more will come.
    fn end_link(&mut self, peer: PeerId, text: &str) {
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        if !std::mem::replace(&mut link.is_ending, true) {
            self.port_mut().say(peer, &Control::End { text: text.to_owned() });
        }
    }

    /// Sends a message to all peers at once.
    fn say_to_all(&mut self, control: &Control) {
        for peer in self.links().peers() {
            self.port_mut().say(peer, control);
        }
        let now = self.port().now();
        self.flush_links(now);
    }

    /// Gives everything up: tasks that have not started go back to their senders, tasks that may have started are lost, and all
    /// peers are told that nothing more will come. The caller then ends the engine's processes.
    fn give_up(&mut self, reason: &str) {
        let now = self.port().now();
        let EngineParts { core, port, .. } = self.parts();
        core.withdraw(u32::MAX, now, port);
        core.poison(reason, now, port);
        self.settle();
        self.end_links(reason);
    }

    /// Hands over all outgoing messages.
    fn flush_links(&mut self, now: u64) {
        self.tell_context_changes();
        // Messages that leave make room for tasks, which must leave as well.
        for _ in 0..2 {
            self.links_mut().has_outgoing = false;
            self.links_mut().waits_for_room = false;
            for peer in self.links().peers() {
                self.flush_link(peer, now);
            }
            if !self.links().has_outgoing {
                break;
            }
        }
    }

    /// Returns the time when some link must be checked even if nothing comes.
    fn next_link_wake(&self) -> Option<u64> {
        let links = self.links().peers().filter_map(|peer| self.links().get(peer));
        links.map(|link| link.heartbeat.next_beat().min(link.heartbeat.expires_at())).min()
    }

    /// Answers a peer's task that is final here. The caller does so once for each final task whose handle is an inbound task's.
    fn answer_inbound(&mut self, task: TaskId, handle: u64) {
        self.tell_end(task, handle);
    }

    /// Answers a peer's task whose result has got these names. Returns the peer, if it is still there, and whether the result
    /// may stay here until the peer requests it.
    fn answer_named(
        &mut self,
        task: TaskId,
        place: u32,
        names: &[Option<BlobName>],
    ) -> Option<(PeerId, bool)> {
        self.tell_named_end(task, place, names)
    }
}

impl<H: LinkHome> LinkWork for H {}

impl Inner {
    /// Reads and writes links during a submit, if there is enough to do.
    pub fn links_in_passing(&mut self, now: u64) {
        // If no task is in flight, no result can have come, and the check would be a system call.
        if self.core.in_flight() > 0 && self.port.links.look() && self.drain_links() > 0 {
            self.attended();
        }
        let mut links = self.port.links.peers().filter_map(|peer| self.port.links.get(peer));
        if links.any(|link| link.out.len() >= PASSING_SIZE) {
            self.flush_links(now);
        }
    }
}
