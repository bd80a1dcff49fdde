//! Inbound tasks: tasks that a peer has sent, which run here and are answered there.

use gristmill_core::{
    AttemptTimings, Budgets, CancelMode, CancelOutcome, LossCause, Origin, Payload, Submission,
    TaskOptions, TaskOutcome,
};
use gristmill_wire::peer::{
    AnswerMessage, Control, EndKind, LossFrame, ParentResult, Parted, TaskLimits, TaskMessage,
};
use gristmill_wire::{
    Attempt, BlobName, ContextId, Epoch, FunctionId, PeerId, SlotId, Span, TaskId,
};

use super::answers::cause_word;
use super::contexts::ContextWork;
use super::definitions::DefinitionWork;
use super::home::{EngineParts, LinkHome, LinkPort, PayloadStore};
use super::link::{Link, LinkError, LinkNames};
use super::sending::{ENVELOPE_SIZE, Sending};
use super::size_errors::{SizeExcess, large_result, no_memory};
use crate::client_port::{handle, split_handle};

/// A peer's task, from its arrival until its peer has the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct InboundTask {
    peer: PeerId,
    epoch: Epoch,
    /// Id of the task at its peer.
    theirs: TaskId,
    attempt: Attempt,
    /// Id of the task here.
    ours: TaskId,
    /// True if the result may stay here until the peer requests it.
    may_stay: bool,
}

/// Id that stands for no task.
const NO_TASK: TaskId = TaskId::from_word(u64::MAX);
/// Bit of a handle's upper half that marks an inbound task, whose index is the rest. Without it, the rest leads to the worker
/// of a nested task.
const INBOUND_FLAG: u32 = 1 << 31;

/// Tasks of peers that are not final, or whose answers their peers have not confirmed: until then other tasks may name them.
#[derive(Debug, Default)]
pub struct InboundTasks {
    entries: Vec<Option<InboundTask>>,
    free: Vec<u32>,
    /// True if no more tasks are accepted.
    pub is_draining: bool,
}

impl InboundTasks {
    /// Returns the number of inbound tasks.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Returns the peer of the task that a handle stands for, and the task's id and placement there.
    #[must_use]
    pub fn named(&self, handle: u64) -> Option<(PeerId, TaskId, Attempt)> {
        let inbound =
            self.get(split_handle(handle).1 & !INBOUND_FLAG).filter(|_| is_inbound(handle))?;
        Some((inbound.peer, inbound.theirs, inbound.attempt))
    }

    /// Reserves an index for a task; its entry is filled when the task has been accepted.
    fn reserve(&mut self) -> u32 {
        if let Some(place) = self.free.pop() {
            return place;
        }
        self.entries.push(None);
        let place = u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX);
        assert!(place < INBOUND_FLAG, "fewer tasks than 2^31 are outstanding");
        place
    }

    fn get(&self, place: u32) -> Option<&InboundTask> {
        self.entries.get(place as usize)?.as_ref()
    }

    /// Removes the task at an index and returns it.
    fn leave(&mut self, place: u32) -> Option<InboundTask> {
        let inbound = self.entries.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(inbound)
    }
}

/// Returns true if a handle stands for an inbound task.
#[inline]
#[must_use]
pub const fn is_inbound(handle: u64) -> bool {
    split_handle(handle).1 & INBOUND_FLAG != 0
}

/// Dependencies that came with an inbound task.
#[derive(Debug, Default)]
pub(super) struct InboundDependencies {
    /// Tasks here whose results the inbound task needs, followed by the promises that it waits for.
    parents: Vec<TaskId>,
    /// Those of the parents that were made for the inbound task.
    values: Vec<TaskId>,
}

