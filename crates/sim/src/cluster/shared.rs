//! State that all engines share, and the invariants of tasks wherever they run.

use std::collections::BTreeSet;

use gristmill_core::TaskId;

use super::engine::Engine;
use super::network::{Air, look};
use crate::observed::Begun;
use crate::world::{ProgramTask, SimPlacement};

/// State that all engines share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Ledger of all tasks, by number.
    pub ledger: Vec<ProgramTask>,
    /// Trace of all events, one per line, if requested.
    pub trace: Option<Vec<String>>,
    /// True time, nanoseconds.
    pub now: u64,
    /// First lines of the links that the client has lost.
    pub lost: BTreeSet<usize>,
    /// Number of links that were silent for too long.
    pub silences: u64,
    /// Tasks that have begun since this vector was emptied.
    pub begun: Vec<Begun>,
    /// True once the client's process is gone.
    pub is_orphaned: bool,
    /// Number of engines so far.
    engines: usize,
}

impl Shared {
    /// Creates the state before the first step; with a trace if requested.
    pub fn new(with_trace: bool) -> Self {
        Self { trace: with_trace.then(Vec::new), now: 1, ..Self::default() }
    }

    /// Returns the number of a new engine; the client is the first.
    pub const fn next_number(&mut self) -> usize {
        self.engines += 1;
        self.engines - 1
    }

    /// Notes that the client has lost links: tasks that may have left over them may have begun.
    pub fn note_lost(&mut self, lines: Vec<usize>, air: &Air) {
        if lines.is_empty() {
            return;
        }
        let air = look(air);
        for entry in &mut self.ledger {
            let is_unknown = |one: &&SimPlacement| {
                let lost = one.link.filter(|link| one.by == 0 && lines.contains(link));
                lost.is_some_and(|link| air.has_sent_since(link, 0, one.given_at))
            };
            entry.unknowns += entry.placements.iter().filter(is_unknown).count() as u64;
        }
        self.lost.extend(lines);
    }

    /// Asserts that each placement in an engine begins at most once, and where it was sent. A placement that the client has
    /// given up may begin only where the client cannot know of it.
    pub fn check_starts(&mut self, engine: &mut Engine, is_client: bool) {
        for (task, number) in std::mem::take(&mut engine.port.world.started) {
            if !self.ledger[number].is_clients() {
                continue;
            }
            self.check_start(engine, task, number, is_client);
        }
    }

    fn check_start(&mut self, engine: &Engine, task: TaskId, number: usize, is_client: bool) {
        let view = engine.core.task(task).expect("what runs is known");
        let (link, attempt) = if is_client {
            (None, view.attempt)
        } else {
            let named = engine.inbound.named(view.handle).expect("a lease runs its client's tasks");
            (engine.port.line_of(named.0), named.2)
        };
        let entry = &mut self.ledger[number];
        let status = entry.status;
        let is_meant = |one: &SimPlacement| (one.attempt, one.link) == (attempt, link);
        let place = entry.placements.iter().rposition(is_meant);
        let place = place.unwrap_or_else(|| panic!("task {number} began where it was not sent"));
        let is_last = place + 1 == entry.placements.len();
        let placement = &mut entry.placements[place];
        placement.starts += 1;
        assert!(placement.starts == 1, "task {number} began twice in one placement");
        let is_wanted = is_last && status.is_none();
        let is_unknown = link.is_some_and(|link| self.lost.contains(&link));
        assert!(
            is_wanted || is_unknown || self.is_orphaned,
            "task {number} began after its client had it back: {status:?}"
        );
    }
}
