//! Workers of one engine: rings of records, and what each of them runs.

use std::collections::VecDeque;

use gristmill_core::{Attempt, Progress, TakeBack, TaskId};

/// A task in the ring of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    /// Its number in the graph.
    pub number: u32,
    pub task: TaskId,
    pub attempt: Attempt,
    pub sequence: u64,
    /// Before that its worker does not see it.
    pub seen_at: u64,
}

/// A worker.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    ring: VecDeque<Record>,
    sequence: u64,
    running: Option<(Record, u64)>,
    pub progress: Progress,
    idle_since: u64,
    /// It will look into its ring.
    is_roused: bool,
}

/// What a worker does when it looks into its ring.
#[derive(Debug)]
pub(crate) enum Look {
    /// It begins this.
    Begins(Record),
    /// It looks again at that time.
    Later(u64),
    /// There is nothing.
    Idles,
}

impl Worker {
    /// Whether it has stopped polling.
    pub fn is_asleep(&self, now: u64, spin_ns: u64) -> bool {
        self.running.is_none()
            && self.ring.is_empty()
            && self.idle_since.saturating_add(spin_ns) < now
    }

    /// Takes a record; gives its sequence, and whether it has to be told to look.
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

    /// Takes a record back that it has not claimed.
    pub fn take_back(&mut self, sequence: u64) -> TakeBack {
        let found = self.ring.iter().position(|record| record.sequence == sequence);
        match found.and_then(|place| self.ring.remove(place)) {
            Some(_) => TakeBack::Taken,
            None => TakeBack::Undecided,
        }
    }

    /// Looks into its ring, as it runs nothing.
    pub fn look(&mut self, now: u64) -> Look {
        self.is_roused = false;
        match self.ring.front() {
            None => {
                self.idle_since = now;
                Look::Idles
            }
            Some(record) if record.seen_at > now => {
                self.is_roused = true;
                Look::Later(record.seen_at)
            }
            Some(&record) => {
                self.ring.pop_front();
                self.running = Some((record, now));
                self.progress.claimed = record.sequence + 1;
                self.progress.started = record.sequence + 1;
                self.progress.started_at_ns = now;
                Look::Begins(record)
            }
        }
    }

    /// Ends what it runs; gives that and when it began.
    pub fn end(&mut self) -> Option<(Record, u64)> {
        let ended = self.running.take();
        if let Some((record, _)) = ended {
            self.progress.ended = record.sequence + 1;
        }
        ended
    }
}
