//! Inbound blobs: their bytes are hashed here, whatever way they came, and count only once the hash matches.

use std::collections::HashMap;

use gristmill_store::{BlobProgress, Store, Verifier};
use gristmill_wire::{BlobName, Digest};

/// Bytes of one blob that are hashed before other work has its turn.
const TURN: u64 = 4 << 20;

#[derive(Debug, Default)]
struct Arrival {
    verifier: Verifier,
    /// Bytes that came from other nodes, including those that came twice.
    fetched: u64,
}

/// Blobs whose bytes are arriving.
#[derive(Debug, Default)]
pub(super) struct InboundBlobs(HashMap<Digest, Arrival>);

/// Result of the verification of a blob.
#[derive(Debug)]
pub(super) enum BlobVerification {
    /// The bytes match the name; with the number of bytes that came from other nodes.
    Right(Digest, u64),
    /// The bytes do not match the name.
    Wrong(BlobName),
}

impl InboundBlobs {
    /// Counts bytes of a blob that came from another node.
    pub fn note_fetched(&mut self, digest: Digest, count: u64) {
        self.0.entry(digest).or_default().fetched += count;
    }

    /// Forgets a blob whose bytes need not be verified. Returns the number of bytes that came from other nodes.
    pub fn forget(&mut self, digest: Digest) -> u64 {
        self.0.remove(&digest).map_or(0, |arrival| arrival.fetched)
    }

    /// Hashes the bytes that came. Returns the complete blobs, and true if there is more to do at once.
    pub fn attend(&mut self, store: &Store) -> (Vec<BlobVerification>, bool) {
        let (mut verdicts, mut is_busy) = (Vec::new(), false);
        for (name, BlobProgress { part, received, .. }) in store.coming() {
            let arrival = self.0.entry(name.digest).or_default();
            let turn = received.min(arrival.verifier.hashed() + TURN);
            arrival.verifier.follow(&part, turn);
            is_busy |= turn < received;
            if arrival.verifier.hashed() < name.size {
                continue;
            }
            if arrival.verifier.digest() == name.digest {
                store.complete(name.digest);
                verdicts.push(BlobVerification::Right(name.digest, arrival.fetched));
                self.0.remove(&name.digest);
            } else {
                store.begin_anew(name.digest);
                arrival.verifier = Verifier::default();
                verdicts.push(BlobVerification::Wrong(name));
            }
        }
        (verdicts, is_busy)
    }
}
