//! Answers of peers to tasks, and reports of peers about themselves.

use std::sync::Arc;

use gristmill_wire::{Attempt, Epoch, PeerId, Span, TaskId, WorkerState};

use super::table::PeerOffer;
use crate::finish::RunReport;
use crate::floor::NO_FLOOR;
use crate::machine::Phase;
use crate::outcome::{LossCause, LossReport};
use crate::port::Port;
use crate::task::{State, flag};
use crate::{
    AnswerOutcome, AttemptTimings, Core, NONE, Payload, StartFailure, Status, TaskContent,
};

/// Upper limit of the pause after a cancellation. During the pause a peer gets no replacements for the tasks that it has
/// given back (see `note_withdrawal`).
const SETTLING_MAX_NS: u64 = 50_000_000;

/// The outcome of a task at a peer.
#[derive(Debug)]
pub enum PeerEnd {
    /// The task returned; the payload is its result.
    Returned(Payload),
    /// The task returned, and its result stays at the peer. The payload names the result until it arrives here or can no
    /// longer be requested.
    Stayed(Payload),
    /// The task raised; the payload is the exception.
    Raised(Payload),
    /// The task was stopped on request while it ran.
    Stopped,
    /// The task's deadline passed before it started.
    Expired,
    /// The task exceeded its timeout; the payload is what it raised, absent if it was killed.
    TimedOut(Option<Payload>),
    /// The task has not started and will not start there: the peer gives it back.
    Unstarted,
    /// The task's worker died while it ran.
    Lost(LossReport),
    /// The task cannot start: every worker there runs tasks that wait for others, nested too deeply for one more, and no
    /// worker can be added.
    TooDeep,
    /// No worker at the peer can have the task's context, for this reason.
    ContextFailed(Box<str>),
}

/// A peer's answer to one task.
#[derive(Debug)]
pub struct PeerAnswer {
    /// The task that is answered.
    pub task: TaskId,
    /// The placement of the task that is answered.
    pub attempt: Attempt,
    /// The outcome.
    pub end: PeerEnd,
    /// Timings of the run, in this engine's clock.
    pub timings: AttemptTimings,
}

impl Core {
    /// Adds a peer that takes tasks, or updates what a joined peer offers.
    pub fn peer_joined(
        &mut self,
        peer: PeerId,
        epoch: Epoch,
        offer: PeerOffer,
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        self.set_offer(peer, epoch, offer, port.ticks());
        self.pump(port);
    }

    /// Records whether a peer's link is full.
    pub fn peer_congested(&mut self, peer: PeerId, is_full: bool, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(place) = self.joined_peer(peer) else { return };
        self.peers.get_mut(place).is_congested = is_full;
        self.peers.settle(place, &self.config);
        self.note_room(place);
        self.pump(port);
        self.pump_followers(place, port);
    }

    /// Records when a peer ends, in monotonic nanoseconds; `u64::MAX` if that is unknown. A draining peer gets tasks
    /// again.
    pub fn peer_lasts(&mut self, peer: PeerId, ends_at_ns: u64, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(place) = self.joined_peer(peer) else { return };
        let entry = self.peers.get_mut(place);
        entry.offer.ends_at_ns = ends_at_ns;
        entry.is_draining = false;
        self.peers.settle(place, &self.config);
        self.note_room(place);
        self.pump(port);
        self.pump_followers(place, port);
    }

    /// Marks a peer as draining: it gets no more tasks until [`Core::peer_lasts`] is called. It finishes or gives back
    /// the tasks that it has.
    pub fn peer_draining(&mut self, peer: PeerId, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(place) = self.joined_peer(peer) else { return };
        self.peers.get_mut(place).is_draining = true;
        self.peers.settle(place, &self.config);
        self.regain_trust();
        self.pump(port);
    }

    /// Returns true if a task, or its result, is with a peer in this placement.
    #[must_use]
    pub fn awaits(&self, peer: PeerId, task: TaskId, attempt: Attempt) -> bool {
        self.find_delegated(peer, task, attempt).is_some()
    }

    #[inline]
    pub(super) fn find_delegated(
        &self,
        peer: PeerId,
        task: TaskId,
        attempt: Attempt,
    ) -> Option<u32> {
        self.tasks.find(task).filter(|&index| {
            let task = &self.tasks[index];
            let is_there = matches!(task.state, State::Delegated | State::Returned);
            is_there && task.slot == peer.0 && task.attempt == attempt
        })
    }

