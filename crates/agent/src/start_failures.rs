//! Worker specs for which no worker could start here: a client that requests the same spec again gets the error at once.
//!
//! The client also receives the error over its link, but that message can be lost with the connection.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use gristmill_wire::peer::LeaseRequest;

/// Maximum number of worker specs in the cache. Assumption: fewer other clients request a lease between two requests of one
/// client.
const KEPT_MAX: usize = 64;

/// Hash of a worker spec: equal program and worker environment from the same client are the same spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerSpecHash(u64);

impl WorkerSpecHash {
    /// Returns the hash of a client's request. The client's name contains its process: a restarted program gets another hash.
    pub fn of(client: &str, request: &LeaseRequest) -> Self {
        let mut hasher = DefaultHasher::new();
        (client, &request.program, &request.worker_environment, request.spawns_fresh)
            .hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The worker specs that failed last, with their errors.
#[derive(Debug, Default)]
pub(crate) struct StartFailureCache(VecDeque<(WorkerSpecHash, String)>);

impl StartFailureCache {
    /// Records that no worker could start for a worker spec.
    pub fn note(&mut self, spec: WorkerSpecHash, text: &str) {
        self.0.retain(|(one, _)| *one != spec);
        self.0.push_back((spec, text.to_owned()));
        if self.0.len() > KEPT_MAX {
            self.0.pop_front();
        }
    }

    /// Returns the error of a worker spec that failed before.
    pub fn why(&self, spec: WorkerSpecHash) -> Option<&str> {
        self.0.iter().find(|(one, _)| *one == spec).map(|(_, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leases::tests::request;

    #[test]
    fn the_same_order_of_the_same_client_is_known_whatever_its_lease() {
        let mut failed = StartFailureCache::default();
        failed.note(WorkerSpecHash::of("n1:7", &request(1, 2)), "no module");
        assert_eq!(failed.why(WorkerSpecHash::of("n1:7", &request(9, 1))), Some("no module"));
        assert_eq!(failed.why(WorkerSpecHash::of("n1:8", &request(1, 2))), None, "another process");
        let other = LeaseRequest { worker_environment: b"mended".to_vec(), ..request(1, 2) };
        assert_eq!(failed.why(WorkerSpecHash::of("n1:7", &other)), None, "another executor");
    }

    #[test]
    fn the_oldest_orders_are_forgotten() {
        let mut failed = StartFailureCache::default();
        for number in 0..=KEPT_MAX {
            failed.note(WorkerSpecHash::of(&number.to_string(), &request(1, 1)), "no");
        }
        assert_eq!(failed.0.len(), KEPT_MAX);
        assert_eq!(failed.why(WorkerSpecHash::of("0", &request(1, 1))), None);
    }
}
