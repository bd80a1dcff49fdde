//! Which lease has how much of the node. A pure state machine: `(state, event, now) -> answer`.

use std::collections::BTreeMap;

use gristmill_wire::peer::Ask;
use thiserror::Error;

use crate::Capacity;

/// Why a lease is not granted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum RefusedLease {
    /// Others have what is asked for.
    #[error("{asked} {what} are asked for, and {left} of {all} are free")]
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
    /// The number stands for another lease.
    #[error("lease {lease:016x} is given already")]
    Twice {
        /// The number.
        lease: u64,
    },
}

#[derive(Debug, Clone, Copy)]
struct Share {
    workers: u32,
    memory: u64,
    gpus: u32,
    ends_at: u64,
}

/// The leases of one node.
#[derive(Debug)]
pub(crate) struct Leases {
    capacity: Capacity,
    shares: BTreeMap<u64, Share>,
}

impl Leases {
    pub const fn new(capacity: Capacity) -> Self {
        Self { capacity, shares: BTreeMap::new() }
    }

    /// Gives a lease; says how many workers it has. Zero asks for all that are free.
    pub fn grant(&mut self, ask: &Ask, now: u64) -> Result<u32, RefusedLease> {
        if self.shares.contains_key(&ask.lease) {
            return Err(RefusedLease::Twice { lease: ask.lease });
        }
        let used = |count: fn(&Share) -> u64| self.shares.values().map(count).sum::<u64>();
        let fit = |what, asked: u64, all: u64, used: u64| {
            let left = all.saturating_sub(used);
            if asked <= left {
                Ok(left)
            } else {
                Err(RefusedLease::Taken { asked, what, left, all })
            }
        };
        let Capacity { workers, memory, gpus } = self.capacity;
        let asked = u64::from(ask.workers).max(1);
        let left = fit("workers", asked, workers.into(), used(|share| share.workers.into()))?;
        fit("bytes of memory", ask.memory, memory, used(|share| share.memory))?;
        fit("GPUs", ask.gpus.into(), gpus.into(), used(|share| share.gpus.into()))?;
        let workers = if ask.workers == 0 { left } else { ask.workers.into() };
        let workers = u32::try_from(workers).unwrap_or(u32::MAX);
        let ends_at = now.saturating_add(ask.duration_ns);
        let share = Share { workers, memory: ask.memory, gpus: ask.gpus, ends_at };
        self.shares.insert(ask.lease, share);
        Ok(workers)
    }

    /// Takes a lease back; false when there is none of that number.
    pub fn end(&mut self, lease: u64) -> bool {
        self.shares.remove(&lease).is_some()
    }

    /// The leases whose time is over.
    pub fn over(&self, now: u64) -> Vec<u64> {
        let is_over = |entry: &(&u64, &Share)| entry.1.ends_at <= now;
        self.shares.iter().filter(is_over).map(|(&lease, _)| lease).collect()
    }

    /// When the next lease is over.
    pub fn next_end(&self) -> Option<u64> {
        self.shares.values().map(|share| share.ends_at).min()
    }

    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: Capacity = Capacity { workers: 4, memory: 100, gpus: 1 };

    fn ask(lease: u64, workers: u32) -> Ask {
        Ask {
            lease,
            workers,
            tasks_per_worker: 0,
            expiry_ns: 1,
            beat_ns: 1,
            duration_ns: u64::MAX,
            memory: 0,
            gpus: 0,
            spawns_fresh: false,
            program: Vec::new(),
            world: Vec::new(),
        }
    }

    #[test]
    fn a_worker_belongs_to_one_lease_at_a_time() {
        let mut leases = Leases::new(CAPACITY);
        assert_eq!(leases.grant(&ask(1, 3), 0), Ok(3));
        let refused = leases.grant(&ask(2, 2), 0).expect_err("one is left");
        assert_eq!(refused.to_string(), "2 workers are asked for, and 1 of 4 are free");
        assert_eq!(leases.grant(&ask(3, 0), 0), Ok(1), "0 is what is left");
        assert!(leases.grant(&ask(4, 0), 0).is_err());
        assert!(leases.end(1) && !leases.end(1));
        assert_eq!(leases.grant(&ask(2, 2), 0), Ok(2));
        assert_eq!(leases.grant(&ask(2, 1), 0), Err(RefusedLease::Twice { lease: 2 }));
    }

    #[test]
    fn memory_and_gpus_are_given_once() {
        let mut leases = Leases::new(CAPACITY);
        assert_eq!(leases.grant(&Ask { memory: 60, gpus: 1, ..ask(1, 1) }, 0), Ok(1));
        assert!(leases.grant(&Ask { memory: 60, ..ask(2, 1) }, 0).is_err());
        assert!(leases.grant(&Ask { gpus: 1, ..ask(2, 1) }, 0).is_err());
        assert_eq!(leases.grant(&Ask { memory: 40, ..ask(2, 1) }, 0), Ok(1));
    }

    #[test]
    fn a_lease_with_a_time_ends_with_it() {
        let mut leases = Leases::new(CAPACITY);
        leases.grant(&Ask { duration_ns: 10, ..ask(1, 1) }, 5).expect("there is room");
        leases.grant(&ask(2, 1), 5).expect("there is room");
        assert_eq!(leases.next_end(), Some(15));
        assert!(leases.over(14).is_empty());
        assert_eq!(leases.over(15), [1]);
    }
}