    /// Processes a peer's answer to one task. Drops and counts an answer that fits no placement.
    #[inline]
    pub fn peer_answered(
        &mut self,
        peer: PeerId,
        answer: PeerAnswer,
        now: u64,
        port: &mut impl Port,
    ) -> AnswerOutcome {
        self.now = now;
        let Some(index) = self.find_delegated(peer, answer.task, answer.attempt) else {
            self.counts.stale_answers += 1;
            if let PeerEnd::Returned(payload)
            | PeerEnd::Stayed(payload)
            | PeerEnd::Raised(payload)
            | PeerEnd::TimedOut(Some(payload)) = &answer.end
            {
                self.drop_payload(payload);
            }
            return AnswerOutcome::Stale;
        };
        let place = usize::from(peer.0);
        let had_returned = self.tasks[index].state == State::Returned;
        self.note_whether_stuck(place, index, &answer.end);
        self.note_withdrawal(place, index, &answer.end, port);
        self.unlist(index);
        let run = self.peer_run((place, index), &answer, had_returned);
        // Dependants that wait at the peer may have started with the result.
        let has_dependants = self.tasks[index].first_dependant != NONE;
        match answer.end {
            _ if !had_returned => {}
            PeerEnd::Returned(_) => self.conclude(index),
            _ => self.retract(index, port),
        }
        let is_stopped = self.must_be_stopped(index)
            && (!has_dependants || matches!(answer.end, PeerEnd::Raised(_)));
        let outcome = match answer.end {
            PeerEnd::Returned(payload) | PeerEnd::Stayed(payload) | PeerEnd::Raised(payload)
                if is_stopped =>
            {
                self.drop_payload(&payload);
                self.finish_run(index, (Status::Cancelled, TaskContent::Empty), &run, port);
                AnswerOutcome::Finished(Status::Cancelled)
            }
            PeerEnd::Stayed(result) => {
                self.peers.get_mut(place).trust.confirm();
                self.stay((place, index), result)
            }
            PeerEnd::Returned(payload) => {
                self.peers.get_mut(place).trust.confirm();
                self.finish_run(
                    index,
                    (Status::Succeeded, TaskContent::Payload(payload)),
                    &run,
                    port,
                );
                AnswerOutcome::Finished(Status::Succeeded)
            }
            end => self.peer_answered_badly((place, index), end, &run, port),
        };
        if self.peers.get(place).followers.len > 0 {
            self.pump_followers(place, port);
        }
        self.pump(port);
        self.wind_down(port);
        outcome
    }

    /// Returns the report of a run, and counts the run unless it was counted when the task returned.
    fn peer_run(
        &mut self,
        (place, index): (usize, u32),
        answer: &PeerAnswer,
        is_known: bool,
    ) -> RunReport {
        let has_started = !matches!(
            answer.end,
            PeerEnd::Unstarted | PeerEnd::Expired | PeerEnd::TooDeep | PeerEnd::ContextFailed(_)
        );
        let has_returned = matches!(answer.end, PeerEnd::Returned(_) | PeerEnd::Stayed(_));
        let ran = if is_known { Span::default() } else { answer.timings.ran };
        self.counts.busy_ticks += ran.ticks();
        if has_started && !is_known {
            self.note_call_in_context(index, ran.ticks());
        }
        if !is_known && (has_returned || matches!(answer.end, PeerEnd::Raised(_))) {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let ran_ns = answer.timings.ran.ticks() as f32 * self.ns_per_tick;
            let function = self.tasks[index].function.0 as usize;
            self.functions[function].observe(ran_ns, self.config.run_min_ns);
        }
        if !crate::HAS_TAGS {
            return RunReport { has_started, ran: answer.timings.ran, ..RunReport::default() };
        }
        let timings = &answer.timings;
        let joined = self.peers.get(place).joined_ticks;
        let is_cold = joined > self.tasks[index].submitted_ticks;
        let worker_state = if is_cold { WorkerState::Cold } else { timings.worker_state };
        self.counts.worker_states[worker_state as usize] += u64::from(has_started && !is_known);
        RunReport {
            started_ticks: timings.started_ticks,
            claimed_before: timings.claimed_before,
            ran: timings.ran,
            published_after: timings.published_after,
            drained_after: timings.drained_after,
            worker_state,
            has_started,
        }
    }

