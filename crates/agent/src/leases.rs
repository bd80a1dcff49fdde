//! The share of the node's resources that each lease has. A pure state machine: `(state, event, now) -> answer`.

use std::collections::BTreeMap;

use gristmill_wire::GPUS_MAX;
use gristmill_wire::peer::{LeaseGrant, LeaseRequest};
use thiserror::Error;

use crate::Capacity;
use crate::affinity::{CpuSlotAffinity, FreeGpus};

/// Reason to refuse a lease.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum RefusedLease {
    /// Other leases have the requested resources.
    #[error(
        "the client requests {requested} {what}, and {left} of {all} are free: other clients have the rest"
    )]
    Taken {
        /// Amount that the client requested.
        requested: u64,
        /// Name of the resource.
        what: &'static str,
        /// Amount that is free.
        left: u64,
        /// Amount that the node has.
        all: u64,
    },
    /// The request exceeds the capacity of the node.
    #[error("the client requests {requested} {what}, and this node has {all}")]
    Beyond {
        /// Amount that the client requested.
        requested: u64,
        /// Name of the resource.
        what: &'static str,
        /// Amount that the node has.
        all: u64,
    },
    /// The lease would be shorter than `NodeDescription::lease_min_ns`, which is a second in an agent.
    #[error("the lease would end in {left_ms} ms, and a lease lasts at least one second")]
    TooShort {
        /// Time that the lease would last, milliseconds.
        left_ms: u64,
    },
    /// Another lease has this number.
    #[error("lease {lease:016x} is granted already")]
    Twice {
        /// The number.
        lease: u64,
    },
    /// The node drains and will end.
    #[error("the node is draining and grants no more leases")]
    Draining,
}

impl RefusedLease {
    /// Returns true if the node will refuse this request at any time.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Beyond { .. })
    }
}

/// A lease drains for at most 1/8 of its time: a longer drain would leave little of a short lease.
const DRAIN_SHARE: u64 = 8;

/// The times at which a lease drains and ends.
#[derive(Debug, Clone, Copy)]
struct Term {
    drains_at: u64,
    ends_at: u64,
    is_draining: bool,
}

impl Term {
    /// Returns the term of a lease that lasts for `duration_ns` from now on, and drains for the last `drain_ns` of it, or for
    /// 1/8 of its time if that is shorter.
    fn new(duration_ns: u64, drain_ns: u64, now: u64) -> Self {
        let ends_at = now.saturating_add(duration_ns);
        let drain_ns =
            if ends_at == u64::MAX { 0 } else { drain_ns.min(duration_ns / DRAIN_SHARE) };
        Self { drains_at: ends_at - drain_ns, ends_at, is_draining: false }
    }

    /// Returns the time of the next action: the drain, or the end of a lease that drains.
    const fn next(&self) -> u64 {
        if self.is_draining { self.ends_at } else { self.drains_at }
    }
}

#[derive(Debug, Clone)]
struct LeaseAllocation {
    /// The node's CPU slots that the lease's workers have.
    cpu_slots: Vec<u16>,
    memory: u64,
    /// The GPUs of the lease, one bit each.
    gpus: u16,
    term: Term,
}

/// The amount of a resource that the node has, and the amount of it that leases use.
struct ResourceUsage {
    what: &'static str,
    all: u64,
    used: u64,
}

impl ResourceUsage {
    const fn new(what: &'static str, all: u64, used: u64) -> Self {
        Self { what, all, used }
    }

    const fn left(&self) -> u64 {
        self.all.saturating_sub(self.used)
    }

    /// Returns `wanted`, or the free amount if that is less; refuses if the free amount is less than `least`.
    fn part(&self, wanted: u64, least: u64) -> Result<u64, RefusedLease> {
        let &Self { what, all, .. } = self;
        let left = self.left();
        if least > all {
            Err(RefusedLease::Beyond { requested: least, what, all })
        } else if least > left {
            Err(RefusedLease::Taken { requested: least, what, left, all })
        } else {
            Ok(wanted.min(left))
        }
    }
}

/// The leases of one node.
#[derive(Debug)]
pub(crate) struct Leases {
    capacity: Capacity,
    affinity: CpuSlotAffinity,
    /// Time that tasks have to finish before the end of a lease.
    drain_ns: u64,
    /// True if the node drains, and all leases with it: the node grants no lease and extends none.
    is_draining: bool,
    shares: BTreeMap<u64, LeaseAllocation>,
}

impl Leases {
    pub const fn new(capacity: Capacity, affinity: CpuSlotAffinity, drain_ns: u64) -> Self {
        Self { capacity, affinity, drain_ns, is_draining: false, shares: BTreeMap::new() }
    }

