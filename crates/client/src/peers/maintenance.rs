//! Maintenance of links: heartbeats, room for more, and the end of links that are silent for too long.

use gristmill_transport::Flushed;
use gristmill_wire::PeerId;
use gristmill_wire::peer::{Control, Heartbeat};

use super::contexts::ContextWork;
use super::home::{EngineParts, LinkHome, LinkPort};
use super::intake::{Departure, LinkWork, PeerEvent};
use super::link::{Link, LinkError};
use super::sending::Sending;

/// Methods that maintain links.
pub(super) trait LinkMaintenance: LinkHome {
    /// Asks peers whose tasks wait for as many tasks as there are idle workers at other peers.
    fn ask_for_work(&mut self) {
        let idle = self.core().idle_capacity();
        for peer in self.links().peers() {
            let idle = idle.saturating_sub(self.core().idle_at(peer));
            let Some(link) = self.links_mut().get_mut(peer) else { continue };
            let count = if link.heartbeat.last.waiting == 0 { 0 } else { idle };
            if count != link.wanted {
                link.wanted = count;
                self.port_mut().say(peer, &Control::Want { count });
            }
        }
    }

    /// Handles a broken link: it waits for another connection, unless what it carried was wrong or one side has nothing more to
    /// say.
    fn link_failed(&mut self, peer: PeerId, error: &LinkError) {
        let text = error.to_string();
        let has_parted = |link: &Link| link.is_ending && link.has_given_all();
        if error.is_end() || self.links().get(peer).is_some_and(has_parted) {
            return self.peer_gone(peer, &text, Departure::Ended);
        }
        if !error.can_resume() {
            return self.peer_gone(peer, &text, Departure::Lost);
        }
        self.links_mut().disconnect(peer);
        let now = self.port().now();
        // Tasks that were sent now could not be confirmed: they are better placed elsewhere.
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.is_held = true;
        }
        let EngineParts { core, port, .. } = self.parts();
        core.peer_congested(peer, true, now, port);
        self.record_event(PeerEvent::Parted { peer, text });
    }

    /// Returns a heartbeat with the load of this side.
    fn own_beat(&self) -> Heartbeat {
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let core = self.core();
        Heartbeat {
            waiting: count(core.ready_len()),
            running: count(core.in_flight()),
            workers: core.worker_count(),
            busy_ns: self.port().scale().to_ns(core.busy_ticks()),
            ..Heartbeat::default()
        }
    }

    /// Sends heartbeats that are due, and gives up peers that were silent for too long, or all peers if nothing can run here.
    fn keep_alive(&mut self, now: u64) {
        if let Some(failure) = self.core().failure() {
            let text = failure.text.to_string();
            return self.end_all(&text);
        }
        let own = self.own_beat();
        if self.links().is_lease {
            self.extend_workers();
        }
        for peer in self.links().peers() {
            self.expire(peer, now);
            let Some(link) = self.links_mut().get_mut(peer) else { continue };
            if let Some(excess) = link.excess(now) {
                self.link_failed(peer, &excess.into());
                continue;
            }
            if let Some(beat) = link.heartbeat.due(now).filter(|_| link.is_connected()) {
                beat.with(own).write(&mut link.out);
                self.links_mut().has_outgoing = true;
                self.tell_context_states(peer);
            }
        }
    }

    /// Lets a lease's workers begin tasks for as long as its client certainly counts on the lease. A node may be frozen or cut
    /// off. Its workers must not begin tasks that the client has sent elsewhere, before the engine notices and ends the
    /// workers.
    fn extend_workers(&mut self) {
        let links = self.links();
        let ends = links
            .peers()
            .filter_map(|peer| links.get(peer))
            .map(|one| one.heartbeat.proven_until());
        if let Some(until) = ends.max() {
            self.port_mut().extend_workers(until);
        }
    }

    /// Gives up a peer that was silent for too long. A lease that stood still for so long is over, even if something has come
    /// in the meantime: its client has long sent its tasks elsewhere. A client reads what has come before it gives a lease up,
    /// because only the lease can tell what became of its tasks.
    fn expire(&mut self, peer: PeerId, now: u64) {
        let Some(link) = self.links().get(peer) else { return };
        if now >= link.heartbeat.expires_at() {
            let text = format!("no message came from it for {} s", link.heartbeat.expiry_s());
            self.peer_gone(peer, &text, Departure::Lost);
        }
    }

    /// Ends all links because nothing can run here, so that other nodes may get the tasks that peers would otherwise send here
    /// again and again. If this engine is a lease's, its node has failed for good: another lease there would end the same way.
    fn end_all(&mut self, text: &str) {
        self.settle();
        let text = text.to_owned();
        let (word, how) = if self.links().is_lease {
            (Control::Refuse { text: text.clone(), is_final: true }, Departure::Failed)
        } else {
            (Control::End { text: text.clone() }, Departure::Lost)
        };
        self.say_to_all(&word);
        for peer in self.links().peers() {
            self.peer_gone(peer, &text, how);
        }
    }

    fn flush_link(&mut self, peer: PeerId, now: u64) {
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        let waited = link.waits_for_room;
        let flushed = link.flush();
        let waits = flushed == Flushed::Some && link.is_connected();
        link.waits_for_room = waits;
        let has_more = link.is_unsendable();
        let is_free = link.is_held && link.is_connected() && !has_more && !link.is_congested();
        link.is_held &= !is_free;
        self.links_mut().waits_for_room |= waits;
        self.links_mut().has_more |= has_more;
        if waits != waited {
            self.links().watch(peer);
        }
        if is_free {
            let EngineParts { core, port, .. } = self.parts();
            core.peer_congested(peer, false, now, port);
        }
    }
}

impl<H: LinkHome> LinkMaintenance for H {}
