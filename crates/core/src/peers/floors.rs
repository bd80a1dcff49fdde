//! Tables of the tasks that compete for workers at peers, and of the floors that they set. The tasks of one context are a
//! *group*, and so are all tasks without a context.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_wire::ContextId;

use crate::contexts::PLAIN;
use crate::floor::Floor;

/// Priority of a raised task, and its number in the order of sending.
pub(crate) type Rank = (i32, u64);

/// A task at a peer that competes with others and is not known to have started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Competitor {
    pub rank: Rank,
    pub context: ContextId,
    /// True if the task is demanding: it needs several workers, GPUs or memory.
    pub is_demanding: bool,
    /// The mark of the task's peer when the task was sent.
    pub mark: u64,
    /// True if the task starts on arrival, because a worker is idle there. Such a task is not raised.
    pub is_expected: bool,
}

/// The destination of a task that was asked back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A worker of this engine.
    Here,
    /// The peer at this index.
    Peer(usize),
}

/// The raised tasks of one group, and the floor that they set.
#[derive(Debug, Default)]
pub(super) struct ContextFloor {
    /// Number of raised tasks that need one worker and nothing else, by priority.
    pub priorities: BTreeMap<i32, u32>,
    /// Raised demanding tasks, by rank.
    pub demanding: BTreeMap<Rank, u32>,
    /// Count of raised tasks and of changes of the floor. After each of them, a vacant peer that could run nothing is
    /// considered again. A group that is created again starts with a higher value than any before, so that a value noted
    /// for an earlier instance of the group is void.
    pub turn: u64,
    /// The floor of peers because of tasks that need one worker and nothing else; `None` if there is none.
    pub floor: Option<i32>,
    /// The highest priority of `demanding`, if it competes: a floor at the peers that could run that task.
    pub demanding_floor: Option<i32>,
    /// True if some peer may lack the floor, or have a floor that it should not have.
    pub is_stale: bool,
    /// True if a task that was asked back has arrived or has started, or if a peer is vacant.
    pub has_changed: bool,
}

impl ContextFloor {
    fn is_unused(&self) -> bool {
        self.priorities.is_empty()
            && self.demanding.is_empty()
            && self.floor.max(self.demanding_floor).is_none()
            && !self.is_stale
            && !self.has_changed
    }

    /// Adds a raised task to the counts, or removes it.
    pub fn count(&mut self, one: &Competitor, index: u32, is_more: bool) {
        if one.is_demanding {
            if is_more {
                self.demanding.insert(one.rank, index);
            } else {
                self.demanding.remove(&one.rank);
            }
            self.is_stale = true;
            return;
        }
        let count = self.priorities.entry(one.rank.0).or_insert(0);
        *count = if is_more { *count + 1 } else { *count - 1 };
        if *count == 0 {
            self.priorities.remove(&one.rank.0);
        }
    }
}

/// Raised tasks, and the floors of peers.
#[derive(Debug, Default)]
pub(crate) struct PriorityFloors {
    /// All tasks at peers that compete with others and are not known to have started.
    pub(super) tasks: BTreeMap<u32, Competitor>,
    pub(super) by_context: BTreeMap<ContextId, ContextFloor>,
    /// The highest turn of a group that was dropped.
    last_turn: u64,
    /// Tasks that were asked back, each with its destination.
    pub(super) asked: BTreeMap<u32, Target>,
    /// Workers of this engine that are reserved for tasks which peers were asked to give back.
    pub(super) expected_here: u32,
    /// [`PeerFloor::exempt_at`] for the workers of this engine.
    pub(super) exempt_here: Option<(u64, i32)>,
    /// True if the floor of this engine's own workers may have changed.
    pub(super) is_stale_here: bool,
    /// True if all tasks that wait for a worker at peers were considered since priorities are in use.
    pub(super) has_all: bool,
    /// Number of competing tasks that were sent.
    pub(super) sent: u64,
}

impl PriorityFloors {
    /// Returns true if no task is raised and no peer has a floor.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.tasks.is_empty() && self.by_context.is_empty()
    }

    /// Returns true if a task was asked back.
    pub fn is_asked(&self, index: u32) -> bool {
        self.asked.contains_key(&index)
    }

    /// Returns true if a task of a group was asked back.
    pub(super) fn has_asked_in(&self, context: ContextId) -> bool {
        self.asked.keys().any(|index| self.tasks[index].context == context)
    }

    pub(super) fn floor_of(&self, context: ContextId) -> Option<&ContextFloor> {
        self.by_context.get(&context)
    }

    pub(super) fn floor_of_mut(&mut self, context: ContextId) -> &mut ContextFloor {
        let turn = self.last_turn + 1;
        self.by_context
            .entry(context)
            .or_insert_with(|| ContextFloor { turn, ..ContextFloor::default() })
    }

    /// Records that peers may lack a floor, or have one that they should not have.
    pub fn note_stale(&mut self) {
        self.by_context.values_mut().for_each(|entry| entry.is_stale = true);
    }

    /// Records that a peer may lack the floor of a group.
    pub fn note_stale_in(&mut self, context: ContextId) {
        if let Some(entry) = self.by_context.get_mut(&context) {
            entry.is_stale = true;
        }
    }

    /// Records that a demanding task has arrived at a peer, or has left one: raised tasks may no longer fit there, or may
    /// fit there now.
    pub fn note_taken(&mut self, has_come: bool) {
        if let Some(entry) =
            self.by_context.get_mut(&PLAIN).filter(|entry| !entry.demanding.is_empty())
        {
            entry.is_stale = true;
            entry.turn += u64::from(!has_come);
        }
    }

    /// Drops the groups that have neither a raised task nor a floor at a peer. Returns true if there were any.
    pub(super) fn drop_unused(&mut self) -> bool {
        let before = self.by_context.len();
        let last_turn = &mut self.last_turn;
        self.by_context.retain(|_, entry| {
            let is_kept = !entry.is_unused();
            *last_turn = if is_kept { *last_turn } else { entry.turn.max(*last_turn) };
            is_kept
        });
        self.by_context.len() < before
    }
}