    /// Grants a lease: as much of each requested resource as is free, and at least one worker. An exact request gets the
    /// requested amount or is refused. A request of 0 workers means all free workers. A request without an amount of memory
    /// gets its workers' part of the node's memory.
    pub fn grant(&mut self, request: &LeaseRequest, now: u64) -> Result<LeaseGrant, RefusedLease> {
        if self.is_draining {
            return Err(RefusedLease::Draining);
        }
        if self.shares.contains_key(&request.lease) {
            return Err(RefusedLease::Twice { lease: request.lease });
        }
        let (workers, memory, gpus) = self.share_of(request)?;
        let term = Term::new(request.duration_ns, self.drain_ns, now);
        let (cpu_slots, gpus) = self.choose(workers, gpus);
        let share = LeaseAllocation { cpu_slots, memory, gpus, term };
        self.shares.insert(request.lease, share);
        let LeaseRequest { lease, duration_ns: ends_in_ns, .. } = *request;
        Ok(LeaseGrant { lease, workers, ends_in_ns, memory, gpus })
    }

    /// Returns the number of workers, the bytes of memory and the number of GPUs for a request. `None` as the number of GPUs
    /// means the free ones among those that the lease's CPU slots are pinned to and those that no CPU slot is pinned to.
    fn share_of(&self, request: &LeaseRequest) -> Result<(u32, u64, Option<u64>), RefusedLease> {
        let used =
            |count: fn(&LeaseAllocation) -> u64| self.shares.values().map(count).sum::<u64>();
        let all_workers = self.capacity.workers;
        let room = ResourceUsage::new(
            "workers",
            all_workers.into(),
            used(|share| share.cpu_slots.len() as u64),
        );
        let wanted = if request.workers == 0 { room.left().max(1) } else { request.workers.into() };
        let least = if request.is_exact { wanted } else { 1 };
        let workers = u32::try_from(room.part(wanted, least)?).unwrap_or(u32::MAX);
        let room =
            ResourceUsage::new("bytes of memory", self.capacity.memory, used(|share| share.memory));
        let own = self.capacity.memory / u64::from(all_workers.max(1)) * u64::from(workers);
        let wanted = if request.memory == 0 { own } else { request.memory };
        let memory = room.part(wanted, if request.is_exact { request.memory } else { 0 })?;
        let taken = used(|share| share.gpus.count_ones().into());
        let room = ResourceUsage::new("GPUs", self.capacity.gpus.into(), taken);
        if request.gpus == u32::MAX {
            return Ok((workers, memory, None));
        }
        let gpus =
            room.part(request.gpus.into(), if request.is_exact { request.gpus.into() } else { 0 })?;
        Ok((workers, memory, Some(gpus)))
    }

    /// Returns the CPU slots that no lease has.
    fn free_cpu_slots(&self) -> Vec<u16> {
        let all = 0..u16::try_from(self.capacity.workers).unwrap_or(u16::MAX);
        let is_free =
            |cpu_slot: &u16| !self.shares.values().any(|one| one.cpu_slots.contains(cpu_slot));
        all.filter(is_free).collect()
    }

    /// Returns the CPU slots and the GPUs for a lease with this number of workers and GPUs.
    fn choose(&self, workers: u32, gpus: Option<u64>) -> (Vec<u16>, u16) {
        let granted = self.shares.values().fold(0, |set, share| set | share.gpus);
        let used =
            self.shares.values().fold(0, |set, share| set | self.affinity.pinned(&share.cpu_slots));
        let cpu_slots = self.affinity.pick(&self.free_cpu_slots(), granted, workers);
        let all = (0..GPUS_MAX.min(self.capacity.gpus as usize)).fold(0, |set, one| set | 1 << one);
        let gpus = self.affinity.gpus(&cpu_slots, FreeGpus { free: all & !granted, used }, gpus);
        (cpu_slots, gpus)
    }

    /// Returns the node's CPU slots that the lease's workers have, in the order of the lease's slots.
    pub fn cpu_slots(&self, lease: u64) -> &[u16] {
        self.shares.get(&lease).map_or(&[], |share| &share.cpu_slots)
    }

    /// Removes the time limit of a lease that is over while its processes end: it keeps its share until [`Self::end`].
    pub fn leave(&mut self, lease: u64) {
        if let Some(share) = self.shares.get_mut(&lease) {
            share.term = Term::new(u64::MAX, 0, 0);
        }
    }

    /// Takes the share of a lease back; returns false if there is no lease of this number.
    pub fn end(&mut self, lease: u64) -> bool {
        self.shares.remove(&lease).is_some()
    }

    /// Restarts the time of a lease with `duration_ns` from now on, and stops its drain. Returns false if the node drains or
    /// the lease does not exist.
    pub fn extend(&mut self, lease: u64, duration_ns: u64, now: u64) -> bool {
        let share = self.shares.get_mut(&lease).filter(|_| !self.is_draining);
        let term = Term::new(duration_ns, self.drain_ns, now);
        share.map(|share| share.term = term).is_some()
    }

