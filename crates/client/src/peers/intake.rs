//! What an engine with links does with them: takes them in, reads and writes them, parts from those that are lost.

use std::sync::Arc;

use gristmill_core::LossReport;
use gristmill_transport::Channel;
use gristmill_wire::peer::Control;
use gristmill_wire::{BlobName, PeerId, TaskId};

use super::arrivals::Arrivals;
use super::contexts::ContextWork;
use super::guests::GuestWork;
use super::home::{LinkHome, LinkPort, Parts};
use super::links::NewLink;
use super::sending::Sending;
use super::upkeep::Upkeep;
use crate::inner::Inner;

/// How a peer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// It said that nothing more comes.
    Ended,
    /// It was lost, and may come again.
    Lost,
    /// No worker can be started for this lease, nor for another one: the engine that has said so is the lease's.
    Failed,
}

/// What the layers above should know of peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerNews {
    /// The connection broke; the lease goes on if another one comes in time.
    Parted {
        /// Which.
        peer: PeerId,
        /// Why.
        text: String,
    },
    /// It is gone for good.
    Gone {
        /// Which it was.
        peer: PeerId,
        /// What it was called.
        name: Arc<str>,
        /// Why.
        text: String,
        /// How it left.
        how: Departure,
        /// It had workers when it was heard last.
        had_workers: bool,
    },
    /// It wants this side to last for so long from now on.
    Extend {
        /// Which.
        peer: PeerId,
        /// Nanoseconds; `u64::MAX` is until it is given back.
        duration_ns: u64,
    },
}

/// Bytes that gather, in a loop of submits, before they are handed over: about two hundred small tasks.
const PASSING_SIZE: usize = 8 << 10;

/// How long peers may take to close their ends once they were told that nothing more comes, nanoseconds: longer than any
/// network takes, and shorter than the silence after which they end by themselves.
const LEAVE_NS: u64 = 1_000_000_000;

/// What an engine with links does with them.
pub trait LinkWork: LinkHome {
    /// Takes a link in; tasks go there from now on.
    fn attach(&mut self, new: NewLink) -> PeerId {
        let now = self.port_mut().read_clock();
        let labels = new.labels.clone();
        let (peer, epoch, offer) = self.links_mut().insert(new, now);
        self.port_mut().forget_told(peer);
        if offer.workers > 0 {
            self.peer_came(peer, &labels);
            let Parts { core, port, .. } = self.parts();
            core.peer_joined(peer, epoch, offer, now, port);
        }
        if let Some(text) = self.links().last_word.clone() {
            self.end_link(peer, &text);
        }
        self.drain_links();
        self.flush_links(now);
        peer
    }

    /// Goes on with a link over another connection, whose other end has `received` chunks. False: the link is gone.
    fn reattach(&mut self, peer: PeerId, channel: Box<dyn Channel + Send>, received: u64) -> bool {
        let now = self.port_mut().read_clock();
        self.links_mut().disconnect(peer);
        if self.links().is_lease {
            self.expire(peer, now);
        }
        let Some(link) = self.links_mut().get_mut(peer) else { return false };
        let resumed = link.resume(channel, received);
        link.pulse.heard_at = now;
        self.links().watch(peer);
        if let Err(error) = resumed {
            self.link_failed(peer, &error);
            return false;
        }
        self.drain_links();
        self.flush_links(now);
        true
    }

    /// Takes in all that is known to have come; gives how many messages came. The clock was read just now; what is to leave because of it
    /// is handed over by [`Self::flush_links`].
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

    /// Tells peers at once when the first task that a task submitted finds no worker here, and when none waits any more.
    fn tell_surplus(&mut self, now: u64) {
        let has_surplus = self.core().nested_len() > 0;
        if has_surplus == self.links().has_told_surplus {
            return;
        }
        self.links_mut().has_told_surplus = has_surplus;
        let own = self.own_beat();
        for peer in self.links().peers() {
            if let Some(link) = self.links_mut().get_mut(peer) {
                let beat = link.pulse.beat(now);
                beat.with(own).write(&mut link.out);
                self.links_mut().has_outgoing = true;
            }
        }
    }

