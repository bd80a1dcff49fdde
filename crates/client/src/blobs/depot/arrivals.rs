//! Blobs that come: whatever way their bytes take, they are hashed here, and count only once they are the right ones.

use std::collections::HashMap;

use gristmill_store::{Progress, Store, Verifier};
use gristmill_wire::{BlobName, Digest};

/// Bytes of one blob that are hashed before other things have their turn.
const TURN: u64 = 4 << 20;

#[derive(Debug, Default)]
struct Arrival {
    verifier: Verifier,
    /// Bytes that came from other nodes, those that came twice included.
    fetched: u64,
}

/// Blobs that come.
#[derive(Debug, Default)]
pub(super) struct Arrivals(HashMap<Digest, Arrival>);

/// What a blob that came turned out to be.
#[derive(Debug)]
pub(super) enum Verdict {
    /// What its name says; with the bytes that came from other nodes.
    Right(Digest, u64),
    /// Something else.
    Wrong(BlobName),
}

impl Arrivals {
    /// Bytes of a blob came from another node.
    pub fn note_fetched(&mut self, digest: Digest, count: u64) {
        self.0.entry(digest).or_default().fetched += count;
    }

    /// What comes of a blob is nothing to look at any more; gives the bytes that came from other nodes.
    pub fn forget(&mut self, digest: Digest) -> u64 {
        self.0.remove(&digest).map_or(0, |arrival| arrival.fetched)
    }

    /// Hashes what came; gives those that are whole, and whether there is more to do at once.
    pub fn attend(&mut self, store: &Store) -> (Vec<Verdict>, bool) {
        let (mut verdicts, mut is_busy) = (Vec::new(), false);
        for (name, Progress { part, received, .. }) in store.coming() {
            let arrival = self.0.entry(name.digest).or_default();
            let turn = received.min(arrival.verifier.hashed() + TURN);
            arrival.verifier.follow(&part, turn);
            is_busy |= turn < received;
            if arrival.verifier.hashed() < name.size {
                continue;
            }
            if arrival.verifier.digest() == name.digest {
                store.complete(name.digest);
                verdicts.push(Verdict::Right(name.digest, arrival.fetched));
                self.0.remove(&name.digest);
            } else {
                store.begin_anew(name.digest);
                arrival.verifier = Verifier::default();
                verdicts.push(Verdict::Wrong(name));
            }
        }
        (verdicts, is_busy)
    }
}
