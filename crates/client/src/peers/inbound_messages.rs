//! Inbound messages of a link, and the actions that they request.

use gristmill_core::{Floor, PeerOffer};
use gristmill_wire::peer::{
    ContextState, ContextTerms, Control, Definition, Heartbeat, MessageKind, Messages,
};
use gristmill_wire::{ContextId, PeerId};

use super::answers::AnswerWork;
use super::contexts::{ContextTelling, ContextWork};
use super::definitions::DefinitionWork;
use super::home::{EngineParts, LinkHome};
use super::inbound::InboundWork;
use super::intake::{Departure, LinkWork, PeerEvent};
use super::link::{Came, LinkError};
use super::maintenance::LinkMaintenance;
use super::oversized::OversizedWork;
use super::sending::Sending;

/// Bytes that are read from one link before other links, and the engine's other threads, have their turn: as many as the pieces
/// of a blob that are under way at a time. Blobs may come without end, and a hostile peer can ensure that something always
/// does.
const BYTES_TURN: usize = 2 << 20;
/// Chunks that are read from one link in one turn: small chunks cost more than their bytes.
const CHUNKS_TURN: usize = 1 << 10;

/// Methods that take in what comes over links.
pub(super) trait InboundMessages: LinkHome {
    fn drain_link(&mut self, peer: PeerId, chunk: &mut Vec<u8>, now: u64) -> usize {
        let (mut count, mut size) = (0, 0);
        if self.links().is_lease {
            self.expire(peer, now);
        }
        for turn in 0.. {
            if turn == CHUNKS_TURN || size >= BYTES_TURN {
                self.links_mut().has_more = true;
                break;
            }
            // Without a sleeper, nothing tells which links have something to read.
            let is_told = self.links().sleeper().is_some();
            let links = self.links_mut();
            if links.get(peer).is_none_or(|link| !link.is_readable) {
                return count;
            }
            match links.receive_one(peer, chunk) {
                Ok(Came::Nothing) => {
                    if let Some(link) = links.get_mut(peer) {
                        link.is_readable = !is_told;
                    }
                    break;
                }
                Ok(Came::Part(bytes)) => size += bytes,
                Ok(Came::Messages) => {
                    size += chunk.len();
                    let taken = self.take_messages(peer, chunk, now);
                    count += taken.as_ref().copied().unwrap_or(1);
                    if let Err(error) = taken {
                        self.link_failed(peer, &error);
                    }
                }
                Ok(Came::Oversized(message, bytes)) => {
                    size += bytes;
                    count += 1;
                    if let Err(error) = self.take_oversized(peer, message, now) {
                        self.link_failed(peer, &error);
                    }
                }
                Err(error) => self.link_failed(peer, &error),
            }
        }
        self.end_turn(peer, now);
        count
    }

    /// Acts on signs of life and acknowledgements, which came besides messages.
    fn end_turn(&mut self, peer: PeerId, now: u64) {
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        if link.has_heard() {
            link.heartbeat.heard_at = now;
        }
        // Acknowledgements make room for waiting messages and for blobs; a part of a message may have come, too.
        let has_more = !link.out.is_empty() || !link.feeds.is_empty();
        let is_due = has_more || link.acknowledgement_is_due();
        self.links_mut().has_outgoing |= is_due;
        self.release_confirmed(peer);
    }

