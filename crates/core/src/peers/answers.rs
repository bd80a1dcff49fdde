//! What peers answer, and what they say of themselves.

use std::sync::Arc;

use gristmill_wire::{Attempt, Epoch, PeerId, Span, TaskId, Temperature};

use super::table::PeerOffer;
use crate::finish::Run;
use crate::machine::Phase;
use crate::outcome::{LossCause, LossReport};
use crate::port::Port;
use crate::task::{State, flag};
use crate::{AnswerOutcome, Content, Core, Payload, StartFailure, Status, Tags};

/// How a task ended at a peer.
#[derive(Debug)]
pub enum PeerEnd {
    /// It returned, and this is here.
    Returned(Payload),
    /// It returned, and this names what is there, until it comes here or nobody can ask for it any more.
    Stayed(Payload),
    /// It raised.
    Raised(Payload),
    /// It was stopped on request while it ran.
    Stopped,
    /// Its deadline passed before it started.
    Expired,
    /// It ran out of time; what it raised, unless it was killed.
    TimedOut(Option<Payload>),
    /// It has not started and will not: it comes back.
    Unstarted,
    /// Its worker died while it ran.
    Lost(LossReport),
    /// It waits for a place below too many tasks that wait themselves.
    TooDeep,
    /// Nobody there can have its context, for this reason.
    ContextFailed(Box<str>),
}

/// A peer's answer to one task.
#[derive(Debug)]
pub struct PeerAnswer {
    /// Which.
    pub task: TaskId,
    /// Which placement of it.
    pub attempt: Attempt,
    /// How it ended.
    pub end: PeerEnd,
    /// When it ran, in this side's clock.
    pub tags: Tags,
}

impl Core {
    /// Tells that a peer takes tasks.
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

    /// Tells that a peer's link takes more again, or takes no more.
    pub fn peer_congested(&mut self, peer: PeerId, is_full: bool, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(place) = self.joined_peer(peer) else { return };
        self.peers.get_mut(place).is_congested = is_full;
        self.peers.settle(place, &self.config);
        self.demands.search.grow(place);
        self.pump(port);
        self.pump_followers(place, port);
    }

    /// Tells when a peer is over from now on, monotonic nanoseconds; `u64::MAX` is not known. One that drained takes tasks
    /// again.
    pub fn peer_lasts(&mut self, peer: PeerId, ends_at_ns: u64, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(place) = self.joined_peer(peer) else { return };
        let entry = self.peers.get_mut(place);
        entry.offer.ends_at_ns = ends_at_ns;
        entry.is_draining = false;
        self.peers.settle(place, &self.config);
        self.demands.search.grow(place);
        self.pump(port);
        self.pump_followers(place, port);
    }

    /// Tells that a peer is to get nothing more, unless it lasts longer: what it has it finishes or gives back.
    pub fn peer_draining(&mut self, peer: PeerId, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(place) = self.joined_peer(peer) else { return };
        self.peers.get_mut(place).is_draining = true;
        self.peers.settle(place, &self.config);
        self.regain_trust();
        self.pump(port);
    }

    /// Whether a task, or its result, is with a peer, in this placement.
    #[must_use]
    pub fn awaits(&self, peer: PeerId, task: TaskId, attempt: Attempt) -> bool {
        self.find_away(peer, task, attempt).is_some()
    }

    #[inline]
    pub(super) fn find_away(&self, peer: PeerId, task: TaskId, attempt: Attempt) -> Option<u32> {
        self.tasks.find(task).filter(|&index| {
            let task = &self.tasks[index];
            let is_there = matches!(task.state, State::Away | State::Returned);
            is_there && task.slot == peer.0 && task.attempt == attempt
        })
    }

