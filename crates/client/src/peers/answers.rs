//! Answers of peers to the tasks that they were sent.

use gristmill_core::{AttemptTimings, LossCause, LossReport, Payload, PeerAnswer, PeerEnd};
use gristmill_shm::BlockPart;
use gristmill_wire::peer::{
    AnswerMessage, EndKind, LossFrame, Part, Parted, TEXT_SIZE_MAX, text_of,
};
use gristmill_wire::{FailureKind, FrameError, PeerId, Span, TaskFailure};

use super::home::{EngineParts, LinkHome, LinkPort};
use crate::blobs::{BlobParts, RemoteCompletion};

/// Returns the wire code of a cause of loss, and the signal or exit code that belongs to it.
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
    /// Stores the payload of a received task or answer.
    ///
    /// # Errors
    /// Returns a sentence if there is no memory for the payload, or if it names a blob that cannot be requested here.
    pub fn take_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        if parted.parts.is_empty() {
            return Ok(Payload::copy_from(parted.bytes));
        }
        let parts = self.take_all_parts(parted)?;
        Ok(self.bundles.insert(parted.bytes, parts))
    }

    /// Stores a received result, which counts towards the memory for results until it is fetched.
    ///
    /// # Errors
    /// Returns a sentence if there is no memory for the result, or if it names a blob that cannot be requested here.
    pub fn take_result(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        let parts = self.take_all_parts(parted)?;
        self.bundles.keep(parted.bytes, parts).map_err(|error| error.to_string())
    }

    fn take_all_parts(&mut self, parted: &Parted<'_>) -> Result<Vec<BlockPart>, String> {
        parted.parts.iter().map(|part| self.take_part(part)).collect()
    }

    fn take_part(&mut self, part: &Part<'_>) -> Result<BlockPart, String> {
        match (part, &mut self.receiver) {
            (Part::Bytes(bytes), _) => self.arena.store(bytes).map_err(|error| error.to_string()),
            (Part::Blob(name), Some(receiver)) => receiver.take(*name),
            (Part::Blob(name), None) => Err(format!(
                "it names a blob of {} bytes, which this end may not request",
                name.size
            )),
        }
    }
}

/// Methods that process answers.
pub(super) trait AnswerWork: LinkHome {
    /// Processes one answer.
    fn take_answer(&mut self, peer: PeerId, body: &[u8], now: u64) -> Result<(), FrameError> {
        let message = AnswerMessage::read(body)?;
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let started_ns = link.heartbeat.own_ns(message.started_ns);
        if message.end == EndKind::Returned && message.payload.has_names() {
            let timings = self.peer_timings(&message, started_ns);
            let returned =
                RemoteCompletion { task: message.task, attempt: message.attempt, timings };
            return self.await_result(peer, returned, &message.payload);
        }
        let node = &link.names.theirs;
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
                    // The frame does not say for which task the worker was killed, and only the presence of an id counts. So
                    // the id of the lost task itself stands in.
                    killed_for: frame.is_bystander.then_some(message.task),
                    detail: frame.detail.as_str().into(),
                    loading: frame.loading.as_str().into(),
                })
            }
            EndKind::Stopped => PeerEnd::Stopped,
            EndKind::Expired => PeerEnd::Expired,
            EndKind::Killed => PeerEnd::TimedOut(None),
            EndKind::Unstarted => PeerEnd::Unstarted,
            EndKind::TooDeep => PeerEnd::TooDeep,
            EndKind::ContextFailed => {
                let text = text_of(message.payload.bytes, TEXT_SIZE_MAX);
                PeerEnd::ContextFailed(format!("on node {node}: {text}").into())
            }
            kind @ (EndKind::Returned | EndKind::Raised | EndKind::TimedOut) => {
                // A returned value with blobs took the path above. Other answers must not name blobs: no code would fetch them.
                let payload = if message.payload.has_names() {
                    Err("it names blobs, which this end may not request".to_owned())
                } else {
                    self.port_mut().receive_result(&message.payload)
                };
                match (kind, payload) {
                    (EndKind::Returned, Ok(value)) => PeerEnd::Returned(value),
                    (EndKind::TimedOut, Ok(raised)) => PeerEnd::TimedOut(Some(raised)),
                    (_, Ok(raised)) => PeerEnd::Raised(raised),
                    (_, Err(text)) => {
                        let failure = TaskFailure::of_text(FailureKind::NoMemory, &text);
                        PeerEnd::Raised(Payload::from(failure.encode()))
                    }
                }
            }
        };
        let timings = self.peer_timings(&message, started_ns);
        let answer = PeerAnswer { task: message.task, attempt: message.attempt, end, timings };
        let EngineParts { core, port, .. } = self.parts();
        let _ = core.peer_answered(peer, answer, now, port);
        Ok(())
    }

    /// Returns the timings of a run in ticks of this side.
    fn peer_timings(&self, message: &AnswerMessage<'_>, started_ns: u64) -> AttemptTimings {
        let scale = self.port().scale();
        let span = |span: Span| Span::from_ticks(scale.from_ns(span.ticks()));
        let view = self.core().submitted_ticks(message.task).unwrap_or(0);
        let drained = self.port().now_ticks();
        // The clocks agree only to within half a round trip, but a run lies between its submission and its answer.
        let started = self.port().ticks_at(started_ns).clamp(view, drained.max(view));
        AttemptTimings {
            started_ticks: if message.started_ns == 0 { 0 } else { started },
            claimed_before: span(message.claimed_before),
            ran: span(message.ran),
            published_after: span(message.published_after),
            drained_after: Span::from_ticks(drained.saturating_sub(view)),
            worker_state: message.worker_state,
            ..AttemptTimings::default()
        }
    }
}

impl<H: LinkHome> AnswerWork for H {}
