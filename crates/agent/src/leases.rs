//! Which lease has how much of the node. A pure state machine: `(state, event, now) -> answer`.

use std::collections::BTreeMap;

use gristmill_wire::GPUS_MAX;
use gristmill_wire::peer::{Ask, Grant};
use thiserror::Error;

use crate::Capacity;
use crate::places::{FreeGpus, Places};

/// Why a lease is not granted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum RefusedLease {
    /// Others have what is asked for.
    #[error(
        "{asked} {what} are asked for, and {left} of {all} are free: other clients have the rest"
    )]
    Taken {
        /// How much is asked for.
        asked: u64,
        /// Of what.
        what: &'static str,
        /// How much is free.
        left: u64,
        /// How much there is.
        all: u64,
    },
    /// Nobody will ever get as much here.
    #[error("{asked} {what} are asked for, and this node has {all}")]
    Beyond {
        /// How much is asked for.
        asked: u64,
        /// Of what.
        what: &'static str,
        /// How much there is.
        all: u64,
    },
    /// Nothing could be done in it.
    #[error("the lease would be over in {left_ms} ms, and is given for a second or more")]
    TooShort {
        /// How long it would last.
        left_ms: u64,
    },
    /// The number stands for another lease.
    #[error("lease {lease:016x} is given already")]
    Twice {
        /// The number.
        lease: u64,
    },
    /// The node is about to end.
    #[error("the node drains")]
    Draining,
}

impl RefusedLease {
    /// Whether it will be refused whenever it is asked for.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Beyond { .. })
    }
}

/// The part of its time that a lease drains for at most: little would be left of a short one.
const DRAIN_SHARE: u64 = 8;

/// When a lease drains, and when it is over.
#[derive(Debug, Clone, Copy)]
struct Term {
    drains_at: u64,
    ends_at: u64,
    is_draining: bool,
}

impl Term {
    /// One that lasts for so long from now on, with so much time to drain if that is long enough.
    fn new(duration_ns: u64, drain_ns: u64, now: u64) -> Self {
        let ends_at = now.saturating_add(duration_ns);
        let drain_ns =
            if ends_at == u64::MAX { 0 } else { drain_ns.min(duration_ns / DRAIN_SHARE) };
        Self { drains_at: ends_at - drain_ns, ends_at, is_draining: false }
    }

    /// When something is to be done about it next.
    const fn next(&self) -> u64 {
        if self.is_draining { self.ends_at } else { self.drains_at }
    }
}

#[derive(Debug, Clone)]
struct Share {
    /// The node's places that its workers have.
    places: Vec<u16>,
    memory: u64,
    /// A bit each.
    gpus: u16,
    term: Term,
}

/// How much there is of something, and how much of it others have.
struct Room {
    what: &'static str,
    all: u64,
    used: u64,
}

impl Room {
    const fn new(what: &'static str, all: u64, used: u64) -> Self {
        Self { what, all, used }
    }

    const fn left(&self) -> u64 {
        self.all.saturating_sub(self.used)
    }

    /// As much of what is wanted as is free, if that is enough.
    fn part(&self, wanted: u64, least: u64) -> Result<u64, RefusedLease> {
        let &Self { what, all, .. } = self;
        let left = self.left();
        if least > all {
            Err(RefusedLease::Beyond { asked: least, what, all })
        } else if least > left {
            Err(RefusedLease::Taken { asked: least, what, left, all })
        } else {
            Ok(wanted.min(left))
        }
    }
}

/// The leases of one node.
#[derive(Debug)]
pub(crate) struct Leases {
    capacity: Capacity,
    places: Places,
    /// How long what runs may take to end before the end of a lease.
    drain_ns: u64,
    /// The node drains, and all leases with it: none is given or lasts longer.
    is_draining: bool,
    shares: BTreeMap<u64, Share>,
}

impl Leases {
    pub const fn new(capacity: Capacity, places: Places, drain_ns: u64) -> Self {
        Self { capacity, places, drain_ns, is_draining: false, shares: BTreeMap::new() }
    }

    /// Gives a lease: as much of what is asked for as is free, and one worker at least, unless less will not do. Zero
    /// workers are all that are free; without a word on memory it has its workers' part of it.
    pub fn grant(&mut self, ask: &Ask, now: u64) -> Result<Grant, RefusedLease> {
        if self.is_draining {
            return Err(RefusedLease::Draining);
        }
        if self.shares.contains_key(&ask.lease) {
            return Err(RefusedLease::Twice { lease: ask.lease });
        }
        let (workers, memory, gpus) = self.share_of(ask)?;
        let term = Term::new(ask.duration_ns, self.drain_ns, now);
        let (places, gpus) = self.choose(workers, gpus);
        let share = Share { places, memory, gpus, term };
        self.shares.insert(ask.lease, share);
        let Ask { lease, duration_ns: ends_in_ns, .. } = *ask;
        Ok(Grant { lease, workers, ends_in_ns, memory, gpus })
    }