    /// Nothing more will come from a peer, nor go there.
    fn peer_gone(&mut self, peer: PeerId, text: &str, how: Departure) {
        let now = self.port().now();
        let Some(link) = self.links_mut().remove(peer, now) else { return };
        let report = LossReport::of_node(&link.name, text);
        let Parts { core, port, .. } = self.parts();
        core.peer_lost((peer, link.epoch), report, &link.never_sent(), now, port);
        self.peer_left(peer);
        self.drop_guests(link.guest_places(), now);
        link.functions.ours().for_each(|function| self.release_function(function));
        link.contexts.all_ours().into_iter().for_each(|ours| self.release_context(ours, now));
        link.contexts
            .states()
            .for_each(|state| self.port_mut().contexts_mut().note_departed(state));
        self.port_mut().forget_told(peer);
        let (name, text) = (link.name, text.to_owned());
        let had_workers = link.pulse.last.workers > 0;
        // Nobody needs to know who has left where this side has.
        if !link.is_ending {
            self.tell_news(PeerNews::Gone { peer, name, text, how, had_workers });
        }
    }

    /// Takes no more tasks of peers, and gives back what has not started.
    fn drain_guests(&mut self, text: &str) {
        let now = self.port_mut().read_clock();
        let Parts { core, port, guests } = self.parts();
        guests.is_draining = true;
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

    /// Whether nothing of peers is left here, and nothing is on its way.
    fn has_no_guests(&self) -> bool {
        let mut links = self.links().peers().filter_map(|peer| self.links().get(peer));
        let is_drained = self.guests().is_draining && self.core().is_drained();
        let is_said = links.all(|link| link.drains_open == 0 && link.is_confirmed());
        is_drained && is_said && !self.owes_results()
    }

    /// Lasts for so long from now on, nanoseconds: tells a peer, and takes tasks again if it drained.
    fn last(&mut self, peer: PeerId, duration_ns: u64) {
        let Parts { port, guests, .. } = self.parts();
        guests.is_draining = false;
        port.say(peer, &Control::Lasts { duration_ns });
    }

    /// Asks a peer to last for so long from now on, nanoseconds.
    fn extend_peer(&mut self, peer: PeerId, duration_ns: u64) {
        self.port_mut().say(peer, &Control::Extend { duration_ns });
    }

    /// Asks all peers to last for so long from now on, nanoseconds.
    fn extend_peers(&mut self, duration_ns: u64) {
        for peer in self.links().peers() {
            self.extend_peer(peer, duration_ns);
        }
    }

    /// Tells all peers that nothing more will come. They close their ends then: this side's waits for that, since a
    /// connection that is closed while something comes over it drops what is under way.
    fn end_links(&mut self, text: &str) {
        let now = self.port().now();
        self.links_mut().leave_until_ns = now.saturating_add(LEAVE_NS);
        self.links_mut().last_word = Some(text.to_owned());
        for peer in self.links().peers() {
            self.end_link(peer, text);
        }
        self.flush_links(now);
    }

    /// Tells one of them, once.
    fn end_link(&mut self, peer: PeerId, text: &str) {
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        if !std::mem::replace(&mut link.is_ending, true) {
            self.port_mut().say(peer, &Control::End { text: text.to_owned() });
        }
    }

    /// Tells all peers something, which leaves at once.
    fn say_to_all(&mut self, control: &Control) {
        for peer in self.links().peers() {
            self.port_mut().say(peer, control);
        }
        let now = self.port().now();
        self.flush_links(now);
    }

    /// Gives everything up: what has not started goes back to whoever sent it, what may have is lost, and all peers are
    /// told that nothing more will come. Its processes are to be ended then.
    fn give_up(&mut self, reason: &str) {
        let now = self.port().now();
        let Parts { core, port, .. } = self.parts();
        core.withdraw(u32::MAX, now, port);
        core.poison(reason, now, port);
        self.settle();
        self.end_links(reason);
    }

    /// Hands over what is to leave.
    fn flush_links(&mut self, now: u64) {
        self.tell_context_changes();
        // What leaves makes room for tasks, which are to leave as well.
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

    /// When a link is to be looked at, whatever comes.
    fn next_link_wake(&self) -> Option<u64> {
        let links = self.links().peers().filter_map(|peer| self.links().get(peer));
        links.map(|link| link.pulse.next_beat().min(link.pulse.expires_at())).min()
    }

    /// Tells a peer that its task is final here: due for each task whose handle is that of a guest, once it is final.
    fn answer_guest(&mut self, task: TaskId, handle: u64) {
        self.tell_end(task, handle);
    }

    /// Answers a peer's task whose result has got these names; gives the peer, if it is there, and whether it will ask for
    /// the result.
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
    /// What a submit does in passing.
    pub fn links_in_passing(&mut self, now: u64) {
        // Where nothing is away no result can have come, and the look would be a system call.
        if self.core.in_flight() > 0 && self.lanes.links.look() && self.drain_links() > 0 {
            self.attended();
        }
        let mut links = self.lanes.links.peers().filter_map(|peer| self.lanes.links.get(peer));
        if links.any(|link| link.out.len() >= PASSING_SIZE) {
            self.flush_links(now);
        }
    }
}
