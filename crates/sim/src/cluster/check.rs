//! What must hold of tasks wherever they run.

use gristmill_core::TaskId;

use super::engine::Engine;
use super::handle::Shared;
use super::network::{Air, look};
use crate::world::Placement;

impl Shared {
    /// The client has lost links: what went over them and may have left may have begun.
    pub fn note_lost(&mut self, lines: Vec<usize>, air: &Air) {
        if lines.is_empty() {
            return;
        }
        self.lost.extend(lines);
        let air = look(air);
        for entry in &mut self.ledger {
            let is_unknown = |one: &&Placement| {
                let lost = one.link.filter(|link| self.lost.contains(link));
                lost.is_some_and(|link| air.has_sent_since(link, 0, one.given_at))
            };
            entry.unknowns = entry.placements.iter().filter(is_unknown).count() as u64;
        }
    }

    /// What has begun in an engine: each placement begins once at most, where it was sent; and one that the client has
    /// given up only where the client cannot know of it.
    pub fn check_starts(&mut self, engine: &mut Engine, is_client: bool) {
        for (task, number) in std::mem::take(&mut engine.lanes.world.started) {
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
            let named = engine.guests.named(view.handle).expect("a lease runs its client's tasks");
            (engine.lanes.line_of(named.0), named.2)
        };
        let entry = &mut self.ledger[number];
        let status = entry.status;
        let is_meant = |one: &Placement| (one.attempt, one.link) == (attempt, link);
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
