//! What peers answer.

use gristmill_core::{LossCause, LossReport, Payload, PeerAnswer, PeerEnd, Tags};
use gristmill_shm::BlockPart;
use gristmill_wire::peer::{AnswerMessage, EndKind, LossFrame, Part, Parted};
use gristmill_wire::{FrameError, PeerId, Span};

use super::home::{LinkHome, LinkPort, Parts};
use crate::blobs::{BlobParts, Returned};

/// The number of a cause of loss on the wire, and what goes with it.
pub(super) const fn cause_word(cause: LossCause) -> (u8, i32) {
    match cause {
        LossCause::Signal(signal) => (1, signal),
        LossCause::Exit(code) => (2, code),
        LossCause::Keeper => (3, 0),
        LossCause::Stalled => (4, 0),
        LossCause::Corrupt => (5, 0),
        LossCause::Node => (6, 0),
    }
}

fn cause(frame: &LossFrame) -> Result<LossCause, FrameError> {
    Ok(match frame.cause {
        1 => LossCause::Signal(frame.number),
        2 => LossCause::Exit(frame.number),
        3 => LossCause::Keeper,
        4 => LossCause::Stalled,
        5 => LossCause::Corrupt,
        6 => LossCause::Node,
        other => return Err(FrameError::UnknownVerdict(other)),
    })
}

impl BlobParts<'_> {
    /// Takes in what came with a task, or an answer.
    ///
    /// # Errors
    /// There is no memory for it; a sentence.
    pub fn take_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        if parted.parts.is_empty() {
            return Ok(Payload::copy_from(parted.bytes));
        }
        let parts = parted.parts.iter().map(|part| self.take_part(part));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        Ok(self.bundles.insert(parted.bytes, parts))
    }

    fn take_part(&mut self, part: &Part<'_>) -> Result<BlockPart, String> {
        match (part, &mut self.taking) {
            (Part::Bytes(bytes), _) => self.arena.store(bytes).map_err(|error| error.to_string()),
            (Part::Blob(name), Some(taking)) => taking.take(*name),
            (Part::Blob(name), None) => {
                Err(format!("it names {} bytes that cannot be asked for here", name.size))
            }
        }
    }
}

/// Taking answers in.
pub(super) trait AnswerWork: LinkHome {
    /// Takes in one answer.
    fn take_answer(&mut self, peer: PeerId, body: &[u8], now: u64) -> Result<(), FrameError> {
        let message = AnswerMessage::read(body)?;
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let started_ns = link.pulse.own_ns(message.started_ns);
        if message.end == EndKind::Returned && message.payload.has_names() {
            let tags = self.peer_tags(&message, started_ns);
            let returned = Returned { task: message.task, attempt: message.attempt, tags };
            return self.await_result(peer, returned, &message.payload);
        }
        let node = &link.name;
        let end = match message.end {
            EndKind::Lost => {
                let frame = message.loss.as_ref().expect("a loss comes with its frame");
                PeerEnd::Lost(LossReport {
                    slot: frame.slot,
                    epoch: frame.epoch,
                    pid: frame.pid,
                    cause: cause(frame)?,
                    node: (**node).into(),
                    oom: frame.oom,
                    // A task of another engine: its id says nothing here, that there is one does.
                    killed_for: frame.is_bystander.then_some(message.task),
                    detail: frame.detail.as_str().into(),
                })
            }
            EndKind::Stopped => PeerEnd::Stopped,
            EndKind::Expired => PeerEnd::Expired,
            EndKind::Killed => PeerEnd::TimedOut(None),
            EndKind::Unstarted => PeerEnd::Unstarted,
            EndKind::TooDeep => PeerEnd::TooDeep,
            EndKind::ContextFailed => {
                let text = String::from_utf8_lossy(message.payload.bytes);
                PeerEnd::ContextFailed(format!("on node {node}: {text}").into())
            }
            kind @ (EndKind::Returned | EndKind::Raised | EndKind::TimedOut) => {
                // Only what was returned is brought home: nobody would see to a blob that anything else names.
                let payload = if message.payload.has_names() {
                    Err("it names what cannot be asked for here".to_owned())
                } else {
                    self.port_mut().receive_parted(&message.payload)
                };
                match (kind, payload) {
                    (EndKind::Returned, Ok(value)) => PeerEnd::Returned(value),
                    (EndKind::TimedOut, Ok(raised)) => PeerEnd::TimedOut(Some(raised)),
                    (_, Ok(raised)) => PeerEnd::Raised(raised),
                    (_, Err(text)) => {
                        PeerEnd::Raised(Payload::from(format!("\0{text}").into_bytes()))
                    }
                }
            }
        };
        let tags = self.peer_tags(&message, started_ns);
        let answer = PeerAnswer { task: message.task, attempt: message.attempt, end, tags };
        let Parts { core, port, .. } = self.parts();
        let _ = core.peer_answered(peer, answer, now, port);
        Ok(())
    }

    /// The tags of a run in ticks of this side.
    fn peer_tags(&self, message: &AnswerMessage<'_>, started_ns: u64) -> Tags {
        let scale = self.port().scale();
        let span = |span: Span| Span::from_ticks(scale.from_ns(span.ticks()));
        let view = self.core().submitted_ticks(message.task).unwrap_or(0);
        let drained = self.port().now_ticks();
        // The clocks agree up to half a round trip: a run lies between its submission and its answer.
        let started = self.port().ticks_at(started_ns).clamp(view, drained.max(view));
        Tags {
            started_ticks: if message.started_ns == 0 { 0 } else { started },
            claimed_before: span(message.claimed_before),
            ran: span(message.ran),
            published_after: span(message.published_after),
            drained_after: Span::from_ticks(drained.saturating_sub(view)),
            temperature: message.temperature,
            ..Tags::default()
        }
    }
}

impl<H: LinkHome> AnswerWork for H {}
