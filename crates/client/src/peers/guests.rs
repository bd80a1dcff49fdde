//! Tasks that a peer sent: run here, answered there.

use gristmill_core::{
    CancelMode, CancelOutcome, Origin, Outcome, Payload, Submission, TaskOptions,
};
use gristmill_wire::peer::{
    AnswerMessage, Control, EndKind, LossFrame, Parted, TaskLimits, TaskMessage,
};
use gristmill_wire::{Attempt, Epoch, FrameError, FunctionId, PeerId, Span, TaskId};

use super::answers::cause_word;
use super::sending::put_payload;
use crate::inner::Inner;
use crate::lanes::{handle, split_handle};

/// Whose task it is, until it is final.
#[derive(Debug, Clone, Copy)]
struct Guest {
    peer: PeerId,
    epoch: Epoch,
    /// Its id there.
    theirs: TaskId,
    attempt: Attempt,
    /// Its id here.
    ours: TaskId,
}

/// The bit of a handle's upper half that says that the rest leads here; without it, to a nested task's worker.
const GUEST: u32 = 1 << 31;

/// Tasks of peers that are not final.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    entries: Vec<Option<Guest>>,
    free: Vec<u32>,
}

impl Guests {
    fn enter(&mut self, guest: Guest) -> u32 {
        if let Some(place) = self.free.pop() {
            self.entries[place as usize] = Some(guest);
            return place | GUEST;
        }
        self.entries.push(Some(guest));
        u32::try_from(self.entries.len() - 1).expect("fewer tasks than 2^31 are outstanding")
            | GUEST
    }

    fn get_mut(&mut self, word: u32) -> Option<&mut Guest> {
        self.entries.get_mut((word & !GUEST) as usize)?.as_mut()
    }

    fn leave(&mut self, word: u32) -> Option<Guest> {
        let place = word & !GUEST;
        let guest = self.entries.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(guest)
    }

    /// The task here that is a peer's `task`.
    fn find(&self, peer: PeerId, task: TaskId, attempt: Attempt) -> Option<TaskId> {
        let is_meant =
            |guest: &&Guest| guest.peer == peer && guest.theirs == task && guest.attempt == attempt;
        self.entries.iter().flatten().find(is_meant).map(|guest| guest.ours)
    }

    /// The tasks here that are a peer's.
    fn of(&self, peer: PeerId) -> Vec<TaskId> {
        let guests = self.entries.iter().flatten();
        guests.filter(|guest| guest.peer == peer).map(|guest| guest.ours).collect()
    }
}

/// Whether a handle is that of a peer's task.
#[inline]
pub(crate) const fn is_guest(handle: u64) -> bool {
    split_handle(handle).1 & GUEST != 0
}

impl Inner {
    /// Takes in one task.
    pub(super) fn take_task(
        &mut self,
        peer: PeerId,
        body: &[u8],
        now: u64,
    ) -> Result<(), FrameError> {
        let message = TaskMessage::read(body)?;
        let Some(link) = self.lanes.links.get(peer) else { return Ok(()) };
        let mut guest = Guest {
            peer,
            epoch: link.epoch,
            theirs: message.task,
            attempt: message.attempt,
            ours: TaskId::from_word(u64::MAX),
        };
        let function = self.lanes.peer_function(peer, message.function);
        let function = function.ok_or(FrameError::UnknownKind(0))?;
        let Some((parents, payload)) = self.take_payloads(&message) else {
            // There is no memory for it here: somebody else may have some.
            self.answer(&guest, EndKind::Unstarted, None);
            return Ok(());
        };
        let word = self.guests.enter(guest);
        let options = message.limits.map(|limits| task_options(&limits, now));
        let submission = Submission {
            function,
            payload,
            handle: handle(function, word),
            submitted_ticks: self.lanes.now_ticks(),
            parents: &parents,
            options: options.as_ref(),
            origin: Origin::External,
        };
        self.lanes.functions.use_again(function);
        let submitted = self.core.submit(submission, now, &mut self.lanes);
        parents.into_iter().for_each(|parent| self.core.release(parent));
        match submitted {
            Ok(task) => {
                if let Some(guest) = self.guests.get_mut(word) {
                    guest.ours = task;
                }
            }
            Err(_) => {
                self.release_function(function);
                self.guests.leave(word);
                guest.ours = TaskId::from_word(u64::MAX);
                self.answer(&guest, EndKind::Unstarted, None);
            }
        }
        Ok(())
    }

    /// The results that a task names, as tasks that have ended, and its arguments.
    fn take_payloads(&mut self, message: &TaskMessage<'_>) -> Option<(Vec<TaskId>, Payload)> {
        let mut parents = Vec::new();
        let mut taken = Some(());
        for parent in message.parents.clone() {
            let payload = self.lanes.receive_parted(&parent.unwrap_or_default());
            match payload {
                Ok(payload) => parents.push(self.core.insert_value(payload)),
                Err(_) => taken = None,
            }
        }
        let payload = self.lanes.receive_parted(&message.payload).ok();
        match (taken, payload) {
            (Some(()), Some(payload)) => Some((parents, payload)),
            (_, payload) => {
                parents.into_iter().for_each(|parent| self.core.release(parent));
                if let Some(block) = payload.and_then(|payload| payload.block()) {
                    self.lanes.bundles.remove(block);
                }
                None
            }
        }
    }

