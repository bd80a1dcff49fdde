//! Results that were asked for and come back from disk.

use std::collections::BTreeMap;

use gristmill_shm::BlockPart;
use gristmill_wire::{BlobName, Digest, PeerId};

/// How many bytes of a result are there, and where it comes to: what nobody has goes to disk again where memory is short,
/// before it could be given.
pub(crate) type Wanted = (u64, BlockPart);

/// Results that were asked for and come back from disk: whoever asks again for the same has asked once.
#[derive(Debug, Default)]
pub(crate) struct Asked(BTreeMap<(Digest, PeerId), Wanted>);

impl Asked {
    /// A peer asks for a result, of which it has so many bytes.
    pub fn note(&mut self, peer: PeerId, name: BlobName, wanted: Wanted) {
        self.0.insert((name.digest, peer), wanted);
    }

    /// Who has asked for a result; they need not ask again.
    pub fn take(&mut self, digest: Digest) -> Vec<(PeerId, Wanted)> {
        let range = (digest, PeerId(0))..=(digest, PeerId(u16::MAX));
        let who: Vec<_> = self.0.range(range).map(|(&(_, peer), _)| peer).collect();
        let take = |peer| Some((peer, self.0.remove(&(digest, peer))?));
        who.into_iter().filter_map(take).collect()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A peer is gone.
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
        let mut asked = Asked::default();
        for received in 0..1_000 {
            asked.note(PeerId(3), names[0], (received, part.clone()));
        }
        asked.note(PeerId(4), names[0], (5, part.clone()));
        asked.note(PeerId(3), names[1], (6, part));
        assert_eq!(asked.0.len(), 3);
        let taken = asked.take(names[0].digest).into_iter().map(|(peer, (size, _))| (peer, size));
        assert_eq!(taken.collect::<Vec<_>>(), [(PeerId(3), 999), (PeerId(4), 5)]);
        assert!(asked.take(names[0].digest).is_empty());
        asked.forget(PeerId(3));
        assert!(asked.0.is_empty());
    }
}