/// Methods that accept inbound tasks and answer them.
pub(super) trait InboundWork: LinkHome {
    /// Takes in one task; answers at once that the task has not started if this engine does not accept it.
    fn take_task(&mut self, peer: PeerId, body: &[u8], now: u64) -> Result<(), LinkError> {
        let mut message = TaskMessage::read(body)?;
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let (theirs, attempt, epoch) = (message.task, message.attempt, link.epoch);
        // If two tasks had one id, only the second would be known, and the first would outlive its peer.
        let before = link.inbound.get(&theirs).and_then(|&place| self.inbound().get(place));
        if before.is_some_and(|inbound| !self.core().is_final(inbound.ours)) {
            return Err(LinkError::Again(theirs));
        }
        let function = self.port().peer_function(peer, message.function);
        let Some(function) = function else {
            return self.fail_without_function(peer, (theirs, attempt), message.function);
        };
        let named = message.limits.map_or(ContextId(0), |limits| limits.context);
        if let Some(reason) = self.context_refusal(peer, named) {
            return self.fail_task(peer, (theirs, attempt), &no_memory(&reason));
        }
        let context = self.take_named(peer, named)?;
        if let Some(context) = context {
            let priority = message.limits.as_ref().map_or(0, |limits| limits.priority);
            self.parts().core.count_inbound((peer, context), priority);
        }
        if let (Some(limits), Some(context)) = (&mut message.limits, context) {
            limits.context = context;
        }
        let place = self.parts().inbound.reserve();
        let accepted = if self.inbound().is_draining || context.is_none() {
            None
        } else {
            self.accept_inbound(peer, &message, (function, place), now)
        };
        if let Some(context) = context.filter(|_| named.own().is_some()) {
            self.release_context(context, now);
        }
        let ours = accepted.unwrap_or(NO_TASK);
        let inbound =
            InboundTask { peer, epoch, theirs, attempt, ours, may_stay: message.may_stay };
        self.parts().inbound.entries[place as usize] = Some(inbound);
        if accepted.is_none() {
            // No more tasks are accepted, or the task names something that is not here, or there is no memory for it: another
            // engine may be able to run it. The task stays an inbound task until its peer has the answer, so that this engine
            // does not leave before.
            let _ = self.answer(&inbound, (EndKind::Unstarted, None), &[]);
        }
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.inbound.insert(theirs, place);
            if accepted.is_none() {
                link.note_answer(place);
            }
        }
        Ok(())
    }

    /// Submits a peer's task to the task graph; returns its id here, or `None` if it cannot run here.
    fn accept_inbound(
        &mut self,
        peer: PeerId,
        message: &TaskMessage<'_>,
        (function, place): (FunctionId, u32),
        now: u64,
    ) -> Option<TaskId> {
        let mut taken = InboundDependencies::default();
        let payload = self.take_payloads(peer, message, &mut taken);
        let context = message.limits.as_ref().map_or_else(Default::default, |one| one.context);
        taken.parents.extend(self.take_promises(peer, context));
        let options = inbound_options(message.limits.as_ref(), self.core().budgets(), now);
        // An engine that shares only its own nested tasks never delegates an inbound task.
        let origin = if self.links().is_lease { Origin::External } else { Origin::Peer(peer) };
        let submitted = payload.and_then(|payload| {
            let submission = Submission {
                function,
                payload,
                handle: handle(function, place | INBOUND_FLAG),
                submitted_ticks: self.port().now_ticks(),
                parents: &taken.parents,
                options: options.as_ref(),
                origin,
            };
            let EngineParts { core, port, .. } = self.parts();
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

    /// Makes the results that a task needs tasks here, and returns the task's arguments; `None` if any of these cannot be had.
    fn take_payloads(
        &mut self,
        peer: PeerId,
        message: &TaskMessage<'_>,
        taken: &mut InboundDependencies,
    ) -> Option<Payload> {
        for parent in message.parents.clone() {
            match parent.ok()? {
                ParentResult::Of(task, attempt) => {
                    taken.parents.push(self.inbound_of(peer, task, attempt)?.ours);
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

    /// Returns a peer's task by its id there.
    fn inbound_of(&self, peer: PeerId, task: TaskId, attempt: Attempt) -> Option<InboundTask> {
        let place = *self.links().get(peer)?.inbound.get(&task)?;
        self.inbound().get(place).filter(|inbound| inbound.attempt == attempt).copied()
    }

    /// Answers a peer's task whose function is not here.
    ///
    /// # Errors
    /// [`LinkError::Undefined`]: the peer has not defined the function; [`LinkError::Again`].
    fn fail_without_function(
        &mut self,
        peer: PeerId,
        task: (TaskId, Attempt),
        function: FunctionId,
    ) -> Result<(), LinkError> {
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let reason = link.functions.refusal(function).ok_or(LinkError::Undefined(function))?;
        self.fail_task(peer, task, &no_memory(&reason))
    }

    /// Answers a peer's task, of which only the id is known, with an exception: it does not run.
    ///
    /// # Errors
    /// [`LinkError::Again`]: the peer has sent the task before.
    fn fail_task(
        &mut self,
        peer: PeerId,
        (theirs, attempt): (TaskId, Attempt),
        raised: &[u8],
    ) -> Result<(), LinkError> {
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let epoch = link.epoch;
        let before = link.inbound.get(&theirs).and_then(|&place| self.inbound().get(place));
        if before.is_some_and(|inbound| !self.core().is_final(inbound.ours)) {
            return Err(LinkError::Again(theirs));
        }
        let EngineParts { port, inbound, .. } = self.parts();
        let place = inbound.reserve();
        let entry = InboundTask { peer, epoch, theirs, attempt, ours: NO_TASK, may_stay: false };
        inbound.entries[place as usize] = Some(entry);
        let timings = AttemptTimings::default();
        let message = AnswerMessage {
            task: theirs,
            attempt,
            end: EndKind::Raised,
            started_ns: 0,
            claimed_before: timings.claimed_before,
            ran: timings.ran,
            published_after: timings.published_after,
            worker_state: timings.worker_state,
            payload: Parted::default(),
            loss: None,
        };
        let links = port.links_mut();
        let Some(link) = links.get_mut(peer) else { return Ok(()) };
        message.write(&mut link.out, |out| Parted::put_plain(out, raised));
        link.inbound.insert(theirs, place);
        link.note_answer(place);
        links.has_outgoing = true;
        Ok(())
    }

    /// Cancels a peer's task, even if the task runs.
    fn stop_inbound(
        &mut self,
        peer: PeerId,
        task: TaskId,
        attempt: Attempt,
        grace_ns: u64,
        now: u64,
    ) {
        if let Some(inbound) = self.inbound_of(peer, task, attempt) {
            let mode = CancelMode::Running { grace_ns: Some(grace_ns) };
            let EngineParts { core, port, .. } = self.parts();
            let _ = core.cancel(inbound.ours, mode, now, port);
        }
    }

    /// Cancels a peer's task that has not started; otherwise tells the peer that the task stays here.
    fn withdraw_inbound(&mut self, peer: PeerId, task: TaskId, attempt: Attempt, now: u64) {
        let inbound = self.inbound_of(peer, task, attempt);
        let EngineParts { core, port, .. } = self.parts();
        let outcome =
            inbound.map(|inbound| core.cancel(inbound.ours, CancelMode::Unstarted, now, port));
        if outcome != Some(CancelOutcome::Cancelled) {
            self.port_mut().say(peer, &Control::Kept { task, attempt });
        }
    }

    /// Drops the tasks of a peer that is gone, whose results are not needed any more: releases the final ones and cancels the
    /// others.
    fn drop_inbound(&mut self, places: Vec<u32>, now: u64) {
        for place in places {
            let Some(&inbound) = self.inbound().get(place) else { continue };
            if self.core().is_final(inbound.ours) {
                self.release_inbound(place);
            } else {
                let mode = CancelMode::Running { grace_ns: None };
                let EngineParts { core, port, .. } = self.parts();
                let _ = core.cancel(inbound.ours, mode, now, port);
            }
        }
    }

    /// Releases the tasks whose answers a peer has confirmed: they will not be named any more.
    fn release_confirmed(&mut self, peer: PeerId) {
        while let Some(place) = self.links_mut().get_mut(peer).and_then(Link::next_confirmed) {
            self.release_inbound(place);
        }
    }

    fn release_inbound(&mut self, place: u32) {
        let Some(inbound) = self.parts().inbound.leave(place) else { return };
        if let Some(link) = self.links_mut().get_mut(inbound.peer)
            && link.inbound.get(&inbound.theirs) == Some(&place)
        {
            link.inbound.remove(&inbound.theirs);
        }
        self.release(inbound.ours);
    }

    /// Answers a peer's task that is final here.
    fn tell_end(&mut self, task: TaskId, handle: u64) {
        let (_, word) = split_handle(handle);
        let place = word & !INBOUND_FLAG;
        // Since the task became final, its peer may have left, and another task may have its index.
        let inbound = self.inbound().get(place).copied().filter(|inbound| inbound.ours == task);
        let Some(inbound) = inbound else { return };
        let link = self.links().get(inbound.peer);
        if link.is_none_or(|link| link.epoch != inbound.epoch) {
            return self.release_inbound(place);
        }
        if self.names_result(task, place) {
            return;
        }
        if let Some(view) = self.core().task(task) {
            let (kind, loss) = end_of(view.has_started, view.outcome.as_ref());
            let _ = self.answer(&inbound, (kind, loss), &[]);
        }
        if let Some(link) = self.links_mut().get_mut(inbound.peer) {
            link.note_answer(place);
        }
    }

    /// Answers a peer's task with a result by name. Returns the peer, if it is still there and was sent the result, and
    /// true if the peer allows that the result stays here until it requests it.
    fn tell_named_end(
        &mut self,
        task: TaskId,
        place: u32,
        names: &[Option<BlobName>],
    ) -> Option<(PeerId, bool)> {
        let inbound = self.inbound().get(place).copied().filter(|inbound| inbound.ours == task)?;
        let link = self.links().get(inbound.peer);
        if link.is_none_or(|link| link.epoch != inbound.epoch) {
            self.release_inbound(place);
            return None;
        }
        let answered = self.answer(&inbound, (EndKind::Returned, None), names);
        self.links_mut().get_mut(inbound.peer)?.note_answer(place);
        (answered == Answered::Whole).then_some((inbound.peer, inbound.may_stay))
    }

    /// Answers a peer's task. A result that is too large for the peer becomes an exception.
    fn answer(
        &mut self,
        inbound: &InboundTask,
        (end, loss): (EndKind, Option<LossFrame>),
        names: &[Option<BlobName>],
    ) -> Answered {
        let EngineParts { core, port, .. } = self.parts();
        let scale = port.scale();
        let view = core.task(inbound.ours);
        let timings = view.map(|view| view.timings).unwrap_or_default();
        let span = |span: Span| Span::from_ticks(scale.to_ns(span.ticks()));
        let message = AnswerMessage {
            task: inbound.theirs,
            attempt: inbound.attempt,
            end,
            started_ns: if timings.started_ticks == 0 {
                0
            } else {
                port.ns_at(timings.started_ticks)
            },
            claimed_before: span(timings.claimed_before),
            ran: span(timings.ran),
            published_after: span(timings.published_after),
            worker_state: timings.worker_state,
            payload: Parted::default(),
            loss,
        };
        let (links, _, store) = port.writing();
        links.has_outgoing = true;
        let is_lease = links.is_lease;
        let Some(link) = links.get_mut(inbound.peer) else { return Answered::Whole };
        let outcome = view.and_then(|view| view.outcome);
        let payload = outcome.and_then(payload_of);
        let size = payload.map_or(0, |payload| store.result_size(payload, names));
        if let Err(excess) = link.check(ENVELOPE_SIZE.saturating_add(size)) {
            let raised = large_answer(link, is_lease, &excess);
            let end = if end == EndKind::TimedOut { end } else { EndKind::Raised };
            let message = AnswerMessage { end, ..message };
            message.write(&mut link.out, |out| Parted::put_plain(out, &raised));
            return Answered::TooLarge;
        }
        message.write(&mut link.out, |out| match (payload, outcome) {
            (Some(payload), _) => store.put_result(payload, names, out),
            (None, Some(TaskOutcome::ContextFailed(failure))) => {
                Parted::put_plain(out, failure.text.as_bytes());
            }
            _ => Parted::put_plain(out, &[]),
        });
        Answered::Whole
    }
}

impl<H: LinkHome> InboundWork for H {}

/// The content of an answer.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// The end of the task, with its result if there is one.
    Whole,
    /// An exception instead of a result, which is too large for the peer.
    TooLarge,
}

/// Returns the exception that a peer gets instead of a result.
#[cold]
fn large_answer(link: &Link, is_lease: bool, excess: &SizeExcess<'_>) -> Vec<u8> {
    let LinkNames { theirs, ours } = &link.names;
    let (own, receiver) = match is_lease {
        true => (format!("node {ours}"), "the program".to_owned()),
        false => ("the program".to_owned(), format!("node {theirs}")),
    };
    large_result(&format!("from {own} is too large for {receiver}"), excess)
}

/// Returns the value or the exception that a task has ended with.
const fn payload_of(outcome: TaskOutcome<'_>) -> Option<&Payload> {
    match outcome {
        TaskOutcome::Returned(payload)
        | TaskOutcome::Raised(payload)
        | TaskOutcome::TimedOut { raised: Some(payload), .. } => Some(payload),
        _ => None,
    }
}

/// Returns the end that an answer reports for an outcome, and the loss if it is one.
fn end_of(has_started: bool, outcome: Option<&TaskOutcome<'_>>) -> (EndKind, Option<LossFrame>) {
    let kind = match outcome {
        Some(TaskOutcome::Returned(_)) => EndKind::Returned,
        Some(TaskOutcome::Raised(_)) => EndKind::Raised,
        Some(TaskOutcome::TimedOut { started: false, .. }) => EndKind::Expired,
        Some(TaskOutcome::TimedOut { raised: Some(_), .. }) => EndKind::TimedOut,
        Some(TaskOutcome::TimedOut { raised: None, .. }) => EndKind::Killed,
        Some(TaskOutcome::NestedTooDeep) => EndKind::TooDeep,
        Some(TaskOutcome::ContextFailed(_)) => EndKind::ContextFailed,
        Some(TaskOutcome::Lost(report)) => {
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
                loading: report.loading.to_string(),
            };
            return (EndKind::Lost, Some(frame));
        }
        Some(TaskOutcome::Cancelled) if has_started => EndKind::Stopped,
        // The engine here is given up, and the tasks that run with it.
        Some(TaskOutcome::Poisoned(reason)) if has_started => return given_up(reason),
        Some(TaskOutcome::StartFailed(failure)) if has_started => return given_up(&failure.text),
        // The task was taken back, or the engine here can run nothing any more: another engine may run it.
        _ => EndKind::Unstarted,
    };
    (kind, None)
}

/// Returns the end of a task that may have started in an engine that was given up.
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
        loading: String::new(),
    };
    (EndKind::Lost, Some(frame))
}

/// Returns the options of a peer's task. The owner of the task keeps its budgets and counts every attempt. The task is
/// therefore run once here, whatever budgets this engine gives its own tasks.
fn inbound_options(limits: Option<&TaskLimits>, own: Budgets, now: u64) -> Option<TaskOptions> {
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
            let options = inbound_options(limits, own, 0).expect("it is not run as others are");
            assert_eq!(options.budgets, Some(Budgets::default()));
        }
        assert!(inbound_options(None, Budgets::default(), 0).is_none(), "nothing to say");
    }
}