    /// Notes what a peer's function id stands for from now on.
    pub(super) fn take_definition(
        &mut self,
        peer: PeerId,
        function: FunctionId,
        definition: &[u8],
        name: &str,
    ) {
        let ours = self.lanes.functions.define(definition, name);
        let Some(link) = self.lanes.links.get_mut(peer) else { return };
        let place = function.0 as usize;
        if link.functions.len() <= place {
            link.functions.resize(place + 1, None);
        }
        if let Some(before) = link.functions[place].replace(ours) {
            self.release_function(before);
        }
    }

    pub(super) fn release_function(&mut self, function: FunctionId) {
        if self.lanes.functions.release(function) {
            self.lanes.freed_functions.push(function);
        }
    }

    /// Stops a peer's task as far as it has come.
    pub(super) fn stop_guest(
        &mut self,
        peer: PeerId,
        task: TaskId,
        attempt: Attempt,
        grace_ns: u64,
        now: u64,
    ) {
        if let Some(ours) = self.guests.find(peer, task, attempt) {
            let mode = CancelMode::Running { grace_ns: Some(grace_ns) };
            let _ = self.core.cancel(ours, mode, now, &mut self.lanes);
        }
    }

    /// Cancels a peer's task that has not started, or says that it has.
    pub(super) fn withdraw_guest(
        &mut self,
        peer: PeerId,
        task: TaskId,
        attempt: Attempt,
        now: u64,
    ) {
        let ours = self.guests.find(peer, task, attempt);
        let outcome =
            ours.map(|ours| self.core.cancel(ours, CancelMode::Unstarted, now, &mut self.lanes));
        if outcome != Some(CancelOutcome::Cancelled) {
            self.lanes.say(peer, &Control::Kept { task, attempt });
        }
    }

    /// A peer is gone: nobody will ask for its tasks' results, and those that have not started need not.
    pub(super) fn drop_guests(&mut self, peer: PeerId, now: u64) {
        for ours in self.guests.of(peer) {
            let mode = CancelMode::Running { grace_ns: None };
            let _ = self.core.cancel(ours, mode, now, &mut self.lanes);
        }
    }

    /// Tells a peer that its task is final here.
    pub(crate) fn answer_guest(&mut self, task: TaskId, handle: u64) {
        let (_, word) = split_handle(handle);
        let Some(guest) = self.guests.leave(word) else { return };
        let is_there =
            self.lanes.links.get(guest.peer).is_some_and(|link| link.epoch == guest.epoch);
        if is_there && let Some(view) = self.core.task(task) {
            let (kind, loss) = end_of(view.has_started, view.outcome.as_ref());
            let guest = Guest { ours: task, ..guest };
            self.answer(&guest, kind, loss);
        }
        self.release(task);
    }

    fn answer(&mut self, guest: &Guest, end: EndKind, loss: Option<LossFrame>) {
        let scale = self.lanes.scale;
        let view = self.core.task(guest.ours);
        let tags = view.map(|view| view.tags).unwrap_or_default();
        let span = |span: Span| Span::from_ticks(scale.to_ns(span.ticks()));
        let message = AnswerMessage {
            task: guest.theirs,
            attempt: guest.attempt,
            end,
            started_ns: scale.to_ns(tags.started_ticks),
            claimed_before: span(tags.claimed_before),
            ran: span(tags.ran),
            published_after: span(tags.published_after),
            payload: Parted::default(),
            loss,
        };
        let bundles = &self.lanes.bundles;
        let Some(link) = self.lanes.links.get_mut(guest.peer) else { return };
        message.write(&mut link.out, |out| match view.and_then(|view| view.outcome) {
            Some(Outcome::Returned(payload) | Outcome::Raised(payload)) => {
                put_payload(payload, bundles, out);
            }
            Some(Outcome::TimedOut { raised: Some(payload), .. }) => {
                put_payload(payload, bundles, out);
            }
            _ => Parted::put_plain(out, &[]),
        });
        self.lanes.links.has_outgoing = true;
    }
}

/// What an outcome is in an answer.
fn end_of(has_started: bool, outcome: Option<&Outcome<'_>>) -> (EndKind, Option<LossFrame>) {
    let kind = match outcome {
        Some(Outcome::Returned(_)) => EndKind::Returned,
        Some(Outcome::Raised(_)) => EndKind::Raised,
        Some(Outcome::TimedOut { started: false, .. }) => EndKind::Expired,
        Some(Outcome::TimedOut { raised: Some(_), .. }) => EndKind::TimedOut,
        Some(Outcome::TimedOut { raised: None, .. }) => EndKind::Killed,
        Some(Outcome::NestedTooDeep) => EndKind::TooDeep,
        Some(Outcome::Lost(report)) => {
            let (cause, number) = cause_word(report.cause);
            let frame = LossFrame {
                cause,
                number,
                pid: report.pid,
                slot: report.slot,
                epoch: report.epoch,
                oom: report.oom,
                is_bystander: report.killed_for.is_some(),
                detail: report.detail.to_string(),
            };
            return (EndKind::Lost, Some(frame));
        }
        Some(Outcome::Cancelled) if has_started => EndKind::Stopped,
        // Taken back, or the engine here can run nothing any more: somebody else may.
        _ => EndKind::Unstarted,
    };
    (kind, None)
}

fn task_options(limits: &TaskLimits, now: u64) -> TaskOptions {
    let time = |ns: u64| (ns != u64::MAX).then_some(ns);
    TaskOptions {
        timeout_ns: time(limits.timeout_ns),
        deadline_ns: time(limits.deadline_left_ns).map(|left| now.saturating_add(left)),
        grace_ns: Some(limits.grace_ns),
        priority: limits.priority,
        context: limits.context,
        ..TaskOptions::default()
    }
}
