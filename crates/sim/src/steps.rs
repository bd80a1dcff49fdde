//! Steps of workers, one small action at a time.

use gristmill_core::{CallProgress, Payload, SlotId};
use gristmill_wire::{TaskFlags, Verdict};

use crate::memory::value_of;
use crate::observed::Begun;
use crate::plan::Plan;
use crate::random::SeededRandom;
use crate::worker::{Course, Frame, SimResultRecord};
use crate::world::{SimRun, SimWorld};

impl SimWorld {
    /// Lets a worker do one thing; returns whether there was one.
    pub fn work(&mut self, slot: usize, plan: &Plan, random: &mut SeededRandom) -> bool {
        if !self.workers[slot].is_up || self.workers[slot].dead.is_some() {
            return false;
        }
        if self.workers[slot].published < self.workers[slot].results.len() && random.chance(40) {
            self.workers[slot].published += 1;
            return true;
        }
        let has_moved = if self.workers[slot].batch.is_some() {
            self.next_call(slot, plan, random);
            true
        } else if self.workers[slot].claimed.is_some() {
            self.take_up(slot, plan, random);
            true
        } else {
            self.go_on(slot, plan, random) || self.claim(slot)
        };
        let worker = &mut self.workers[slot];
        if !has_moved && worker.published < worker.results.len() {
            worker.published = worker.results.len();
            return true;
        }
        has_moved
    }

    fn claim(&mut self, slot: usize) -> bool {
        let worker = &mut self.workers[slot];
        if !worker.may_claim() {
            return false;
        }
        let record = worker.ring.pop_front().expect("there is one");
        worker.progress.claimed = record.sequence + 1;
        worker.claimed = Some((record, false));
        true
    }

    /// Reads the revoked word of the claimed record, or begins the record if the word was not set.
    fn take_up(&mut self, slot: usize, plan: &Plan, random: &mut SeededRandom) {
        let now = self.now;
        let worker = &mut self.workers[slot];
        let (record, is_accepted) = worker.claimed.take().expect("something is claimed");
        if is_accepted && !record.calls.is_empty() {
            worker.progress.started = record.sequence + 1;
            worker.progress.started_at_ns = now;
            worker.batch = Some((Frame::new(record, now), false));
            return;
        }
        if is_accepted {
            worker.progress.started = record.sequence + 1;
            worker.progress.started_at_ns = now;
            self.start(slot, Frame::new(record, now), plan, random);
            return;
        }
        let is_nested = record.flags.has(TaskFlags::NESTED) && worker.stack.len() < plan.stack_max;
        let is_below = worker.stack.is_empty() && !worker.admits(record.priority);
        let refusal = if record.revoked || is_below {
            Some(Verdict::Skipped)
        } else if !worker.stack.is_empty() && !is_nested {
            Some(Verdict::Declined)
        } else if record.deadline_ns != 0 && record.deadline_ns <= now {
            Some(Verdict::Expired)
        } else {
            None
        };
        let Some(verdict) = refusal else {
            worker.claimed = Some((record, true));
            return;
        };
        worker.answer(&record, (verdict, Payload::EMPTY), now, now);
        self.log(|| format!("slot {slot} answers {} {verdict:?}", record.number));
    }

    /// Claims the next call of a batch, or begins it if the batch was not stopped; answers the batch after the last call.
    fn next_call(&mut self, slot: usize, plan: &Plan, random: &mut SeededRandom) {
        let now = self.now;
        let worker = &mut self.workers[slot];
        let (mut frame, is_claimed) = worker.batch.take().expect("a batch is at hand");
        let sequence = frame.record.sequence;
        let started = u32::try_from(frame.done).expect("few calls");
        if !is_claimed && frame.done < frame.record.calls.len() && worker.admits(0) {
            worker.calls_claimed = started + 1;
            worker.progress.calls = Some(CallProgress { sequence, started });
            worker.batch = Some((frame, true));
            return;
        }
        if is_claimed && worker.stopped != sequence + 1 {
            worker.progress.calls = Some(CallProgress { sequence, started: started + 1 });
            frame.record.number = frame.record.calls[frame.done];
            self.start(slot, frame, plan, random);
            return;
        }
        let verdict = if frame.done > 0 { Verdict::Returned } else { Verdict::Skipped };
        worker.answer(&frame.record, (verdict, Payload::EMPTY), frame.started_at, now);
        worker.progress.ended = sequence + 1;
        self.log(|| format!("slot {slot} ends batch {sequence}: {verdict:?}"));
    }

    fn start(&mut self, slot: usize, frame: Frame, plan: &Plan, random: &mut SeededRandom) {
        let number = frame.record.number;
        let now = self.now;
        let is_alone = self.is_alone;
        self.check_room(slot, &frame);
        let entry = &mut self.ledger[number];
        let run = u32::try_from(entry.runs.len()).expect("few runs");
        entry.runs.push(SimRun { end: None, has_died: false, saw: frame.record.saw.clone() });
        entry.starts += 1;
        entry.running += 1;
        assert!(!is_alone || entry.status.is_none(), "task {number} started after it was final");
        assert!(!is_alone || entry.running == 1, "task {number} runs twice at the same time");
        assert!(entry.starts <= entry.starts_max(), "task {number} started beyond its budgets");
        let depth = entry.depth;
        self.log(|| format!("slot {slot} starts {number}, run {run}"));
        self.started.push((frame.record.task, number));
        let context = self.workers[slot].context;
        let is_inner = frame.record.flags.has(TaskFlags::NESTED);
        self.begun.push(Begun { number, context, at: now, is_inner });
        let (long, long_ns) = plan.long;
        let longest = if random.chance(long) { long_ns } else { 5_000 };
        let can_nest = depth < 3 && random.chance(plan.nested);
        let worker = &mut self.workers[slot];
        worker.stack.push(Frame {
            course: plan.draw_course(random),
            end_at: now + random.below(longest),
            to_submit: if can_nest { 1 + random.below(3) } else { 0 },
            run,
            ..frame
        });
    }