    fn take_messages(&mut self, peer: PeerId, chunk: &[u8], now: u64) -> Result<usize, LinkError> {
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
                    self.take_definition(peer, function, definition, &name);
                }
                MessageKind::DefineContext => {
                    self.take_context(peer, &ContextTerms::read(body)?)?;
                }
                MessageKind::ContextState => {
                    self.take_context_state(peer, ContextState::read(body)?);
                }
                MessageKind::Heartbeat => {
                    let beat = Heartbeat::read(body)?;
                    if let Some(link) = self.links_mut().get_mut(peer) {
                        link.heartbeat.take(&beat, now);
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
    ) -> Result<(), LinkError> {
        let Some(control) = Control::read(kind, body)? else {
            return Ok(self.take_blob_message(peer, kind, body)?);
        };
        match control {
            Control::Stop { task, attempt, grace_ns } => {
                self.stop_inbound(peer, task, attempt, grace_ns, now);
            }
            Control::Withdraw { task, attempt } => self.withdraw_inbound(peer, task, attempt, now),
            Control::Kept { task, attempt } => {
                let EngineParts { core, port, .. } = self.parts();
                core.peer_kept_task(peer, task, attempt, now, port);
                self.call_waiters(|tasks| tasks.contains(&task));
            }
            Control::Recall { count } => {
                let EngineParts { core, port, .. } = self.parts();
                core.withdraw(count, now, port);
                // Their answers leave before the message that says that these were all.
                self.settle();
                self.port_mut().say(peer, &Control::Recalled);
            }
            Control::Recalled => {
                let EngineParts { core, port, .. } = self.parts();
                core.peer_recalled(peer, now, port);
                self.call_waiters(<[_]>::is_empty);
            }
            // The message tells how many tasks the sender's workers can take. A node's grant says that, and the node cannot
            // change it.
            Control::Want { count } if !self.links().is_lease => {
                return Err(LinkError::Wanted(count));
            }
            Control::Want { count } => self.share(peer, count, now),
            Control::Floor { context, priority, wide, places, mark } => {
                let floor = Floor { priority, wide, places };
                self.take_floor((peer, context), (floor, mark), now);
            }
            Control::Vacant { context, count, mark } => {
                self.take_vacancies((peer, context), (count, mark), now);
            }
            Control::Extend { duration_ns } => {
                self.record_event(PeerEvent::Extend { peer, duration_ns });
            }
            Control::Lasts { duration_ns } => self.take_end(peer, duration_ns, now),
            Control::Drain { .. } => {
                let EngineParts { core, port, .. } = self.parts();
                core.peer_draining(peer, now, port);
                port.say(peer, &Control::Drained);
                self.peer_drains(peer);
            }
            Control::Drained => {
                if let Some(link) = self.links_mut().get_mut(peer) {
                    link.drains_open = link.drains_open.saturating_sub(1);
                }
            }
            Control::ForgetFunction { function } => self.forget_definition(peer, function),
            Control::ForgetContext { context } => self.forget_context(peer, context, now),
            Control::End { text } => self.peer_ended(peer, &text, Departure::Ended),
            Control::Refuse { text, is_final } => {
                let how = if is_final { Departure::Failed } else { Departure::Ended };
                self.peer_ended(peer, &text, how);
            }
        }
        Ok(())
    }

    /// Applies a client's priority floor, below which no task begins here; ignores the floor of a node.
    fn take_floor(&mut self, (peer, named): (PeerId, ContextId), floor: (Floor, u32), now: u64) {
        if self.links().is_lease
            && let Some(context) = self.port().find_named(peer, named)
        {
            let EngineParts { core, port, .. } = self.parts();
            core.set_peers_floor((peer, context), floor, now, port);
        }
    }

    /// Records that workers of a node have nothing to do because of a floor.
    fn take_vacancies(&mut self, (peer, named): (PeerId, ContextId), word: (u32, u32), now: u64) {
        if let Some(context) = self.port().find_named(peer, named) {
            let EngineParts { core, port, .. } = self.parts();
            core.peer_vacant((peer, context), word, now, port);
        }
    }

    /// Records for how long a lease lasts from now on.
    fn take_end(&mut self, peer: PeerId, duration_ns: u64, now: u64) {
        let ends_at_ns = now.saturating_add(duration_ns);
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.ends_at_ns = ends_at_ns;
        }
        let EngineParts { core, port, .. } = self.parts();
        core.peer_lasts(peer, ends_at_ns, now, port);
    }

    /// Handles the last message of a peer, which has answered what it had received by then, as much as it could.
    fn peer_ended(&mut self, peer: PeerId, text: &str, how: Departure) {
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.has_ended = true;
        }
        self.peer_gone(peer, text, how);
    }

    /// Records how many workers of a peer have nothing to do, so that it gets nested tasks of this engine; 0 ends this.
    fn share(&mut self, peer: PeerId, count: u32, now: u64) {
        let Some(link) = self.links().get(peer) else { return };
        let offer = PeerOffer::of_workers(count);
        let epoch = link.epoch;
        let EngineParts { core, port, .. } = self.parts();
        core.peer_joined(peer, epoch, offer, now, port);
    }
}

impl<H: LinkHome> InboundMessages for H {}
