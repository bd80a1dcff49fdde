//! Tasks that a peer sent: run here, answered there.

use gristmill_core::{
    Budgets, CancelMode, CancelOutcome, LossCause, Origin, Outcome, Payload, Submission,
    TaskOptions,
};
use gristmill_wire::peer::{
    AnswerMessage, Control, EndKind, LossFrame, ParentResult, Parted, TaskLimits, TaskMessage,
};
use gristmill_wire::{
    Attempt, BlobName, ContextId, Epoch, FunctionId, PeerId, SlotId, Span, TaskId,
};

use super::answers::cause_word;
use super::contexts::ContextWork;
use super::home::{LinkHome, LinkPort, Parts, PayloadStore};
use super::link::{Link, LinkError};
use super::sending::Sending;
use crate::lanes::{handle, split_handle};

/// Whose task it is, until it is final.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guest {
    peer: PeerId,
    epoch: Epoch,
    /// Its id there.
    theirs: TaskId,
    attempt: Attempt,
    /// Its id here.
    ours: TaskId,
    /// Its result is sent when it is asked for.
    may_stay: bool,
}

/// The id of no task.
const NO_TASK: TaskId = TaskId::from_word(u64::MAX);
/// The bit of a handle's upper half that says that the rest leads here; without it, to a nested task's worker.
const GUEST: u32 = 1 << 31;

/// Tasks of peers that are not final, or whose answers their peers have not confirmed: until then others may name them.
#[derive(Debug, Default)]
pub struct Guests {
    entries: Vec<Option<Guest>>,
    free: Vec<u32>,
    /// No more are taken.
    pub is_draining: bool,
}

impl Guests {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whose task a handle stands for: the peer, and its name and placement there.
    #[must_use]
    pub fn named(&self, handle: u64) -> Option<(PeerId, TaskId, Attempt)> {
        let guest = self.get(split_handle(handle).1 & !GUEST).filter(|_| is_guest(handle))?;
        Some((guest.peer, guest.theirs, guest.attempt))
    }

    /// A place for one, which is filled when it has been accepted.
    fn reserve(&mut self) -> u32 {
        if let Some(place) = self.free.pop() {
            return place;
        }
        self.entries.push(None);
        let place = u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX);
        assert!(place < GUEST, "fewer tasks than 2^31 are outstanding");
        place
    }

    fn get(&self, place: u32) -> Option<&Guest> {
        self.entries.get(place as usize)?.as_ref()
    }

    /// Forgets one that is over.
    fn leave(&mut self, place: u32) -> Option<Guest> {
        let guest = self.entries.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(guest)
    }
}

/// Whether a handle is that of a peer's task.
#[inline]
#[must_use]
pub const fn is_guest(handle: u64) -> bool {
    split_handle(handle).1 & GUEST != 0
}

/// What came with a task.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// The tasks here whose results it needs, then the promises that it waits for.
    parents: Vec<TaskId>,
    /// Of these, those that were made for it.
    values: Vec<TaskId>,
}

