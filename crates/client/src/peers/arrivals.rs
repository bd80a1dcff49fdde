//! What comes over a link: messages, and what they ask for.

use gristmill_core::PeerOffer;
use gristmill_wire::PeerId;
use gristmill_wire::peer::{
    Beat, ContextState, ContextTerms, Control, Definition, MessageKind, Messages,
};

use super::answers::AnswerWork;
use super::contexts::ContextWork;
use super::guests::GuestWork;
use super::home::{LinkHome, Parts};
use super::intake::{Departure, LinkWork, PeerNews};
use super::link::{Came, LinkError};
use super::sending::Sending;
use super::upkeep::Upkeep;

/// What is taken from one link before others, and the engine's other threads, have their turn: blobs may come without end,
/// and somebody may see to it that something always does. Bytes, as many as a blob's pieces are under way at a time; and
/// chunks, of which small ones cost more than their bytes.
const BYTES_TURN: usize = 2 << 20;
const CHUNKS_TURN: usize = 1 << 10;

/// Taking in what comes.
pub(super) trait Arrivals: LinkHome {
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
            // Without a sleeper nobody says which have something.
            let is_told = self.links().sleeper().is_some();
            let Some(link) = self.links_mut().get_mut(peer).filter(|link| link.is_readable) else {
                return count;
            };
            match link.receive_one(chunk) {
                Ok(Came::Nothing) => {
                    link.is_readable = !is_told;
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
                Err(error) => self.link_failed(peer, &error),
            }
        }
        self.end_turn(peer, now);
        count
    }

    /// Does what those things ask for that came besides messages.
    fn end_turn(&mut self, peer: PeerId, now: u64) {
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        if link.has_heard() {
            link.pulse.heard_at = now;
        }
        // What was acknowledged makes room for messages that wait for it, and for blobs; what came may be a part of a message.
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
                    self.take_definition(peer, function, definition, &name)?;
                }
                MessageKind::DefineContext => {
                    self.take_context(peer, &ContextTerms::read(body)?)?;
                }
                MessageKind::ContextState => {
                    self.take_context_state(peer, ContextState::read(body)?);
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
    ) -> Result<(), LinkError> {
        let Some(control) = Control::read(kind, body)? else {
            return Ok(self.take_blob_message(peer, kind, body)?);
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
            // It is how much its workers can take: what a node was granted with is not for it to change.
            Control::Want { count } if !self.links().is_lease => {
                return Err(LinkError::Wanted(count));
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
                core.peer_lasts(peer, ends_at_ns, now, port);
            }
            Control::Drain { .. } => {
                let Parts { core, port, .. } = self.parts();
                core.peer_draining(peer, now, port);
                port.say(peer, &Control::Drained);
                self.peer_drains(peer);
            }
            Control::Drained => {
                if let Some(link) = self.links_mut().get_mut(peer) {
                    link.drains_open = link.drains_open.saturating_sub(1);
                }
            }
            Control::ForgetContext { context } => self.forget_context(peer, context, now),
            Control::End { text } => self.peer_ended(peer, &text, Departure::Ended),
            Control::Refuse { text, is_final } => {
                let how = if is_final { Departure::Failed } else { Departure::Ended };
                self.peer_ended(peer, &text, how);
            }
        }
        Ok(())
    }

    /// A peer has said its last word. It has answered what it had received by then, as far as it could.
    fn peer_ended(&mut self, peer: PeerId, text: &str, how: Departure) {
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.has_ended = true;
        }
        self.peer_gone(peer, text, how);
    }

    /// A peer has workers with nothing to do, or has none any more: it gets tasks that tasks here submitted.
    fn share(&mut self, peer: PeerId, count: u32, now: u64) {
        let Some(link) = self.links().get(peer) else { return };
        let offer = PeerOffer::of_workers(count);
        let epoch = link.epoch;
        let Parts { core, port, .. } = self.parts();
        core.peer_joined(peer, epoch, offer, now, port);
    }
}

impl<H: LinkHome> Arrivals for H {}
