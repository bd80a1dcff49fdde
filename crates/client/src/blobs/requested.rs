//! Results that peers requested and that are being read back from disk.

use std::collections::BTreeMap;

use gristmill_shm::BlockPart;
use gristmill_wire::{BlobName, Digest, PeerId};

/// Number of bytes that the peer has, and the block that the result is read into. The table holds the block, because an
/// unused blob goes back to disk when memory is short, before it could be sent.
pub(crate) type Wanted = (u64, BlockPart);

/// Results that peers requested and that are being read back from disk. A repeated request replaces the earlier one.
#[derive(Debug, Default)]
pub(crate) struct RequestedResults(BTreeMap<(Digest, PeerId), Wanted>);

impl RequestedResults {
    /// Records that a peer requests a result.
    pub fn note(&mut self, peer: PeerId, name: BlobName, wanted: Wanted) {
        self.0.insert((name.digest, peer), wanted);
    }

    /// Removes the requests for a result, and returns them.
    pub fn take(&mut self, digest: Digest) -> Vec<(PeerId, Wanted)> {
        let range = (digest, PeerId(0))..=(digest, PeerId(u16::MAX));
        let who: Vec<_> = self.0.range(range).map(|(&(_, peer), _)| peer).collect();
        let take = |peer| Some((peer, self.0.remove(&(digest, peer))?));
        who.into_iter().filter_map(take).collect()
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes the requests of a peer that is gone.
    pub fn forget(&mut self, peer: PeerId) {
        self.0.retain(|(_, one), _| *one != peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_shm::ClientArena;

    #[test]
    fn who_asks_again_and_again_is_noted_once_with_the_last_word() {
        let names = [1, 2].map(|seed| BlobName { digest: Digest([seed; 32]), size: 9 });
        let part = ClientArena::create(0).and_then(|arena| arena.store(&[7; 9])).expect("memory");
        let mut requested = RequestedResults::default();
        for received in 0..1_000 {
            requested.note(PeerId(3), names[0], (received, part.clone()));
        }
        requested.note(PeerId(4), names[0], (5, part.clone()));
        requested.note(PeerId(3), names[1], (6, part));
        assert_eq!(requested.0.len(), 3);
        let taken =
            requested.take(names[0].digest).into_iter().map(|(peer, (size, _))| (peer, size));
        assert_eq!(taken.collect::<Vec<_>>(), [(PeerId(3), 999), (PeerId(4), 5)]);
        assert!(requested.take(names[0].digest).is_empty());
        requested.forget(PeerId(3));
        assert!(requested.0.is_empty());
    }
}
