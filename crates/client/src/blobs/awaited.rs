//! Blobs that tasks here wait for, the peers that sent these tasks, and the peer that is asked for each blob.

use std::collections::BTreeMap;

use gristmill_wire::{Digest, PeerId, TaskId};

/// Promise that one peer's tasks wait for because they name a blob that is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobWaiter {
    pub peer: PeerId,
    pub promise: TaskId,
}

/// Peers that still wait for a blob after one peer has stopped waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Remaining {
    /// No peer waits.
    NoPeer,
    /// The peer that was asked still waits, perhaps with others.
    Same,
    /// Other peers wait, and this one must be asked now.
    Next(PeerId),
}

/// Blobs that tasks wait for. Of the peers that wait for a blob, the first is asked for it, and bytes from the others do not
/// count. So only the peer that named the blob first can spoil it, and only while that peer is connected.
#[derive(Debug, Default)]
pub(crate) struct AwaitedBlobs(BTreeMap<Digest, Vec<BlobWaiter>>);

impl AwaitedBlobs {
    /// Returns the promise that a peer's tasks wait for because they name a blob. If there is none yet, `promise` makes it.
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
        waiters.push(BlobWaiter { peer, promise });
        promise
    }

    /// Returns the peer that is asked for a blob; `None` if no peer waits for it.
    pub fn requested_from(&self, digest: Digest) -> Option<PeerId> {
        Some(self.0.get(&digest)?.first()?.peer)
    }

    /// Removes a peer whose tasks need not wait for a blob any more. Returns its promise and the peers that remain, or `None`
    /// if its tasks did not wait.
    pub fn leave(&mut self, digest: Digest, peer: PeerId) -> Option<(TaskId, Remaining)> {
        let waiters = self.0.get_mut(&digest)?;
        let place = waiters.iter().position(|waiter| waiter.peer == peer)?;
        let promise = waiters.remove(place).promise;
        let remaining = match waiters.first() {
            None => Remaining::NoPeer,
            Some(next) if place == 0 => Remaining::Next(next.peer),
            Some(_) => Remaining::Same,
        };
        if remaining == Remaining::NoPeer {
            self.0.remove(&digest);
        }
        Some((promise, remaining))
    }

    /// Removes a blob that no peer has to wait for any more. Returns the peers that waited.
    pub fn take(&mut self, digest: Digest) -> Vec<BlobWaiter> {
        self.0.remove(&digest).unwrap_or_default()
    }

    /// Returns the blobs that a peer's tasks wait for.
    pub fn of(&self, peer: PeerId) -> Vec<Digest> {
        let waits = |waiters: &[BlobWaiter]| waiters.iter().any(|waiter| waiter.peer == peer);
        self.0.iter().filter(|(_, waiters)| waits(waiters)).map(|(&digest, _)| digest).collect()
    }

    /// Returns the number of blobs that tasks wait for.
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

    /// Creates a table in which tasks of three peers wait for one blob.
    fn of_three() -> AwaitedBlobs {
        let mut awaited = AwaitedBlobs::default();
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
        assert_eq!(awaited.requested_from(BLOB), Some(PEERS[0]));
        assert_eq!(awaited.leave(BLOB, PEERS[1]), Some((promise(1), Remaining::Same)));
        assert_eq!(awaited.leave(BLOB, PEERS[1]), None);
        let next = Some((promise(0), Remaining::Next(PEERS[2])));
        assert_eq!(awaited.leave(BLOB, PEERS[0]), next);
        assert_eq!(awaited.requested_from(BLOB), Some(PEERS[2]));
        assert_eq!(awaited.leave(BLOB, PEERS[2]), Some((promise(2), Remaining::NoPeer)));
        assert_eq!((awaited.requested_from(BLOB), awaited.len()), (None, 0));
    }
}
