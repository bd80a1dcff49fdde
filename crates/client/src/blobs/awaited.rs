//! Blobs that tasks here wait for, whose tasks those are, and who is asked for each.

use std::collections::BTreeMap;

use gristmill_wire::{Digest, PeerId, TaskId};

/// What tasks of one peer wait for that name a blob which is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub peer: PeerId,
    pub promise: TaskId,
}

/// Who waits for a blob once one of them does not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Remaining {
    /// Nobody.
    Nobody,
    /// Whoever was asked for it, perhaps with others.
    Same,
    /// Others, of whom this one is to be asked for it.
    Next(PeerId),
}

/// Blobs that tasks wait for. Of those who wait for one the first is asked for it: what others give of it does not count, so
/// that nobody can harm it but who has named it first, for as long as that one is there.
#[derive(Debug, Default)]
pub(crate) struct Awaited(BTreeMap<Digest, Vec<Waiter>>);

impl Awaited {
    /// What a peer's tasks wait for that name a blob; `promise` makes it where there is none yet.
    pub fn promise(
        &mut self,
        digest: Digest,
        peer: PeerId,
        promise: impl FnOnce() -> TaskId,
    ) -> TaskId {
        let waiters = self.0.entry(digest).or_default();
        if let Some(waiter) = waiters.iter().find(|waiter| waiter.peer == peer) {
            return waiter.promise;
        }
        let promise = promise();
        waiters.push(Waiter { peer, promise });
        promise
    }

    /// Who is asked for a blob; none: nobody waits for it.
    pub fn asked(&self, digest: Digest) -> Option<PeerId> {
        Some(self.0.get(&digest)?.first()?.peer)
    }

    /// A peer's tasks need not wait for a blob any more: their promise, if they did, and who else waits.
    pub fn leave(&mut self, digest: Digest, peer: PeerId) -> Option<(TaskId, Remaining)> {
        let waiters = self.0.get_mut(&digest)?;
        let place = waiters.iter().position(|waiter| waiter.peer == peer)?;
        let promise = waiters.remove(place).promise;
        let remaining = match waiters.first() {
            None => Remaining::Nobody,
            Some(next) if place == 0 => Remaining::Next(next.peer),
            Some(_) => Remaining::Same,
        };
        if remaining == Remaining::Nobody {
            self.0.remove(&digest);
        }
        Some((promise, remaining))
    }

    /// Nobody has to wait for a blob any more: who did.
    pub fn take(&mut self, digest: Digest) -> Vec<Waiter> {
        self.0.remove(&digest).unwrap_or_default()
    }

    /// What a peer's tasks wait for.
    pub fn of(&self, peer: PeerId) -> Vec<Digest> {
        let waits = |waiters: &[Waiter]| waiters.iter().any(|waiter| waiter.peer == peer);
        self.0.iter().filter(|(_, waiters)| waits(waiters)).map(|(&digest, _)| digest).collect()
    }

    /// How many are waited for.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOB: Digest = Digest([1; 32]);
    const PEERS: [PeerId; 3] = [PeerId(4), PeerId(5), PeerId(6)];

    fn promise(number: u32) -> TaskId {
        TaskId::new(number, 1)
    }

    /// What tasks of three peers wait for.
    fn of_three() -> Awaited {
        let mut awaited = Awaited::default();
        for (number, peer) in (0..).zip(PEERS) {
            assert_eq!(awaited.promise(BLOB, peer, || promise(number)), promise(number));
        }
        awaited
    }

    #[test]
    fn all_tasks_of_a_peer_wait_for_one_promise() {
        let mut awaited = of_three();
        assert_eq!(awaited.promise(BLOB, PEERS[1], || unreachable!("there is one")), promise(1));
        assert_eq!((awaited.len(), awaited.of(PEERS[1])), (1, vec![BLOB]));
    }

    #[test]
    fn the_next_one_is_asked_where_the_first_does_not_wait_any_more() {
        let mut awaited = of_three();
        assert_eq!(awaited.asked(BLOB), Some(PEERS[0]));
        assert_eq!(awaited.leave(BLOB, PEERS[1]), Some((promise(1), Remaining::Same)));
        assert_eq!(awaited.leave(BLOB, PEERS[1]), None);
        let next = Some((promise(0), Remaining::Next(PEERS[2])));
        assert_eq!(awaited.leave(BLOB, PEERS[0]), next);
        assert_eq!(awaited.asked(BLOB), Some(PEERS[2]));
        assert_eq!(awaited.leave(BLOB, PEERS[2]), Some((promise(2), Remaining::Nobody)));
        assert_eq!((awaited.asked(BLOB), awaited.len()), (None, 0));
    }
}