    /// Takes in a peer's answer to one task. One that fits no placement is dropped and counted.
    #[inline]
    pub fn peer_answered(
        &mut self,
        peer: PeerId,
        answer: PeerAnswer,
        now: u64,
        port: &mut impl Port,
    ) -> AnswerOutcome {
        self.now = now;
        let Some(index) = self.find_away(peer, answer.task, answer.attempt) else {
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
        self.unlist(index);
        let run = self.peer_run((place, index), &answer, had_returned);
        match answer.end {
            _ if !had_returned => {}
            PeerEnd::Returned(_) => self.conclude(index),
            _ => self.retract(index, port),
        }
        let outcome = match answer.end {
            PeerEnd::Stayed(result) => {
                self.peers.get_mut(place).trust.confirm();
                self.stay((place, index), result)
            }
            PeerEnd::Returned(payload) => {
                self.peers.get_mut(place).trust.confirm();
                self.finish_run(index, (Status::Succeeded, Content::Payload(payload)), &run, port);
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

    /// Learns from a run, unless that was done when it returned.
    fn peer_run(
        &mut self,
        (place, index): (usize, u32),
        answer: &PeerAnswer,
        is_known: bool,
    ) -> Run {
        let has_started = !matches!(
            answer.end,
            PeerEnd::Unstarted | PeerEnd::Expired | PeerEnd::TooDeep | PeerEnd::ContextFailed(_)
        );
        let has_returned = matches!(answer.end, PeerEnd::Returned(_) | PeerEnd::Stayed(_));
        let ran = if is_known { Span::default() } else { answer.tags.ran };
        self.counts.busy_ticks += ran.ticks();
        if has_started && !is_known {
            self.note_call_in_context(index, ran.ticks());
        }
        if !is_known && (has_returned || matches!(answer.end, PeerEnd::Raised(_))) {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let ran_ns = answer.tags.ran.ticks() as f32 * self.ns_per_tick;
            let function = self.tasks[index].function.0 as usize;
            self.functions[function].observe(ran_ns, self.config.run_min_ns);
        }
        if !crate::HAS_TAGS {
            return Run { has_started, ran: answer.tags.ran, ..Run::default() };
        }
        let tags = &answer.tags;
        let joined = self.peers.get(place).joined_ticks;
        let is_cold = joined > self.tasks[index].submitted_ticks;
        let temperature = if is_cold { Temperature::Cold } else { tags.temperature };
        self.counts.temperatures[temperature as usize] += u64::from(has_started && !is_known);
        Run {
            started_ticks: tags.started_ticks,
            claimed_before: tags.claimed_before,
            ran: tags.ran,
            published_after: tags.published_after,
            drained_after: tags.drained_after,
            temperature,
            has_started,
        }
    }

    /// A peer that gives a task back of its own accord has nobody who could begin another one, until it answers something.
    fn note_whether_stuck(&mut self, place: usize, index: u32, end: &PeerEnd) {
        let task = &self.tasks[index];
        let is_asked_for = task.has(flag::CANCELLED) || task.sequence > 0;
        let peer = self.peers.get_mut(place);
        let is_alone = peer.in_flight.len <= 1;
        let gives_back = matches!(end, PeerEnd::Unstarted);
        let is_stuck = peer.is_stuck || !(is_asked_for || peer.is_recalled);
        let was_stuck = std::mem::replace(&mut peer.is_stuck, gives_back && !is_alone && is_stuck);
        if peer.is_stuck != was_stuck {
            self.peers.settle(place, &self.config);
            self.demands.search.grow(place);
        }
    }

    fn peer_answered_badly(
        &mut self,
        (place, index): (usize, u32),
        end: PeerEnd,
        run: &Run,
        port: &mut impl Port,
    ) -> AnswerOutcome {
        let is_stopped = self.is_to_be_stopped(index);
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
            PeerEnd::Stopped | PeerEnd::Lost(_) => (Status::Cancelled, Content::Empty),
            PeerEnd::Expired => (Status::TimedOut, Content::Empty),
            PeerEnd::TimedOut(raised) => {
                (Status::TimedOut, raised.map_or(Content::Empty, Content::Payload))
            }
            PeerEnd::TooDeep => (Status::Refused, Content::TooDeep),
            PeerEnd::ContextFailed(text) => {
                let failure = StartFailure { text, permanent: true, is_expiry: false };
                let failure = Arc::new(failure);
                self.context_failed_elsewhere(index, &failure);
                (Status::Refused, Content::Context(failure))
            }
            PeerEnd::Returned(raised) | PeerEnd::Stayed(raised) | PeerEnd::Raised(raised) => {
                (Status::Failed, Content::Payload(raised))
            }
        };
        let is_retried = match status {
            _ if is_stopped => false,
            Status::TimedOut if run.has_started => self.charge_timeout(index),
            Status::Failed => self.charge_retry(index),
            _ => false,
        };
        if is_retried {
            if let Content::Payload(payload) = &content {
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

    /// Takes a task back that a peer has not started; says whether it will be placed again.
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

    /// Whether somebody wants a task's end even if it runs; one that is only asked back may have run.
    pub(crate) fn is_to_be_stopped(&self, index: u32) -> bool {
        let task = &self.tasks[index];
        task.has(flag::CANCELLED) && !task.has(flag::RECALLED)
    }

    /// Ends or repeats a task whose worker died at a peer, or whose peer was lost.
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
        let run = Run { has_started: true, ..Run::default() };
        self.finish_run(index, (Status::Lost, Content::Loss(report)), &run, port);
        AnswerOutcome::Finished(Status::Lost)
    }
}

/// A run that nobody timed.
impl Tags {
    /// Tags of a run that is known by its length alone.
    #[must_use]
    pub fn of_run(ran: Span) -> Self {
        Self { ran, ..Self::default() }
    }
}
