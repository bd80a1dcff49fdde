//! Workers of peers that are idle because of a floor, and the raised tasks that they get.
//!
//! For such a worker, or for one of its own, the engine asks another peer to give a raised task back. The answer says
//! whether the task comes back, and can go to that worker, or has started.
//!
//! Messages cross on their way. The floors that are sent to a peer, and the tasks that are sent while it has one,
//! therefore have numbers, *marks*. A vacant peer reports up to which mark it has received messages. Tasks that were sent
//! later take its workers, and a report about an earlier floor is ignored. A task that is sent to a vacant peer is no
//! longer raised: it is *expected* to start. If it cannot start, the peer says so, and the task is raised again.

use gristmill_wire::{ContextId, PeerId};

use super::balance::LOOKS_MAX;
use super::floors::{Rank, Target};
use super::table::peer_id;
use crate::Core;
use crate::contexts::PLAIN;
use crate::floor::Floor;
use crate::port::Port;
use crate::task::flag;

/// The outcome of a search for a task that could go to a vacant worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    /// A task was asked back.
    Asked,
    /// The task with the highest rank needs more workers than are vacant.
    Short,
    /// No task could go there.
    Nothing,
}

impl Core {
    /// Processes a peer's report that its floor keeps `count` workers with a context, or without one, idle. The peer sent
    /// it after the task with this mark had arrived. Every task that had arrived by then has started, if it is not below
    /// the floor and needs nothing but one worker. Of the tasks on their way, as many as these workers can run start on
    /// arrival. A count of 0 says that a task waits there that was expected to start at once.
    pub fn peer_vacant(
        &mut self,
        (peer, context): (PeerId, ContextId),
        (count, mark): (u32, u32),
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        let Some(place) = self.joined_peer(peer) else { return };
        let entry = self.peers.get(place);
        let Some(there) = entry.floors.get(context) else { return };
        if count == 0 {
            self.expect_no_more(place, context);
            self.pump(port);
            return;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the low half travels")]
        let since = (there.mark as u32).wrapping_sub(mark);
        let mark = there.mark.saturating_sub(u64::from(since));
        if there.floor == Floor::NONE || mark < there.floor_mark {
            return; // The report is about an earlier floor.
        }
        let (floor, workers) = (there.floor.highest(), entry.offer.workers);
        if entry.is_stuck {
            self.peers.get_mut(place).is_stuck = false;
            self.peers.settle(place, &self.config);
        }
        // A task that waits here may go there.
        self.note_room(place);
        let there = self.peers.get_mut(place).floors.get_mut(context);
        let competing: Vec<(u64, u32)> = there.competing.iter().copied().collect();
        let above = |&(_, index): &(u64, u32)| self.peers.raised.tasks[&index].rank.0 >= floor;
        let (begun, coming): (Vec<_>, Vec<_>) =
            competing.into_iter().filter(above).partition(|&(sent, _)| sent <= mark);
        for (_, index) in begun {
            // A demanding task may wait for its other resources. For a task that was asked back, the answer says whether
            // it started.
            if !self.is_demanding(index) && !self.peers.raised.is_asked(index) {
                self.cease_to_raise(place, index);
            }
        }
        let mut left = count.min(workers);
        for (_, index) in coming {
            let places = self.places_of(index);
            if places <= left {
                left -= places;
                self.expect_to_begin(place, context, index);
            }
        }
        self.peers.get_mut(place).floors.get_mut(context).vacancies = left;
        self.peers.raised.floor_of_mut(context).has_changed = true;
        self.pump(port);
    }

    /// Records that a task on its way to a peer starts on arrival.
    fn expect_to_begin(&mut self, place: usize, context: ContextId, index: u32) {
        let raised = &mut self.peers.raised;
        if raised.is_asked(index) {
            return;
        }
        let Some(competitor) = raised.tasks.get_mut(&index).filter(|one| !one.is_expected) else {
            return;
        };
        competitor.is_expected = true;
        let competitor = *competitor;
        raised.floor_of_mut(context).count(&competitor, index, false);
        self.peers.get_mut(place).floors.get_mut(context).raised.remove(&competitor.rank);
    }

    /// Raises all tasks that were expected to start at a peer, including those on their way: the peer sends no other
    /// report about them.
    fn expect_no_more(&mut self, place: usize, context: ContextId) {
        let Self { peers, .. } = self;
        let there = peers.get_mut(place).floors.get_mut(context);
        there.vacancies = 0;
        let competing: Vec<_> = there.competing.iter().copied().collect();
        for (_, index) in competing {
            let raised = &mut peers.raised;
            let Some(competitor) = raised.tasks.get_mut(&index).filter(|one| one.is_expected)
            else {
                continue;
            };
            competitor.is_expected = false;
            let competitor = *competitor;
            let known = raised.floor_of_mut(context);
            known.turn += 1;
            known.count(&competitor, index, true);
            let there = peers.get_mut(place).floors.get_mut(context);
            there.raised.insert(competitor.rank, index);
        }
        peers.raised.floor_of_mut(context).has_changed = true;
    }

    /// Returns the vacant peer for a task that competes with others.
    pub(super) fn choose_vacant_peer(&self, index: u32) -> Option<usize> {
        if self.peers.raised.by_context.is_empty() {
            return None;
        }
        (0..self.peers.end()).find(|&place| {
            self.is_vacant_for(index, place)
                && !self.peers.get(place).is_shut()
                && self.is_fit(index, place)
        })
    }

    /// Returns true if a peer's floor keeps as many workers idle as a task needs, and the task is not below that floor.
    pub(crate) fn is_vacant_for(&self, index: u32, place: usize) -> bool {
        let entry = self.peers.get(place).floors.get(self.context_of(index));
        entry.is_some_and(|entry| {
            entry.vacancies >= self.places_of(index)
                && self.priority(index) >= entry.floor.highest()
        })
    }

    /// Changes the number of workers (`expected`) that are reserved at a peer, or in this engine, for tasks that were asked
    /// back. These are not the tasks that are expected to start, which are on their way.
    pub(super) fn expect(
        &mut self,
        target: Target,
        context: ContextId,
        change: impl FnOnce(u32) -> u32,
    ) {
        let expected = match target {
            Target::Here => &mut self.peers.raised.expected_here,
            // A peer that is gone has no reserved workers.
            Target::Peer(place) => match self.peers.get_mut(place).floors.existing_mut(context) {
                Some(entry) => &mut entry.expected,
                None => return,
            },
        };
        *expected = change(*expected);
    }

    /// Asks raised tasks back for vacant peers. A peer that could run none of the tasks above its floor has a lower floor
    /// until another task is raised.
    pub(super) fn fill_vacancies(&mut self, context: ContextId, port: &mut impl Port) {
        for place in 0..self.peers.end() {
            while let Some(there) = self.peers.get(place).floors.get(context)
                && there.floor != Floor::NONE
                && there.vacancies > there.expected
            {
                let (floor, free) = (there.floor.highest(), there.vacancies - there.expected);
                let target = Target::Peer(place);
                match self.ask_back_for(target, context, (floor, free), port) {
                    Search::Asked => {}
                    Search::Nothing if !self.peers.raised.has_asked_in(context) => {
                        let known = self.peers.raised.floor_of_mut(context);
                        known.is_stale = true;
                        let exempt_at = (known.turn, floor);
                        self.peers.get_mut(place).floors.get_mut(context).exempt_at = exempt_at;
                        break;
                    }
                    Search::Short | Search::Nothing => break,
                }
            }
        }
    }

    /// Asks raised tasks back for the workers of this engine that are idle because of these tasks.
    pub(super) fn fill_vacancies_here(&mut self, port: &mut impl Port) {
        let Some(floor) = self.floor_here().filter(|_| self.config.workers > 0) else { return };
        let vacant = self.vacant_above(PLAIN, floor, port);
        while vacant > self.peers.raised.expected_here {
            let free = vacant - self.peers.raised.expected_here;
            if self.ask_back_for(Target::Here, PLAIN, (floor, free), port) != Search::Asked {
                if self.peers.raised.asked.is_empty() {
                    let turn = self.peers.raised.floor_of_mut(PLAIN).turn;
                    self.peers.raised.exempt_here = Some((turn, floor));
                    self.peers.raised.is_stale_here = true;
                }
                break;
            }
        }
    }

    /// Asks another peer for a raised task that `free` vacant workers could run and that is not below their floor.
    fn ask_back_for(
        &mut self,
        target: Target,
        context: ContextId,
        (floor, free): (i32, u32),
        port: &mut impl Port,
    ) -> Search {
        let mut found: Option<(Rank, usize, u32)> = None;
        for place in (0..self.peers.end()).filter(|&place| Target::Peer(place) != target) {
            let Some(there) = self.peers.get(place).floors.get(context) else { continue };
            // The tasks that were sent last are the least likely to have started.
            let last = there.raised.range((floor, 0)..).rev().take(LOOKS_MAX);
            let fit = last
                .map(|(&rank, &index)| (rank, place, index))
                .find(|&(.., index)| self.could_move(index, target));
            found = found.max(fit);
        }
        let Some((rank, place, index)) = found else { return Search::Nothing };
        let places = self.places_of(index);
        if places > free {
            return Search::Short;
        }
        self.peers.get_mut(place).floors.get_mut(context).raised.remove(&rank);
        self.peers.raised.asked.insert(index, target);
        self.expect(target, context, |expected| expected + places);
        let (task, attempt) = (self.tasks.id(index), self.tasks[index].attempt);
        port.withdraw_from_peer(peer_id(place), task, attempt);
        Search::Asked
    }

    fn could_move(&self, index: u32, target: Target) -> bool {
        // True if the task could run at the target.
        let is_there = match target {
            Target::Here => true,
            Target::Peer(place) => {
                !self.peers.get(place).is_shut()
                    && self.is_fit(index, place)
                    && (!self.is_demanding(index) || self.could_have(index, place))
            }
        };
        is_there && !self.tasks[index].has(flag::CANCELLED)
    }
}