    /// How many workers, bytes of memory and GPUs are given; no number of GPUs is as many as there are.
    fn share_of(&self, ask: &Ask) -> Result<(u32, u64, Option<u64>), RefusedLease> {
        let used = |count: fn(&Share) -> u64| self.shares.values().map(count).sum::<u64>();
        let all_workers = self.capacity.workers;
        let room =
            Room::new("workers", all_workers.into(), used(|share| share.places.len() as u64));
        let wanted = if ask.workers == 0 { room.left().max(1) } else { ask.workers.into() };
        let least = if ask.is_exact { wanted } else { 1 };
        let workers = u32::try_from(room.part(wanted, least)?).unwrap_or(u32::MAX);
        let room = Room::new("bytes of memory", self.capacity.memory, used(|share| share.memory));
        let own = self.capacity.memory / u64::from(all_workers.max(1)) * u64::from(workers);
        let wanted = if ask.memory == 0 { own } else { ask.memory };
        let memory = room.part(wanted, if ask.is_exact { ask.memory } else { 0 })?;
        let taken = used(|share| share.gpus.count_ones().into());
        let room = Room::new("GPUs", self.capacity.gpus.into(), taken);
        if ask.gpus == u32::MAX {
            return Ok((workers, memory, None));
        }
        let gpus = room.part(ask.gpus.into(), if ask.is_exact { ask.gpus.into() } else { 0 })?;
        Ok((workers, memory, Some(gpus)))
    }

    /// The places that nobody has.
    fn free_places(&self) -> Vec<u16> {
        let all = 0..u16::try_from(self.capacity.workers).unwrap_or(u16::MAX);
        let is_free = |place: &u16| !self.shares.values().any(|one| one.places.contains(place));
        all.filter(is_free).collect()
    }

    /// Which places and which GPUs a lease gets that was promised so many.
    fn choose(&self, workers: u32, gpus: Option<u64>) -> (Vec<u16>, u16) {
        let granted = self.shares.values().fold(0, |set, share| set | share.gpus);
        let used =
            self.shares.values().fold(0, |set, share| set | self.places.pinned(&share.places));
        let places = self.places.pick(&self.free_places(), granted, workers);
        let all = (0..GPUS_MAX.min(self.capacity.gpus as usize)).fold(0, |set, one| set | 1 << one);
        let gpus = self.places.gpus(&places, FreeGpus { free: all & !granted, used }, gpus);
        (places, gpus)
    }

    /// The node's places that a lease's workers have, in the order of its slots.
    pub fn places(&self, lease: u64) -> &[u16] {
        self.shares.get(&lease).map_or(&[], |share| &share.places)
    }

    /// A lease is over, and its processes have yet to end: it keeps its share until it is taken back.
    pub fn leave(&mut self, lease: u64) {
        if let Some(share) = self.shares.get_mut(&lease) {
            share.term = Term::new(u64::MAX, 0, 0);
        }
    }

    /// Takes a lease back; false when there is none of that number.
    pub fn end(&mut self, lease: u64) -> bool {
        self.shares.remove(&lease).is_some()
    }

    /// Lets a lease last for so long from now on, and drain later if it did; false: the node drains, or it is over.
    pub fn extend(&mut self, lease: u64, duration_ns: u64, now: u64) -> bool {
        let share = self.shares.get_mut(&lease).filter(|_| !self.is_draining);
        let term = Term::new(duration_ns, self.drain_ns, now);
        share.map(|share| share.term = term).is_some()
    }

    /// The node drains: nothing of a lease's own time matters any more but its end.
    pub fn drain(&mut self) {
        self.is_draining = true;
        self.shares.values_mut().for_each(|share| share.term.is_draining = true);
    }

    /// The leases that are to drain from now on: each is named once, until it is extended.
    pub fn begin_drains(&mut self, now: u64) -> Vec<u64> {
        let is_due = |term: &Term| !term.is_draining && term.drains_at <= now;
        let due = self.shares.iter_mut().filter(|(_, share)| is_due(&share.term));
        due.map(|(&lease, share)| {
            share.term.is_draining = true;
            lease
        })
        .collect()
    }

    /// The leases whose time is over.
    pub fn over(&self, now: u64) -> Vec<u64> {
        let is_over = |entry: &(&u64, &Share)| entry.1.term.ends_at <= now;
        self.shares.iter().filter(is_over).map(|(&lease, _)| lease).collect()
    }