    /// Moves the innermost task on; returns false if it has to wait.
    fn go_on(&mut self, slot: usize, plan: &Plan, random: &mut SeededRandom) -> bool {
        let now = self.now;
        let worker = &mut self.workers[slot];
        let Some(frame) = worker.stack.last_mut() else { return false };
        let task = frame.record.task;
        let is_interrupted = worker.interrupt == Some(frame.record.sequence);
        let ignores = matches!(frame.course, Course::Hang { ignores: true });
        if is_interrupted && !ignores && random.chance(70) {
            worker.interrupt = None;
            self.end(slot, Verdict::Interrupted);
            return true;
        }
        if frame.to_submit > 0 {
            frame.to_submit -= 1;
            frame.requested += 1;
            let number = frame.record.number;
            worker.results.push_back(SimResultRecord::Request(task, number));
            return true;
        }
        let is_done = |&child: &usize| self.ledger[child].status.is_some();
        let has_all = frame.requested == 0 && frame.children.iter().all(is_done);
        if !has_all && !frame.waits && !plan.forgets(frame.record.number) {
            frame.waits = true;
            worker.results.push_back(SimResultRecord::Wait(task, true));
            return true;
        }
        if frame.waits && has_all {
            frame.waits = false;
            worker.results.push_back(SimResultRecord::Wait(task, false));
            return true;
        }
        if frame.waits || frame.end_at > now {
            return false;
        }
        match frame.course {
            Course::Return => self.end(slot, Verdict::Returned),
            Course::Raise => self.end(slot, Verdict::Raised),
            Course::Exit => worker.dead = Some(6),
            Course::Hang { .. } => return false,
        }
        true
    }

    fn end(&mut self, slot: usize, verdict: Verdict) {
        let now = self.now;
        let worker = &mut self.workers[slot];
        let frame = worker.stack.pop().expect("something runs");
        if frame.waits {
            worker.results.push_back(SimResultRecord::Wait(frame.record.task, false));
        }
        let number = frame.record.number;
        if frame.record.calls.is_empty() {
            let is_good = verdict == Verdict::Returned;
            let parts = self.ledger[number].made(number, frame.run);
            let parts = if is_good { parts } else { Vec::new() };
            let value = value_of(verdict, number, frame.run);
            let payload = self.memory.store_result(value, &parts);
            worker.answer(&frame.record, (verdict, payload), frame.started_at, now);
            worker.progress.ended = frame.record.sequence + 1;
        } else {
            worker.results.push_back(SimResultRecord::Result(frame.record.task, number, verdict));
            let started_at = frame.started_at;
            let done = frame.done + 1;
            worker.batch = Some((Frame { done, ..Frame::new(frame.record, started_at) }, false));
        }
        let entry = &mut self.ledger[number];
        *self.ends.entry(entry.function).or_insert(0) += 1;
        entry.running -= 1;
        entry.raises += u64::from(verdict != Verdict::Returned);
        entry.late_returns += u64::from(verdict == Verdict::Returned && entry.has_time);
        entry.runs[frame.run as usize].end = Some(verdict);
        self.log(|| format!("slot {slot} answers {number} {verdict:?}"));
    }

    /// Ends a process: the tasks that it ran die with it; the records that it wrote stay to be read.
    pub fn bury(&mut self, slot: usize) {
        let worker = &mut self.workers[slot];
        worker.published = worker.results.len();
        for frame in std::mem::take(&mut worker.stack) {
            let entry = &mut self.ledger[frame.record.number];
            entry.running -= 1;
            entry.deaths += 1;
            entry.runs[frame.run as usize].has_died = true;
        }
        worker.ring.clear();
        worker.claimed = None;
        worker.batch = None;
    }

    /// Returns the time at which the earliest running task, or start, may end.
    #[must_use]
    pub fn next_end(&self) -> Option<u64> {
        let live = self.workers.iter().filter(|worker| worker.is_up && worker.dead.is_none());
        let starting = self.workers.iter().filter(|worker| worker.is_starting);
        live.filter_map(|worker| worker.stack.last().map(|frame| frame.end_at))
            .chain(starting.map(|worker| worker.start_ends_at))
            .filter(|&end_at| end_at > self.now)
            .min()
    }

    /// Returns a task that runs and does not end by itself.
    #[must_use]
    pub fn hanging(&self) -> Option<usize> {
        let live = self.workers.iter().filter(|worker| worker.is_up && worker.dead.is_none());
        live.filter_map(|worker| worker.stack.last())
            .find(|frame| matches!(frame.course, Course::Hang { .. }) && !frame.waits)
            .map(|frame| frame.record.number)
    }

    /// Returns the id of a slot.
    #[must_use]
    pub fn slot(place: usize) -> SlotId {
        SlotId(u16::try_from(place).expect("few slots"))
    }
}
