//! The workers of one engine: their rings, and the task that each runs.

use std::collections::VecDeque;

use gristmill_core::{Attempt, RingProgress, TakeBackResult, TaskId};

/// A task in the ring of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    /// Index of the task in the graph.
    pub number: u32,
    pub task: TaskId,
    pub attempt: Attempt,
    pub sequence: u64,
    /// Time at which the worker can first see the record.
    pub seen_at: u64,
}

/// A worker.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    ring: VecDeque<Record>,
    sequence: u64,
    running: Option<(Record, u64)>,
    pub progress: RingProgress,
    idle_since: u64,
    /// True if a poll of the ring is scheduled.
    is_roused: bool,
}

/// The result of a worker's poll of its ring.
#[derive(Debug)]
pub(crate) enum RingPoll {
    /// The worker starts this task.
    Begins(Record),
    /// The worker polls again at this time.
    Later(u64),
    /// The ring is empty.
    Idles,
}

impl Worker {
    /// Returns true if the worker has stopped polling.
    pub fn is_asleep(&self, now: u64, spin_ns: u64) -> bool {
        self.running.is_none()
            && self.ring.is_empty()
            && self.idle_since.saturating_add(spin_ns) < now
    }

    /// Adds a record to the ring. Returns its sequence number, and true if the caller must schedule a poll.
    pub fn push(
        &mut self,
        (number, task, attempt): (u32, TaskId, Attempt),
        seen_at: u64,
    ) -> (u64, bool) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.ring.push_back(Record { number, task, attempt, sequence, seen_at });
        let is_told = self.running.is_none() && !self.is_roused;
        self.is_roused |= is_told;
        (sequence, is_told)
    }

    /// Takes back a record that the worker has not claimed.
    pub fn take_back(&mut self, sequence: u64) -> TakeBackResult {
        let found = self.ring.iter().position(|record| record.sequence == sequence);
        match found.and_then(|place| self.ring.remove(place)) {
            Some(_) => TakeBackResult::Taken,
            None => TakeBackResult::Undecided,
        }
    }

    /// Polls the ring of a worker that runs no task.
    pub fn look(&mut self, now: u64) -> RingPoll {
        self.is_roused = false;
        match self.ring.front() {
            None => {
                self.idle_since = now;
                RingPoll::Idles
            }
            Some(record) if record.seen_at > now => {
                self.is_roused = true;
                RingPoll::Later(record.seen_at)
            }
            Some(&record) => {
                self.ring.pop_front();
                self.running = Some((record, now));
                self.progress.claimed = record.sequence + 1;
                self.progress.started = record.sequence + 1;
                self.progress.started_at_ns = now;
                RingPoll::Begins(record)
            }
        }
    }

    /// Ends the running task. Returns its record and the time of its start.
    pub fn end(&mut self) -> Option<(Record, u64)> {
        let ended = self.running.take();
        if let Some((record, _)) = ended {
            self.progress.ended = record.sequence + 1;
        }
        ended
    }
}