/// Taking tasks in, and answering them.
pub(super) trait GuestWork: LinkHome {
    /// Takes in one task.
    fn take_task(&mut self, peer: PeerId, body: &[u8], now: u64) -> Result<(), LinkError> {
        let mut message = TaskMessage::read(body)?;
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let (theirs, attempt, epoch) = (message.task, message.attempt, link.epoch);
        // Of two with one name only the second would be known, and the first would outlive its peer.
        let before = link.guests.get(&theirs).and_then(|&place| self.guests().get(place));
        if before.is_some_and(|guest| !self.core().is_final(guest.ours)) {
            return Err(LinkError::Again(theirs));
        }
        let function = self.port().peer_function(peer, message.function);
        let function = function.ok_or(LinkError::Undefined(message.function))?;
        let named = message.limits.map_or(ContextId(0), |limits| limits.context);
        let context = self.take_named(peer, named)?;
        if let (Some(limits), Some(context)) = (&mut message.limits, context) {
            limits.context = context;
        }
        let place = self.parts().guests.reserve();
        let accepted = if self.guests().is_draining || context.is_none() {
            None
        } else {
            self.accept_guest(peer, &message, (function, place), now)
        };
        if let Some(context) = context.filter(|_| named.own().is_some()) {
            self.release_context(context, now);
        }
        let ours = accepted.unwrap_or(NO_TASK);
        let guest = Guest { peer, epoch, theirs, attempt, ours, may_stay: message.may_stay };
        self.parts().guests.entries[place as usize] = Some(guest);
        if accepted.is_none() {
            // No more are taken, or it names what is not here, or there is no memory for it: somebody else may have both.
            // It is a guest until its peer knows, so that nobody leaves before.
            self.answer(&guest, (EndKind::Unstarted, None), &[]);
        }
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.guests.insert(theirs, place);
            if accepted.is_none() {
                link.note_answer(place);
            }
        }
        Ok(())
    }

    /// Hands a peer's task to the graph.
    fn accept_guest(
        &mut self,
        peer: PeerId,
        message: &TaskMessage<'_>,
        (function, place): (FunctionId, u32),
        now: u64,
    ) -> Option<TaskId> {
        let mut taken = Taken::default();
        let payload = self.take_payloads(peer, message, &mut taken);
        let context = message.limits.as_ref().map_or_else(Default::default, |one| one.context);
        taken.parents.extend(self.take_promises(peer, context));
        let options = guest_options(message.limits.as_ref(), self.core().budgets(), now);
        // An engine that shares only what its own tasks submitted sends no guest on.
        let origin = if self.links().is_lease { Origin::External } else { Origin::Peer(peer) };
        let submitted = payload.and_then(|payload| {
            let submission = Submission {
                function,
                payload,
                handle: handle(function, place | GUEST),
                submitted_ticks: self.port().now_ticks(),
                parents: &taken.parents,
                options: options.as_ref(),
                origin,
            };
            let Parts { core, port, .. } = self.parts();
            port.writing().1.use_again(function);
            let submitted = core.submit(submission, now, port);
            if submitted.is_err() {
                self.release_function(function);
            }
            submitted.ok()
        });
        taken.values.into_iter().for_each(|value| self.parts().core.release(value));
        submitted
    }

    /// The results that a task names, as tasks here, and its arguments.
    fn take_payloads(
        &mut self,
        peer: PeerId,
        message: &TaskMessage<'_>,
        taken: &mut Taken,
    ) -> Option<Payload> {
        for parent in message.parents.clone() {
            match parent.ok()? {
                ParentResult::Of(task, attempt) => {
                    taken.parents.push(self.guest_of(peer, task, attempt)?.ours);
                }
                ParentResult::Value(parted) => {
                    let value = self.port_mut().receive_parted(&parted).ok()?;
                    let task = self.parts().core.insert_value(value);
                    taken.parents.push(task);
                    taken.values.push(task);
                }
            }
        }
        self.port_mut().receive_parted(&message.payload).ok()
    }

    /// A peer's task, by its id there.
    fn guest_of(&self, peer: PeerId, task: TaskId, attempt: Attempt) -> Option<Guest> {
        let place = *self.links().get(peer)?.guests.get(&task)?;
        self.guests().get(place).filter(|guest| guest.attempt == attempt).copied()
    }

    /// Notes what a peer's function id stands for from now on.
    fn take_definition(
        &mut self,
        peer: PeerId,
        function: FunctionId,
        definition: &[u8],
        name: &str,
    ) -> Result<(), LinkError> {
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let size = definition.len() + name.len();
        if let Err(size) = link.functions.check(function, size) {
            return Err(LinkError::Definitions { name: name.to_owned(), size });
        }
        let ours = self.port_mut().writing().1.define(definition, name);
        let link = self.links_mut().get_mut(peer);
        if let Some(before) = link.and_then(|link| link.functions.insert(function, ours, size)) {
            self.release_function(before);
        }
        Ok(())
    }

    fn release_function(&mut self, function: FunctionId) {
        let port = self.port_mut();
        if port.writing().1.release(function) {
            port.function_freed(function);
        }
    }

    /// Stops a peer's task as far as it has come.
    fn stop_guest(
        &mut self,
        peer: PeerId,
        task: TaskId,
        attempt: Attempt,
        grace_ns: u64,
        now: u64,
    ) {
        if let Some(guest) = self.guest_of(peer, task, attempt) {
            let mode = CancelMode::Running { grace_ns: Some(grace_ns) };
            let Parts { core, port, .. } = self.parts();
            let _ = core.cancel(guest.ours, mode, now, port);
        }
    }

    /// Cancels a peer's task that has not started, or says that it has.
    fn withdraw_guest(&mut self, peer: PeerId, task: TaskId, attempt: Attempt, now: u64) {
        let guest = self.guest_of(peer, task, attempt);
        let Parts { core, port, .. } = self.parts();
        let outcome = guest.map(|guest| core.cancel(guest.ours, CancelMode::Unstarted, now, port));
        if outcome != Some(CancelOutcome::Cancelled) {
            self.port_mut().say(peer, &Control::Kept { task, attempt });
        }
    }

    /// A peer is gone: nobody will ask for its tasks' results, and those that have not started need not.
    fn drop_guests(&mut self, places: Vec<u32>, now: u64) {
        for place in places {
            let Some(&guest) = self.guests().get(place) else { continue };
            if self.core().is_final(guest.ours) {
                self.dismiss(place);
            } else {
                let mode = CancelMode::Running { grace_ns: None };
                let Parts { core, port, .. } = self.parts();
                let _ = core.cancel(guest.ours, mode, now, port);
            }
        }
    }

    /// A peer has these answers: its tasks will not be named any more.
    fn release_confirmed(&mut self, peer: PeerId) {
        while let Some(place) = self.links_mut().get_mut(peer).and_then(Link::next_confirmed) {
            self.dismiss(place);
        }
    }

    fn dismiss(&mut self, place: u32) {
        let Some(guest) = self.parts().guests.leave(place) else { return };
        if let Some(link) = self.links_mut().get_mut(guest.peer)
            && link.guests.get(&guest.theirs) == Some(&place)
        {
            link.guests.remove(&guest.theirs);
        }
        self.release(guest.ours);
    }

    /// Tells a peer that its task is final here.
    fn tell_end(&mut self, task: TaskId, handle: u64) {
        let (_, word) = split_handle(handle);
        let place = word & !GUEST;
        // Its peer may be gone, and its place another one's, since it became final.
        let guest = self.guests().get(place).copied().filter(|guest| guest.ours == task);
        let Some(guest) = guest else { return };
        let link = self.links().get(guest.peer);
        if link.is_none_or(|link| link.epoch != guest.epoch) {
            return self.dismiss(place);
        }
        if self.names_result(task, place) {
            return;
        }
        if let Some(view) = self.core().task(task) {
            let (kind, loss) = end_of(view.has_started, view.outcome.as_ref());
            self.answer(&guest, (kind, loss), &[]);
        }
        if let Some(link) = self.links_mut().get_mut(guest.peer) {
            link.note_answer(place);
        }
    }

    /// Tells a peer what its task has returned, by name; gives the peer, if it still wants to know, and whether it will ask
    /// for the result.
    fn tell_named_end(
        &mut self,
        task: TaskId,
        place: u32,
        names: &[Option<BlobName>],
    ) -> Option<(PeerId, bool)> {
        let guest = self.guests().get(place).copied().filter(|guest| guest.ours == task)?;
        let link = self.links().get(guest.peer);
        if link.is_none_or(|link| link.epoch != guest.epoch) {
            self.dismiss(place);
            return None;
        }
        self.answer(&guest, (EndKind::Returned, None), names);
        self.links_mut().get_mut(guest.peer)?.note_answer(place);
        Some((guest.peer, guest.may_stay))
    }

    fn answer(
        &mut self,
        guest: &Guest,
        (end, loss): (EndKind, Option<LossFrame>),
        names: &[Option<BlobName>],
    ) {
        let Parts { core, port, .. } = self.parts();
        let scale = port.scale();
        let view = core.task(guest.ours);
        let tags = view.map(|view| view.tags).unwrap_or_default();
        let span = |span: Span| Span::from_ticks(scale.to_ns(span.ticks()));
        let message = AnswerMessage {
            task: guest.theirs,
            attempt: guest.attempt,
            end,
            started_ns: if tags.started_ticks == 0 { 0 } else { port.ns_at(tags.started_ticks) },
            claimed_before: span(tags.claimed_before),
            ran: span(tags.ran),
            published_after: span(tags.published_after),
            temperature: tags.temperature,
            payload: Parted::default(),
            loss,
        };
        let (links, _, store) = port.writing();
        let Some(link) = links.get_mut(guest.peer) else { return };
        message.write(&mut link.out, |out| match view.and_then(|view| view.outcome) {
            Some(Outcome::Returned(payload) | Outcome::Raised(payload)) => {
                store.put_result(payload, names, out);
            }
            Some(Outcome::TimedOut { raised: Some(payload), .. }) => {
                store.put_result(payload, names, out);
            }
            Some(Outcome::ContextFailed(failure)) => {
                Parted::put_plain(out, failure.text.as_bytes());
            }
            _ => Parted::put_plain(out, &[]),
        });
        links.has_outgoing = true;
    }
}