    /// Drains the node: it grants and extends no lease any more, and leases only wait for their end.
    pub fn drain(&mut self) {
        self.is_draining = true;
        self.shares.values_mut().for_each(|share| share.term.is_draining = true);
    }

    /// Returns the leases whose drain begins now. A lease is returned again only after it was extended.
    pub fn begin_drains(&mut self, now: u64) -> Vec<u64> {
        let is_due = |term: &Term| !term.is_draining && term.drains_at <= now;
        let due = self.shares.iter_mut().filter(|(_, share)| is_due(&share.term));
        due.map(|(&lease, share)| {
            share.term.is_draining = true;
            lease
        })
        .collect()
    }

    /// Returns the leases whose time is over.
    pub fn over(&self, now: u64) -> Vec<u64> {
        let is_over = |entry: &(&u64, &LeaseAllocation)| entry.1.term.ends_at <= now;
        self.shares.iter().filter(is_over).map(|(&lease, _)| lease).collect()
    }

    /// Returns the time at which the next lease starts to drain or ends.
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

    fn workers(granted: Result<LeaseGrant, RefusedLease>) -> u32 {
        granted.expect("there is room").workers
    }

    pub fn request(lease: u64, workers: u32) -> LeaseRequest {
        LeaseRequest {
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
            worker_environment: Vec::new(),
        }
    }

    #[test]
    fn a_worker_belongs_to_one_lease_at_a_time() {
        let mut leases = Leases::new(CAPACITY, CpuSlotAffinity::default(), DRAIN_NS);
        assert_eq!(workers(leases.grant(&request(1, 3), 0)), 3);
        assert_eq!(workers(leases.grant(&request(3, 0), 0)), 1, "0 workers are left");
        let refused = leases.grant(&request(4, 0), 0).expect_err("none is left");
        assert_eq!(
            refused.to_string(),
            "the client requests 1 workers, and 0 of 4 are free: other clients have the rest"
        );
        assert!(!refused.is_final(), "they may give it back");
        assert!(leases.end(1) && !leases.end(1));
        assert_eq!(workers(leases.grant(&request(2, 2), 0)), 2);
        assert_eq!(leases.grant(&request(2, 1), 0), Err(RefusedLease::Twice { lease: 2 }));
    }

    #[test]
    fn a_place_belongs_to_one_lease_at_a_time() {
        let mut leases = Leases::new(CAPACITY, CpuSlotAffinity::default(), DRAIN_NS);
        for lease in 1..=2 {
            leases.grant(&request(lease, 2), 0).expect("there is room");
        }
        assert_eq!((leases.cpu_slots(1), leases.cpu_slots(2)), (&[0, 1][..], &[2, 3][..]));
        leases.leave(1);
        leases.grant(&request(3, 1), 0).expect_err("its processes have not ended");
        leases.end(1);
        leases.grant(&request(3, 1), 0).expect("there is room");
        assert_eq!(leases.cpu_slots(3), [0]);
        assert!(leases.cpu_slots(1).is_empty());
    }

    #[test]
    fn the_places_of_a_lease_are_near_to_each_other() {
        let numa_nodes = vec![0b1, 0b10, 0b1, 0b10];
        let affinity = CpuSlotAffinity { numa_nodes, pins: Vec::new() };
        let mut leases = Leases::new(CAPACITY, affinity, DRAIN_NS);
        for lease in 1..=2 {
            leases.grant(&request(lease, 2), 0).expect("there is room");
        }
        assert_eq!((leases.cpu_slots(1), leases.cpu_slots(2)), (&[0, 2][..], &[1, 3][..]));
    }

    #[test]
    fn the_gpus_of_a_lease_are_those_that_its_workers_are_pinned_to() {
        let capacity = Capacity { gpus: 4, ..CAPACITY };
        let affinity =
            CpuSlotAffinity { numa_nodes: Vec::new(), pins: vec![0b1, 0b10, 0b100, 0b1000] };
        let mut leases = Leases::new(capacity, affinity, DRAIN_NS);
        let all = |lease, workers| LeaseRequest { gpus: u32::MAX, ..request(lease, workers) };
        assert_eq!(leases.grant(&all(1, 1), 0).map(|grant| grant.gpus), Ok(0b1));
        assert_eq!(leases.grant(&all(2, 2), 0).map(|grant| grant.gpus), Ok(0b110));
        assert!(leases.end(1));
        let two = LeaseRequest { gpus: 2, is_exact: true, ..request(3, 1) };
        assert_eq!(leases.grant(&two, 0).map(|grant| grant.gpus), Ok(0b1001), "it says how many");
        assert_eq!(leases.cpu_slots(3), [0]);
    }

