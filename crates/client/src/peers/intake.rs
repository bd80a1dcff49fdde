//! Looking after links: what came is taken in, what is due is sent, who is silent for too long is lost.

use std::sync::Arc;

use gristmill_core::{LossCause, LossReport, PeerOffer};
use gristmill_transport::{Channel, Flushed};
use gristmill_wire::peer::{Beat, Control, Definition, MessageKind, Messages};
use gristmill_wire::{Epoch, FrameError, PeerId, SlotId, TaskId};

use super::answers::AnswerWork;
use super::guests::GuestWork;
use super::home::{LinkHome, LinkPort, Parts};
use super::link::LinkError;
use super::links::NewLink;
use super::sending::Sending;
use crate::inner::Inner;

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
        /// It said so itself; otherwise it was lost, and may come again.
        has_ended: bool,
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

/// Chunks that a courier takes from one link before the engine's other threads have their turn: blobs may come without end.
const CHUNKS_TURN: usize = 16;

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
        self.drain_links();
        self.flush_links(now);
        peer
    }

    /// Goes on with a link over another connection, whose other end has `received` chunks. False: the link is gone.
    fn reattach(&mut self, peer: PeerId, channel: Box<dyn Channel + Send>, received: u64) -> bool {
        let now = self.port_mut().read_clock();
        self.links_mut().disconnect(peer);
        if self.links().has_courier {
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

    /// Takes in all that came; gives how many messages came. The clock was read just now; what is to leave because of it
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
        if !self.links().has_courier {
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
    fn peer_gone(&mut self, peer: PeerId, text: &str, has_ended: bool) {
        let now = self.port().now();
        let Some(link) = self.links_mut().remove(peer, now) else { return };
        let report = LossReport {
            slot: SlotId(0),
            epoch: Epoch(0),
            pid: 0,
            cause: LossCause::Node,
            node: (*link.name).into(),
            oom: false,
            killed_for: None,
            detail: text.into(),
        };
        let Parts { core, port, .. } = self.parts();
        core.peer_lost((peer, link.epoch), report, &link.never_sent(), now, port);
        self.peer_left(peer);
        self.drop_guests(link.guest_places(), now);
        link.functions.into_iter().flatten().for_each(|function| self.release_function(function));
        self.port_mut().forget_told(peer);
        let text = text.to_owned();
        self.tell_news(PeerNews::Gone { peer, name: link.name, text, has_ended });
    }

    /// Takes no more tasks of peers, and gives back what has not started.
    fn drain_guests(&mut self, text: &str) {
        let now = self.port_mut().read_clock();
        let Parts { core, port, guests } = self.parts();
        guests.is_draining = true;
        for peer in port.links().peers() {
            port.say(peer, &Control::Drain { text: text.to_owned() });
        }
        core.withdraw(u32::MAX, now, port);
        self.settle();
        self.flush_links(now);
    }

    /// Whether nothing of peers is left here, and nothing is on its way.
    fn has_no_guests(&self) -> bool {
        let mut links = self.links().peers().filter_map(|peer| self.links().get(peer));
        self.core().is_drained() && links.all(|link| link.is_drained && link.is_confirmed())
    }

    /// Tells all peers that nothing more will come.
    fn end_links(&mut self, text: &str) {
        for peer in self.links().peers() {
            self.port_mut().say(peer, &Control::End { text: text.to_owned() });
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
}

impl<H: LinkHome> LinkWork for H {}

/// The steps of that.
trait LinkSteps: LinkHome {
    fn drain_link(&mut self, peer: PeerId, chunk: &mut Vec<u8>, now: u64) -> usize {
        let mut count = 0;
        if self.links().has_courier {
            self.expire(peer, now);
        }
        for turn in 0.. {
            if turn == CHUNKS_TURN && self.links().has_courier {
                self.links_mut().has_more = true;
                break;
            }
            let Some(link) = self.links_mut().get_mut(peer) else { break };
            match link.receive(chunk) {
                Ok(false) => {
                    // What was acknowledged makes room for blobs.
                    let has_blobs = !link.feeds.is_empty();
                    self.links_mut().has_outgoing |= has_blobs;
                    self.release_confirmed(peer);
                    break;
                }
                Ok(true) => {
                    let taken = self.take_messages(peer, chunk, now);
                    count += taken.as_ref().copied().unwrap_or(1);
                    if let Err(error) = taken {
                        self.link_failed(peer, &error.into());
                    }
                }
                Err(error) => self.link_failed(peer, &error),
            }
        }
        if let Some(link) = self.links_mut().get_mut(peer)
            && link.has_heard()
        {
            link.pulse.heard_at = now;
        }
        count
    }

    fn take_messages(&mut self, peer: PeerId, chunk: &[u8], now: u64) -> Result<usize, FrameError> {
        let mut count = 0;
        for message in Messages::new(chunk) {
            let (kind, body) = message?;
            count += 1;
            match kind {
                MessageKind::Answer => self.take_answer(peer, body, now)?,
                MessageKind::Task => self.take_task(peer, body, now)?,
                MessageKind::Define => {
                    let Definition { function, definition, name } = Definition::read(body)?;
                    let name = String::from_utf8_lossy(name);
                    self.take_definition(peer, function, definition, &name)?;
                }
                MessageKind::Beat => {
                    let beat = Beat::read(body)?;
                    if let Some(link) = self.links_mut().get_mut(peer) {
                        link.pulse.take(&beat, now);
                    }
                }
                other => self.take_control(peer, other, body, now)?,
            }
        }
        Ok(count)
    }

    fn take_control(
        &mut self,
        peer: PeerId,
        kind: MessageKind,
        body: &[u8],
        now: u64,
    ) -> Result<(), FrameError> {
        let Some(control) = Control::read(kind, body)? else {
            return self.take_blob_message(peer, kind, body);
        };
        match control {
            Control::Stop { task, attempt, grace_ns } => {
                self.stop_guest(peer, task, attempt, grace_ns, now);
            }
            Control::Withdraw { task, attempt } => self.withdraw_guest(peer, task, attempt, now),
            Control::Kept { task, attempt } => {
                self.parts().core.peer_kept(peer, task, attempt);
                self.call_waiters(|tasks| tasks.contains(&task));
            }
            Control::Recall { count } => {
                let Parts { core, port, .. } = self.parts();
                core.withdraw(count, now, port);
                // Their answers leave before the word that these were all.
                self.settle();
                self.port_mut().say(peer, &Control::Recalled);
            }
            Control::Recalled => {
                let Parts { core, port, .. } = self.parts();
                core.peer_recalled(peer, now, port);
                self.call_waiters(<[_]>::is_empty);
            }
            Control::Want { count } => self.share(peer, count, now),
            Control::Extend { duration_ns } => {
                self.tell_news(PeerNews::Extend { peer, duration_ns });
            }
            Control::Lasts { duration_ns } => {
                let ends_at_ns = now.saturating_add(duration_ns);
                if let Some(link) = self.links_mut().get_mut(peer) {
                    link.ends_at_ns = ends_at_ns;
                }
                let Parts { core, port, .. } = self.parts();
                core.peer_ends(peer, ends_at_ns, now, port);
            }
            Control::Drain { .. } => {
                let Parts { core, port, .. } = self.parts();
                core.peer_draining(peer, now, port);
                port.say(peer, &Control::Drained);
            }
            Control::Drained => {
                if let Some(link) = self.links_mut().get_mut(peer) {
                    link.is_drained = true;
                }
            }
            Control::End { text } | Control::Refuse { text } => self.peer_gone(peer, &text, true),
        }
        Ok(())
    }

    /// A peer has workers with nothing to do, or has none any more: it gets tasks that tasks here submitted.
    fn share(&mut self, peer: PeerId, count: u32, now: u64) {
        let Some(link) = self.links().get(peer) else { return };
        let offer = PeerOffer::of_workers(count);
        let epoch = link.epoch;
        let Parts { core, port, .. } = self.parts();
        core.peer_joined(peer, epoch, offer, now, port);
    }

    /// Asks peers whose tasks wait for as many as workers of others have nothing to do.
    fn ask_for_work(&mut self) {
        let idle = self.core().idle_capacity();
        for peer in self.links().peers() {
            let idle = idle.saturating_sub(self.core().idle_at(peer));
            let Some(link) = self.links_mut().get_mut(peer) else { continue };
            let count = if link.pulse.last.waiting == 0 { 0 } else { idle };
            if count != link.wanted {
                link.wanted = count;
                self.port_mut().say(peer, &Control::Want { count });
            }
        }
    }

    /// A link broke: another connection may come, unless what it carried was wrong.
    fn link_failed(&mut self, peer: PeerId, error: &LinkError) {
        let text = error.to_string();
        if !error.can_resume() {
            return self.peer_gone(peer, &text, false);
        }
        self.links_mut().disconnect(peer);
        let now = self.port().now();
        // Whatever would be sent now could not be confirmed: it is better placed elsewhere.
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.is_held = true;
        }
        let Parts { core, port, .. } = self.parts();
        core.peer_congested(peer, true, now, port);
        self.tell_news(PeerNews::Parted { peer, text });
    }

    /// What this side says of itself.
    fn own_beat(&self) -> Beat {
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let core = self.core();
        Beat {
            waiting: count(core.ready_len()),
            running: count(core.in_flight()),
            workers: core.worker_count(),
            busy_ns: self.port().scale().to_ns(core.busy_ticks()),
            ..Beat::default()
        }
    }

    /// Sends beats that are due, and gives up who was silent for too long; all, if nothing can be run here.
    fn keep_alive(&mut self, now: u64) {
        if let Some(failure) = self.core().failure() {
            let text = failure.text.to_string();
            return self.end_all(&text);
        }
        let own = self.own_beat();
        for peer in self.links().peers() {
            self.expire(peer, now);
            let Some(link) = self.links_mut().get_mut(peer) else { continue };
            if let Some(beat) = link.pulse.due(now).filter(|_| link.is_connected()) {
                beat.with(own).write(&mut link.out);
                self.links_mut().has_outgoing = true;
            }
        }
    }

    /// Gives a peer up that was silent for too long. A lease that stood still for so long is over whatever has come in the
    /// meantime: its client has long sent its tasks elsewhere. A client is heard: it alone may tell what became of them.
    fn expire(&mut self, peer: PeerId, now: u64) {
        let Some(link) = self.links().get(peer) else { return };
        if now >= link.pulse.expires_at() {
            let text = format!("it was not heard for {} s", link.pulse.expiry_s());
            self.peer_gone(peer, &text, false);
        }
    }

    /// Nothing can be run here: others may get what they would send again and again.
    fn end_all(&mut self, text: &str) {
        self.settle();
        self.end_links(text);
        for peer in self.links().peers() {
            self.peer_gone(peer, text, false);
        }
    }

    fn flush_link(&mut self, peer: PeerId, now: u64) {
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        let waited = link.waits_for_room;
        let flushed = match link.flush() {
            Ok(flushed) => flushed,
            Err(error) => return self.link_failed(peer, &error),
        };
        let waits = flushed == Flushed::Some && link.is_connected();
        link.waits_for_room = waits;
        let is_free = link.is_held && link.is_connected() && !link.is_congested();
        link.is_held &= !is_free;
        self.links_mut().waits_for_room |= waits;
        if waits != waited {
            self.links().watch(peer);
        }
        if is_free {
            let Parts { core, port, .. } = self.parts();
            core.peer_congested(peer, false, now, port);
        }
    }
}

impl<H: LinkHome> LinkSteps for H {}

impl Inner {
    /// What a submit does in passing.
    pub fn links_in_passing(&mut self, now: u64) {
        // Where nothing is away no result can have come, and the look would be a system call.
        let sleeper = self.lanes.links.leader_sleeper().filter(|_| self.core.in_flight() > 0);
        if sleeper.is_some_and(|sleeper| sleeper.is_ready()) && self.drain_links() > 0 {
            self.attended();
        }
        let mut links = self.lanes.links.peers().filter_map(|peer| self.lanes.links.get(peer));
        if links.any(|link| link.out.len() >= PASSING_SIZE) {
            self.flush_links(now);
        }
    }
}