/// The floor of one group at one peer, and the tasks that compete there.
#[derive(Debug)]
pub(crate) struct PeerFloor {
    /// The floor that was sent to the peer: the peer starts nothing below it.
    pub floor: Floor,
    /// Count of the floors that were sent to the peer, and of the tasks that were sent there while it had one.
    pub mark: u64,
    /// The mark of the peer's floor.
    pub floor_mark: u64,
    /// Tasks there that compete with others and are not known to have started, by their marks.
    pub competing: BTreeSet<(u64, u32)>,
    /// Workers that the floor keeps idle there, less those for which a task was sent.
    pub vacancies: u32,
    /// Workers that are reserved for tasks which other peers were asked to give back.
    pub expected: u32,
    /// Raised tasks there that were not asked back.
    pub raised: BTreeMap<Rank, u32>,
    /// A value of `ContextFloor::turn`, and a priority. At that turn this peer could run no raised task with that
    /// priority or a higher one. Its floor is lower until the turn changes.
    pub exempt_at: (u64, i32),
}

impl PeerFloor {
    const NEW: Self = Self {
        floor: Floor::NONE,
        mark: 0,
        floor_mark: 0,
        competing: BTreeSet::new(),
        vacancies: 0,
        expected: 0,
        raised: BTreeMap::new(),
        exempt_at: (u64::MAX, i32::MIN),
    };

    fn is_unused(&self) -> bool {
        self.floor == Floor::NONE && self.competing.is_empty() && self.expected == 0
    }
}

/// The floors of a peer, by group.
#[derive(Debug, Default)]
pub(crate) struct PeerFloors {
    by_context: BTreeMap<ContextId, PeerFloor>,
    /// The highest mark so far of any group.
    last_mark: u64,
}

impl PeerFloors {
    pub const NONE: Self = Self { by_context: BTreeMap::new(), last_mark: 0 };

    pub fn get(&self, context: ContextId) -> Option<&PeerFloor> {
        self.by_context.get(&context)
    }

    /// Returns the floor of a group.
    pub fn floor(&self, context: ContextId) -> Floor {
        self.get(context).map_or(Floor::NONE, |entry| entry.floor)
    }

    /// Returns the entry of a group, and creates it if there is none.
    pub fn get_mut(&mut self, context: ContextId) -> &mut PeerFloor {
        self.by_context.entry(context).or_insert(PeerFloor::NEW)
    }

    pub fn existing_mut(&mut self, context: ContextId) -> Option<&mut PeerFloor> {
        self.by_context.get_mut(&context)
    }

    pub fn values(&self) -> impl Iterator<Item = &PeerFloor> {
        self.by_context.values()
    }

    /// Sets the floor of a group. Returns the low half of the floor's mark, which is higher than all marks before: this
    /// identifies a report about an earlier floor.
    pub fn set_floor(&mut self, context: ContextId, floor: Floor) -> u32 {
        let last = self.last_mark;
        let entry = self.get_mut(context);
        entry.floor = floor;
        entry.vacancies = 0;
        entry.mark = last.max(entry.mark) + 1;
        entry.floor_mark = entry.mark;
        let mark = entry.mark;
        self.last_mark = mark;
        #[expect(clippy::cast_possible_truncation, reason = "the low half travels")]
        let low = mark as u32;
        low
    }

    /// Returns the mark of the last floor or task that was sent in a group.
    pub fn mark(&self, context: ContextId) -> u64 {
        let entry = self.get(context).filter(|entry| entry.floor != Floor::NONE);
        entry.map_or(self.last_mark, |entry| entry.mark)
    }

    /// Returns the mark of a task that is sent. If the group has a floor, the mark is a new one.
    pub fn mark_sent(&mut self, context: ContextId) -> u64 {
        let last = self.last_mark;
        let Some(entry) =
            self.by_context.get_mut(&context).filter(|entry| entry.floor != Floor::NONE)
        else {
            return last;
        };
        entry.mark += 1;
        let mark = entry.mark;
        self.last_mark = last.max(mark);
        mark
    }

    /// Drops the groups that have no floor, no competing task and no reserved worker.
    pub fn drop_unused(&mut self) {
        self.by_context.retain(|_, entry| !entry.is_unused());
    }

    /// Forgets the tasks that compete there.
    pub fn forget_competing(&mut self) {
        for entry in self.by_context.values_mut() {
            entry.raised.clear();
            entry.competing.clear();
        }
    }
}