    #[test]
    fn workers_that_share_gpus_are_pinned_to_those_without_a_grant_first() {
        let affinity = CpuSlotAffinity { numa_nodes: Vec::new(), pins: vec![0b1, 0b1, 0b10, 0b10] };
        let mut leases = Leases::new(CAPACITY, affinity, DRAIN_NS);
        for (lease, gpus) in [(1, 0b1), (2, 0b10), (3, 0)] {
            let all = LeaseRequest { gpus: u32::MAX, ..request(lease, 1) };
            assert_eq!(leases.grant(&all, 0).map(|grant| grant.gpus), Ok(gpus));
        }
        let cpu_slots: Vec<_> = (1..=3).map(|lease| leases.cpu_slots(lease)).collect();
        assert_eq!(cpu_slots, [[0], [2], [1]]);
    }

    #[test]
    fn memory_and_gpus_are_given_once() {
        let mut leases = Leases::new(CAPACITY, CpuSlotAffinity::default(), DRAIN_NS);
        let grant = leases
            .grant(&LeaseRequest { memory: 60, gpus: 1, ..request(1, 1) }, 0)
            .expect("all is free");
        assert_eq!((grant.memory, grant.gpus), (60, 0b1));
        let rest = leases
            .grant(&LeaseRequest { gpus: u32::MAX, ..request(2, 2) }, 0)
            .expect("there is more");
        assert_eq!(
            (rest.memory, rest.gpus),
            (40, 0b10),
            "the part for its workers, limited by the free memory"
        );
    }

    #[test]
    fn an_executor_gets_as_much_as_there_is_of_what_it_asks_for() {
        let mut leases = Leases::new(CAPACITY, CpuSlotAffinity::default(), DRAIN_NS);
        let large = LeaseRequest { memory: 1_000, gpus: 8, ..request(1, 3) };
        let grant = leases.grant(&large, 0).expect("it is at most");
        assert_eq!((grant.workers, grant.memory, grant.gpus), (3, 100, 0b11));
        let grant =
            leases.grant(&LeaseRequest { lease: 2, workers: 8, ..large }, 0).expect("one is free");
        assert_eq!((grant.workers, grant.memory, grant.gpus), (1, 0, 0));
    }

    #[test]
    fn what_is_asked_for_exactly_is_given_or_refused_for_good_where_there_is_less() {
        let mut leases = Leases::new(CAPACITY, CpuSlotAffinity::default(), DRAIN_NS);
        let exact = |lease| LeaseRequest { is_exact: true, ..request(lease, 2) };
        let beyond = [
            (
                LeaseRequest { workers: 5, ..exact(1) },
                "the client requests 5 workers, and this node has 4",
            ),
            (
                LeaseRequest { gpus: 3, ..exact(1) },
                "the client requests 3 GPUs, and this node has 2",
            ),
            (
                LeaseRequest { memory: 101, ..exact(1) },
                "the client requests 101 bytes of memory, and this node has 100",
            ),
        ];
        for (request, text) in beyond {
            let refused = leases.grant(&request, 0).expect_err("there is less");
            assert_eq!((refused.to_string().as_str(), refused.is_final()), (text, true));
        }
        let all = LeaseRequest { workers: 0, gpus: u32::MAX, ..exact(1) };
        assert_eq!(workers(leases.grant(&LeaseRequest { workers: 3, ..all }, 0)), 3);
        let refused = leases.grant(&exact(2), 0).expect_err("one is left");
        let text =
            "the client requests 2 workers, and 1 of 4 are free: other clients have the rest";
        assert_eq!((refused.to_string().as_str(), refused.is_final()), (text, false));
    }

    fn lasting(duration_ns: u64) -> Leases {
        let mut leases = Leases::new(CAPACITY, CpuSlotAffinity::default(), DRAIN_NS);
        leases.grant(&LeaseRequest { duration_ns, ..request(1, 1) }, 5).expect("there is room");
        leases
    }

    #[test]
    fn a_lease_with_a_time_drains_and_ends_with_it() {
        let mut leases = lasting(800);
        leases.grant(&request(2, 1), 5).expect("there is room");
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
        assert!(!leases.extend(2, 80, 795), "no lease has it");
    }

    #[test]
    fn nothing_lasts_longer_than_a_node_that_drains() {
        let mut leases = lasting(800);
        leases.drain();
        assert!(leases.begin_drains(790).is_empty(), "it drains with the node");
        assert!(!leases.extend(1, 800, 790));
        assert_eq!(leases.over(805), [1]);
        assert_eq!(leases.grant(&request(2, 1), 790), Err(RefusedLease::Draining));
    }
}