    /// Marks a peer as stuck if it returns a task that this engine had not recalled or cancelled: none of its workers could
    /// start a task. A returned task that was recalled or cancelled does not change the mark. Any other answer clears it, as
    /// does the answer of the peer's only task.
    fn note_whether_stuck(&mut self, place: usize, index: u32, end: &PeerEnd) {
        let task = &self.tasks[index];
        let is_asked_for =
            task.has(flag::CANCELLED) || task.sequence > 0 || self.peers.raised.is_asked(index);
        let peer = self.peers.get_mut(place);
        let is_alone = peer.in_flight.len <= 1;
        let gives_back = matches!(end, PeerEnd::Unstarted);
        let is_stuck = peer.is_stuck || !(is_asked_for || peer.is_recalled);
        let was_stuck = std::mem::replace(&mut peer.is_stuck, gives_back && !is_alone && is_stuck);
        if peer.is_stuck != was_stuck {
            self.peers.settle(place, &self.config);
            self.note_room(place);
        }
    }

    /// Starts a pause for a peer that gives back a cancelled task. During the pause the peer gets no replacements,
    /// because the program often cancels the next task too, and that task would cost a round trip. Any answer ends the
    /// pause, except a task that comes back because of a cancellation or a recall.
    ///
    /// From the second cancelled task on, the engine also recalls as many tasks as the peer has given back, those that it
    /// would run last. So cancelling n tasks in order costs few round trips, and at most n tasks move back and forth.
    fn note_withdrawal(&mut self, place: usize, index: u32, end: &PeerEnd, port: &mut impl Port) {
        let has_come_back = matches!(end, PeerEnd::Unstarted);
        let is_withdrawn = has_come_back && self.tasks[index].has(flag::CANCELLED);
        // A program that waits for the answer to each cancellation sends the next cancellation a round trip later. The pause
        // therefore covers two round trips.
        let round_trip_ns = self.now.saturating_sub(self.peers.withdrawn_at);
        let pause_ns = self.config.recheck_ns.saturating_add(round_trip_ns.saturating_mul(2));
        let until = self.now.saturating_add(pause_ns.min(SETTLING_MAX_NS));
        let priority = self.priority(index);
        if is_withdrawn {
            self.extend_settling(until);
        }
        let peer = self.peers.get_mut(place);
        let was_settling = peer.settles_at > 0;
        if is_withdrawn {
            peer.settles_at = until;
            peer.settles_for = peer.settles_for.max(priority);
        } else if !has_come_back || !peer.is_recalled {
            if was_settling {
                self.let_settle(place);
            }
            return;
        }
        if peer.settles_at == 0 {
            return;
        }
        peer.settled += 1;
        // The task has left the peer, but the peer's counts still include it here.
        let waiting = peer.runnable().saturating_sub(peer.offer.workers.saturating_add(1));
        let count = peer.settled.min(waiting);
        if !was_settling {
            self.peers.settling.push(place);
            self.peers.settle(place, &self.config);
        } else if is_withdrawn && count > 0 && !peer.is_recalled {
            self.recall_from_peer(place, count, port);
        }
    }

    /// Ends the pause after cancellations for a peer: it gets tasks again.
    fn let_settle(&mut self, place: usize) {
        self.peers.settling.retain(|&one| one != place);
        let peer = self.peers.get_mut(place);
        peer.settles_at = 0;
        peer.settles_for = NO_FLOOR;
        peer.settled = 0;
        self.peers.settle(place, &self.config);
        self.note_room(place);
    }

    /// Returns when the first peer that gave back cancelled tasks gets tasks again; `None` if no task waits for that.
    pub(crate) fn next_settling(&self) -> Option<u64> {
        let is_wanted = self.waiting_count() > 0 || self.blocked > 0;
        let settling = self.peers.settling.iter().filter(|_| is_wanted);
        settling.map(|&place| self.settles_at(place)).min()
    }

    /// Returns when a peer's pause ends. A cancellation elsewhere extends it, because more cancellations may follow.
    fn settles_at(&self, place: usize) -> u64 {
        self.peers.get(place).settles_at.max(self.peers.settling_until)
    }

    /// Extends all pauses to at least `until`, because a task was cancelled.
    pub(crate) fn extend_settling(&mut self, until: u64) {
        self.peers.settling_until = self.peers.settling_until.max(until);
    }

    /// Ends the pauses of peers once no task was cancelled for a while.
    pub(crate) fn end_settling(&mut self) {
        let now = self.now;
        let settling = self.peers.settling.iter().copied();
        let over: Vec<usize> = settling.filter(|&place| self.settles_at(place) <= now).collect();
        over.into_iter().for_each(|place| self.let_settle(place));
    }

