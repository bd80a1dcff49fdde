//! Results that get names: a gigabyte of them takes a second to hash, which nobody else should wait for.

use std::collections::VecDeque;

use gristmill_shm::BlockPart;
use gristmill_store::{Adoption, Store, Verifier};
use gristmill_wire::{BlobName, Digest};

use super::super::naming::is_blob;
use super::{Named, Unnamed};

/// Bytes that are hashed before other things have their turn.
const TURN: u64 = 4 << 20;

/// Results that get names, one after the other.
#[derive(Debug)]
pub(super) struct Naming {
    /// The size from which on parts get names, bytes.
    min: usize,
    waiting: VecDeque<Unnamed>,
    /// The names of the first one's first parts.
    names: Vec<Option<BlobName>>,
    /// Hashes the next part.
    verifier: Verifier,
}

impl Naming {
    /// Nothing to do yet; parts get names from `min` bytes on.
    pub fn new(min: usize) -> Self {
        Self { min, waiting: VecDeque::new(), names: Vec::new(), verifier: Verifier::default() }
    }

    /// Adds a result.
    pub fn add(&mut self, result: Unnamed) {
        self.waiting.push_back(result);
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Hashes some bytes; gives the result that has all its names now. The store has its blobs from then on; `came` is told
    /// of those that tasks waited for.
    pub fn attend(&mut self, store: &Store, mut came: impl FnMut(Digest)) -> Option<Named> {
        let parts = &mut self.waiting.front_mut()?.parts;
        if let Some(part) = parts.get_mut(self.names.len()) {
            let digest =
                if is_blob(part, self.min) { Some(hash(&mut self.verifier, part)?) } else { None };
            let name = digest.map(|digest| BlobName { digest, size: part.range().size });
            match name.map(|name| store.adopt(name, part)) {
                Some(Adoption::Busy) => return None,
                // What the store has stays there until the engine sees to that.
                Some(Adoption::Here(kept)) => *part = kept,
                Some(Adoption::Came(kept)) => {
                    *part = kept;
                    digest.into_iter().for_each(&mut came);
                }
                None => {}
            }
            self.names.push(name);
        }
        if self.names.len() < parts.len() {
            return None;
        }
        let result = self.waiting.pop_front()?;
        Some(Named { result, names: std::mem::take(&mut self.names) })
    }
}

/// What a part hashes to, if that is known after this turn.
fn hash(verifier: &mut Verifier, part: &BlockPart) -> Option<Digest> {
    if let Some(digest) = part.digest() {
        return Some(digest);
    }
    let size = part.range().size;
    verifier.follow(part, size.min(verifier.hashed() + TURN));
    if verifier.hashed() < size {
        return None;
    }
    let digest = std::mem::take(verifier).digest();
    part.note_digest(digest);
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_shm::ClientArena;
    use gristmill_store::{BlobLimits, Want, digest_of};
    use gristmill_wire::TaskId;

    #[test]
    fn large_parts_get_names_a_few_bytes_at_a_time() {
        let arena = ClientArena::create(0).expect("an arena");
        let limits = BlobLimits { memory: u64::MAX, disk: 0, directory: std::env::temp_dir() };
        let store = Store::new(arena.clone(), limits);
        let part = |seed: u8, size: usize| arena.store(&vec![seed; size]).expect("a block");
        let parts = vec![part(1, 5 << 20), part(2, 100), part(3, 1 << 20)];
        let mut naming = Naming::new(1 << 20);
        naming.add(Unnamed { task: TaskId::new(1, 1), place: 7, parts: parts.clone() });
        let named: Vec<_> =
            std::iter::from_fn(|| (!naming.is_empty()).then(|| naming.attend(&store, |_| ())))
                .collect();
        assert_eq!(named.len(), 4, "the first one takes two turns");
        let named = named.into_iter().flatten().next().expect("it has its names");
        assert_eq!((named.result.task, named.result.place), (TaskId::new(1, 1), 7));
        let digests: Vec<_> = named.names.iter().map(|name| name.map(|name| name.digest)).collect();
        assert_eq!(digests, [Some(digest_of(&parts[0])), None, Some(digest_of(&parts[2]))]);
        for name in named.names.into_iter().flatten() {
            assert!(matches!(store.want(name), Ok(Want::Here(_))));
        }
    }
    #[test]
    fn a_result_is_here_for_those_who_wait_for_its_bytes() {
        let arena = ClientArena::create(0).expect("an arena");
        let limits = BlobLimits { memory: u64::MAX, disk: 0, directory: std::env::temp_dir() };
        let store = Store::new(arena.clone(), limits);
        let part = arena.store(b"what tasks wait for").expect("a block");
        let name = BlobName { digest: digest_of(&part), size: part.range().size };
        let Ok(Want::Missing(waiting)) = store.want(name) else { panic!("nobody has it") };
        let mut naming = Naming::new(1);
        naming.add(Unnamed { task: TaskId::new(1, 1), place: 7, parts: vec![part] });
        let mut came = Vec::new();
        let named = naming.attend(&store, |digest| came.push(digest)).expect("it has its name");
        assert_eq!((named.names, came), (vec![Some(name)], vec![name.digest]));
        assert_eq!(waiting.to_vec(), b"what tasks wait for");
    }
}