impl<H: LinkHome> GuestWork for H {}

/// What an outcome is in an answer.
fn end_of(has_started: bool, outcome: Option<&Outcome<'_>>) -> (EndKind, Option<LossFrame>) {
    let kind = match outcome {
        Some(Outcome::Returned(_)) => EndKind::Returned,
        Some(Outcome::Raised(_)) => EndKind::Raised,
        Some(Outcome::TimedOut { started: false, .. }) => EndKind::Expired,
        Some(Outcome::TimedOut { raised: Some(_), .. }) => EndKind::TimedOut,
        Some(Outcome::TimedOut { raised: None, .. }) => EndKind::Killed,
        Some(Outcome::NestedTooDeep) => EndKind::TooDeep,
        Some(Outcome::ContextFailed(_)) => EndKind::ContextFailed,
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
        // The engine here is given up, and with it what runs.
        Some(Outcome::Poisoned(reason)) if has_started => return given_up(reason),
        Some(Outcome::StartFailed(failure)) if has_started => return given_up(&failure.text),
        // Taken back, or the engine here can run nothing any more: somebody else may.
        _ => EndKind::Unstarted,
    };
    (kind, None)
}

/// What becomes of a task that may have begun where nothing goes on.
fn given_up(reason: &str) -> (EndKind, Option<LossFrame>) {
    let frame = LossFrame {
        cause: cause_word(LossCause::Node).0,
        number: 0,
        pid: 0,
        slot: SlotId(0),
        epoch: Epoch(0),
        oom: false,
        is_bystander: false,
        detail: reason.to_owned(),
    };
    (EndKind::Lost, Some(frame))
}