    /// When the next lease is to drain, or is over.
    pub fn next_end(&self) -> Option<u64> {
        self.shares.values().map(|share| share.term.next()).min()
    }

    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const CAPACITY: Capacity = Capacity { workers: 4, memory: 100, gpus: 2 };
    const DRAIN_NS: u64 = 20;

    fn workers(granted: Result<Grant, RefusedLease>) -> u32 {
        granted.expect("there is room").workers
    }

    pub fn ask(lease: u64, workers: u32) -> Ask {
        Ask {
            lease,
            workers,
            tasks_per_worker: 0,
            expiry_ns: 1,
            beat_ns: 1,
            duration_ns: u64::MAX,
            memory: 0,
            gpus: 0,
            blob_limits: [u64::MAX; 2],
            context_memory: u64::MAX,
            spawns_fresh: false,
            is_exact: false,
            program: Vec::new(),
            world: Vec::new(),
        }
    }

    #[test]
    fn a_worker_belongs_to_one_lease_at_a_time() {
        let mut leases = Leases::new(CAPACITY, Places::default(), DRAIN_NS);
        assert_eq!(workers(leases.grant(&ask(1, 3), 0)), 3);
        assert_eq!(workers(leases.grant(&ask(3, 0), 0)), 1, "0 is what is left");
        let refused = leases.grant(&ask(4, 0), 0).expect_err("none is left");
        assert_eq!(
            refused.to_string(),
            "1 workers are asked for, and 0 of 4 are free: other clients have the rest"
        );
        assert!(!refused.is_final(), "they may give it back");
        assert!(leases.end(1) && !leases.end(1));
        assert_eq!(workers(leases.grant(&ask(2, 2), 0)), 2);
        assert_eq!(leases.grant(&ask(2, 1), 0), Err(RefusedLease::Twice { lease: 2 }));
    }

    #[test]
    fn a_place_belongs_to_one_lease_at_a_time() {
        let mut leases = Leases::new(CAPACITY, Places::default(), DRAIN_NS);
        for lease in 1..=2 {
            leases.grant(&ask(lease, 2), 0).expect("there is room");
        }
        assert_eq!((leases.places(1), leases.places(2)), (&[0, 1][..], &[2, 3][..]));
        leases.leave(1);
        leases.grant(&ask(3, 1), 0).expect_err("its processes have not ended");
        leases.end(1);
        leases.grant(&ask(3, 1), 0).expect("there is room");
        assert_eq!(leases.places(3), [0]);
        assert!(leases.places(1).is_empty());
    }

    #[test]
    fn the_places_of_a_lease_are_near_to_each_other() {
        let domains = vec![0b1, 0b10, 0b1, 0b10];
        let places = Places { domains, pins: Vec::new() };
        let mut leases = Leases::new(CAPACITY, places, DRAIN_NS);
        for lease in 1..=2 {
            leases.grant(&ask(lease, 2), 0).expect("there is room");
        }
        assert_eq!((leases.places(1), leases.places(2)), (&[0, 2][..], &[1, 3][..]));
    }

    #[test]
    fn the_gpus_of_a_lease_are_those_that_its_workers_are_pinned_to() {
        let capacity = Capacity { gpus: 4, ..CAPACITY };
        let places = Places { domains: Vec::new(), pins: vec![0b1, 0b10, 0b100, 0b1000] };
        let mut leases = Leases::new(capacity, places, DRAIN_NS);
        let all = |lease, workers| Ask { gpus: u32::MAX, ..ask(lease, workers) };
        assert_eq!(leases.grant(&all(1, 1), 0).map(|grant| grant.gpus), Ok(0b1));
        assert_eq!(leases.grant(&all(2, 2), 0).map(|grant| grant.gpus), Ok(0b110));
        assert!(leases.end(1));
        let two = Ask { gpus: 2, is_exact: true, ..ask(3, 1) };
        assert_eq!(leases.grant(&two, 0).map(|grant| grant.gpus), Ok(0b1001), "it says how many");
        assert_eq!(leases.places(3), [0]);
    }

    #[test]
    fn workers_that_share_gpus_are_pinned_to_those_that_nobody_was_granted_first() {
        let places = Places { domains: Vec::new(), pins: vec![0b1, 0b1, 0b10, 0b10] };
        let mut leases = Leases::new(CAPACITY, places, DRAIN_NS);
        for (lease, gpus) in [(1, 0b1), (2, 0b10), (3, 0)] {
            let all = Ask { gpus: u32::MAX, ..ask(lease, 1) };
            assert_eq!(leases.grant(&all, 0).map(|grant| grant.gpus), Ok(gpus));
        }
        let places: Vec<_> = (1..=3).map(|lease| leases.places(lease)).collect();
        assert_eq!(places, [[0], [2], [1]]);
    }