    fn peer_answered_badly(
        &mut self,
        (place, index): (usize, u32),
        end: PeerEnd,
        run: &RunReport,
        port: &mut impl Port,
    ) -> AnswerOutcome {
        let is_stopped = self.must_be_stopped(index);
        let is_its_own = match &end {
            PeerEnd::Lost(report) => {
                report.killed_for.is_none() && report.cause != LossCause::Node && !is_stopped
            }
            PeerEnd::TimedOut(_) => true,
            _ => false,
        };
        if is_its_own {
            // The loss or the timeout is due to the task itself: its function is no longer trusted to run on the worker of a
            // waiting parent (see `inline`).
            self.lose_right(index);
        }
        let (status, content) = match end {
            PeerEnd::Unstarted => {
                return if self.return_from_peer(index, port) {
                    AnswerOutcome::Requeued
                } else {
                    AnswerOutcome::Finished(Status::Cancelled)
                };
            }
            PeerEnd::Lost(report) if !is_stopped => {
                if report.killed_for.is_none() && report.cause != LossCause::Node {
                    self.note_death_at(place, port);
                }
                return self.lost_at_peer(index, report.into(), port);
            }
            PeerEnd::Stopped | PeerEnd::Lost(_) => (Status::Cancelled, TaskContent::Empty),
            PeerEnd::Expired => (Status::TimedOut, TaskContent::Empty),
            PeerEnd::TimedOut(raised) => {
                (Status::TimedOut, raised.map_or(TaskContent::Empty, TaskContent::Payload))
            }
            PeerEnd::TooDeep => (Status::Refused, TaskContent::TooDeep),
            PeerEnd::ContextFailed(text) => {
                let failure = StartFailure { text, permanent: true, is_expiry: false };
                let failure = Arc::new(failure);
                self.context_failed_elsewhere(index, &failure);
                (Status::Refused, TaskContent::Context(failure))
            }
            // The caller handles `Returned` and `Stayed`, so this is always `Raised`.
            PeerEnd::Returned(raised) | PeerEnd::Stayed(raised) | PeerEnd::Raised(raised) => {
                (Status::Failed, TaskContent::Payload(raised))
            }
        };
        let is_retried = match status {
            _ if is_stopped => false,
            Status::TimedOut if run.has_started => self.charge_timeout(index),
            Status::Failed => self.charge_retry(index),
            _ => false,
        };
        if is_retried {
            if let TaskContent::Payload(payload) = &content {
                self.drop_payload(payload);
            }
            let unfinished = self.tasks[index].sequence;
            self.begin_attempt(index);
            self.place_again(index, unfinished, port);
            return AnswerOutcome::Requeued;
        }
        self.finish_run(index, (status, content), run, port);
        AnswerOutcome::Finished(status)
    }

    /// Takes back a task that a peer has not started. Returns true if the task will be placed again.
    pub(crate) fn return_from_peer(&mut self, index: u32, port: &mut impl Port) -> bool {
        let unfinished = self.tasks[index].sequence;
        let cancels = matches!(self.phase, Phase::Closing { cancels: true });
        if unfinished == 0 || cancels || self.tasks[index].has(flag::CANCELLED) {
            return self.return_unstarted(index, port);
        }
        self.begin_attempt(index);
        self.place_again(index, unfinished, port);
        true
    }

    /// Returns true if a task must end even if it has started. A task that was only asked back (flag `RECALLED`, which
    /// concerns this task alone, unlike `Peer::is_recalled`) need not.
    pub(crate) fn must_be_stopped(&self, index: u32) -> bool {
        let task = &self.tasks[index];
        task.has(flag::CANCELLED) && !task.has(flag::RECALLED)
    }

    /// Charges a loss to a task whose worker died at a peer, or whose peer was lost. Places the task again if its budget
    /// allows it, and ends it otherwise.
    pub(crate) fn lost_at_peer(
        &mut self,
        index: u32,
        report: std::sync::Arc<LossReport>,
        port: &mut impl Port,
    ) -> AnswerOutcome {
        if report.cause != LossCause::Node {
            self.counts.losses += 1;
        }
        if self.charge_loss(index, report.cause, report.killed_for) {
            let unfinished = self.tasks[index].sequence;
            self.begin_attempt(index);
            self.place_again(index, unfinished, port);
            return AnswerOutcome::Requeued;
        }
        let run = RunReport { has_started: true, ..RunReport::default() };
        self.finish_run(index, (Status::Lost, TaskContent::Loss(report)), &run, port);
        AnswerOutcome::Finished(Status::Lost)
    }
}

impl AttemptTimings {
    /// Returns the timings of a run of which only the length is known.
    #[must_use]
    pub fn of_run(ran: Span) -> Self {
        Self { ran, ..Self::default() }
    }
}