/// The options of a peer's task. Its budgets are its owner's, who counts every attempt: it is run once here, whatever
/// budgets tasks of this engine have.
fn guest_options(limits: Option<&TaskLimits>, own: Budgets, now: u64) -> Option<TaskOptions> {
    let once = TaskOptions { budgets: Some(Budgets::default()), ..TaskOptions::default() };
    let Some(limits) = limits else {
        return (own != Budgets::default()).then_some(once);
    };
    let time = |ns: u64| (ns != u64::MAX).then_some(ns);
    Some(TaskOptions {
        timeout_ns: time(limits.timeout_ns),
        deadline_ns: time(limits.deadline_left_ns).map(|left| now.saturating_add(left)),
        grace_ns: Some(limits.grace_ns),
        priority: limits.priority,
        context: limits.context,
        demand: limits.demand,
        ..once
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_run_once_whatever_the_host_would_repeat() {
        let own = Budgets { loss_retries: 2, ..Budgets::default() };
        let limits = TaskLimits {
            deadline_left_ns: u64::MAX,
            timeout_ns: 7,
            grace_ns: 1,
            priority: 0,
            context: Default::default(),
            demand: Default::default(),
        };
        for limits in [None, Some(&limits)] {
            let options = guest_options(limits, own, 0).expect("it is not run as others are");
            assert_eq!(options.budgets, Some(Budgets::default()));
        }
        assert!(guest_options(None, Budgets::default(), 0).is_none(), "nothing to say");
    }
}