    #[test]
    fn memory_and_gpus_are_given_once() {
        let mut leases = Leases::new(CAPACITY, Places::default(), DRAIN_NS);
        let grant =
            leases.grant(&Ask { memory: 60, gpus: 1, ..ask(1, 1) }, 0).expect("all is free");
        assert_eq!((grant.memory, grant.gpus), (60, 0b1));
        let rest = leases.grant(&Ask { gpus: u32::MAX, ..ask(2, 2) }, 0).expect("there is more");
        assert_eq!((rest.memory, rest.gpus), (40, 0b10), "its workers' part, as far as it is free");
    }

    #[test]
    fn an_executor_gets_as_much_as_there_is_of_what_it_asks_for() {
        let mut leases = Leases::new(CAPACITY, Places::default(), DRAIN_NS);
        let large = Ask { memory: 1_000, gpus: 8, ..ask(1, 3) };
        let grant = leases.grant(&large, 0).expect("it is at most");
        assert_eq!((grant.workers, grant.memory, grant.gpus), (3, 100, 0b11));
        let grant = leases.grant(&Ask { lease: 2, workers: 8, ..large }, 0).expect("one is free");
        assert_eq!((grant.workers, grant.memory, grant.gpus), (1, 0, 0));
    }

    #[test]
    fn what_is_asked_for_exactly_is_given_or_refused_for_good_where_there_is_less() {
        let mut leases = Leases::new(CAPACITY, Places::default(), DRAIN_NS);
        let exact = |lease| Ask { is_exact: true, ..ask(lease, 2) };
        let beyond = [
            (Ask { workers: 5, ..exact(1) }, "5 workers are asked for, and this node has 4"),
            (Ask { gpus: 3, ..exact(1) }, "3 GPUs are asked for, and this node has 2"),
            (
                Ask { memory: 101, ..exact(1) },
                "101 bytes of memory are asked for, and this node has 100",
            ),
        ];
        for (ask, text) in beyond {
            let refused = leases.grant(&ask, 0).expect_err("there is less");
            assert_eq!((refused.to_string().as_str(), refused.is_final()), (text, true));
        }
        let all = Ask { workers: 0, gpus: u32::MAX, ..exact(1) };
        assert_eq!(workers(leases.grant(&Ask { workers: 3, ..all }, 0)), 3);
        let refused = leases.grant(&exact(2), 0).expect_err("one is left");
        let text = "2 workers are asked for, and 1 of 4 are free: other clients have the rest";
        assert_eq!((refused.to_string().as_str(), refused.is_final()), (text, false));
    }

    fn lasting(duration_ns: u64) -> Leases {
        let mut leases = Leases::new(CAPACITY, Places::default(), DRAIN_NS);
        leases.grant(&Ask { duration_ns, ..ask(1, 1) }, 5).expect("there is room");
        leases
    }

    #[test]
    fn a_lease_with_a_time_drains_and_ends_with_it() {
        let mut leases = lasting(800);
        leases.grant(&ask(2, 1), 5).expect("there is room");
        assert_eq!(leases.next_end(), Some(785));
        assert!(leases.begin_drains(784).is_empty());
        assert_eq!(leases.begin_drains(785), [1]);
        assert!(leases.begin_drains(786).is_empty(), "it drains");
        assert_eq!(leases.next_end(), Some(805));
        assert!(leases.over(804).is_empty());
        assert_eq!(leases.over(805), [1]);
    }

    #[test]
    fn a_short_lease_drains_for_an_eighth_of_its_time() {
        assert_eq!(lasting(80).next_end(), Some(75));
        assert_eq!(lasting(0).next_end(), Some(5));
        assert_eq!(lasting(u64::MAX).next_end(), Some(u64::MAX), "and one without an end never");
    }

    #[test]
    fn a_lease_that_lasts_longer_drains_later() {
        let mut leases = lasting(800);
        assert_eq!(leases.begin_drains(790), [1]);
        assert!(leases.extend(1, 80, 795));
        assert!(leases.over(805).is_empty());
        assert_eq!(leases.next_end(), Some(865), "ten of the eighty before it is over");
        assert_eq!(leases.begin_drains(865), [1]);
        assert!(!leases.extend(2, 80, 795), "nobody has it");
    }

    #[test]
    fn nothing_lasts_longer_than_a_node_that_drains() {
        let mut leases = lasting(800);
        leases.drain();
        assert!(leases.begin_drains(790).is_empty(), "it drains with the node");
        assert!(!leases.extend(1, 800, 790));
        assert_eq!(leases.over(805), [1]);
        assert_eq!(leases.grant(&ask(2, 1), 790), Err(RefusedLease::Draining));
    }
}
