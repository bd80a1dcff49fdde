//! Queue of results that get names. A gigabyte takes a second to hash, so each turn hashes only some bytes and other work
//! does not wait.

use std::collections::VecDeque;

use gristmill_shm::BlockPart;
use gristmill_store::{InsertOutcome, Store, Verifier};
use gristmill_wire::{BlobName, Digest};

use super::super::naming::is_blob;
use super::{NamedResult, UnnamedResult};

/// Bytes that are hashed before other work has its turn.
const TURN: u64 = 4 << 20;

/// Results that get names, one after the other.
#[derive(Debug)]
pub(super) struct HashingQueue {
    /// Minimum size of parts that get names, bytes.
    min: usize,
    waiting: VecDeque<UnnamedResult>,
    /// Names of the first parts of the first result.
    names: Vec<Option<BlobName>>,
    /// Verifier that hashes the next part.
    verifier: Verifier,
}

impl HashingQueue {
    /// Creates an empty queue. Parts of at least `min` bytes get names.
    pub fn new(min: usize) -> Self {
        Self { min, waiting: VecDeque::new(), names: Vec::new(), verifier: Verifier::default() }
    }

    /// Adds a result.
    pub fn add(&mut self, result: UnnamedResult) {
        self.waiting.push_back(result);
    }

    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Hashes some bytes. Returns the first result if it has all its names now: from then on the store has its blobs. Calls
    /// `came` for each blob that tasks waited for.
    pub fn attend(&mut self, store: &Store, mut came: impl FnMut(Digest)) -> Option<NamedResult> {
        let parts = &mut self.waiting.front_mut()?.parts;
        if let Some(part) = parts.get_mut(self.names.len()) {
            let digest =
                if is_blob(part, self.min) { Some(hash(&mut self.verifier, part)?) } else { None };
            let name = digest.map(|digest| BlobName { digest, size: part.range().size });
            match name.map(|name| store.adopt(name, part)) {
                Some(InsertOutcome::Busy) => return None,
                // The result holds the store's block, which keeps the blob in the store until the engine pins it.
                Some(InsertOutcome::Here(kept)) => *part = kept,
                Some(InsertOutcome::Came(kept)) => {
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
        Some(NamedResult { result, names: std::mem::take(&mut self.names) })
    }
}

/// Returns the hash of a part, if it is complete after this turn.
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
    use gristmill_store::{BlobAvailability, BlobLimits, digest_of};
    use gristmill_wire::TaskId;

    #[test]
    fn large_parts_get_names_a_few_bytes_at_a_time() {
        let arena = ClientArena::create(0).expect("an arena");
        let limits = BlobLimits { memory: u64::MAX, disk: 0, directory: std::env::temp_dir() };
        let store = Store::new(arena.clone(), limits);
        let part = |seed: u8, size: usize| arena.store(&vec![seed; size]).expect("a block");
        let parts = vec![part(1, 5 << 20), part(2, 100), part(3, 1 << 20)];
        let mut naming = HashingQueue::new(1 << 20);
        naming.add(UnnamedResult { task: TaskId::new(1, 1), place: 7, parts: parts.clone() });
        let named: Vec<_> =
            std::iter::from_fn(|| (!naming.is_empty()).then(|| naming.attend(&store, |_| ())))
                .collect();
        assert_eq!(named.len(), 4, "the first one takes two turns");
        let named = named.into_iter().flatten().next().expect("it has its names");
        assert_eq!((named.result.task, named.result.place), (TaskId::new(1, 1), 7));
        let digests: Vec<_> = named.names.iter().map(|name| name.map(|name| name.digest)).collect();
        assert_eq!(digests, [Some(digest_of(&parts[0])), None, Some(digest_of(&parts[2]))]);
        for name in named.names.into_iter().flatten() {
            assert!(matches!(store.want(name), Ok(BlobAvailability::Here(_))));
        }
    }
    #[test]
    fn a_result_is_here_for_those_who_wait_for_its_bytes() {
        let arena = ClientArena::create(0).expect("an arena");
        let limits = BlobLimits { memory: u64::MAX, disk: 0, directory: std::env::temp_dir() };
        let store = Store::new(arena.clone(), limits);
        let part = arena.store(b"what tasks wait for").expect("a block");
        let name = BlobName { digest: digest_of(&part), size: part.range().size };
        let Ok(BlobAvailability::Missing(waiting)) = store.want(name) else {
            panic!("no task has it")
        };
        let mut naming = HashingQueue::new(1);
        naming.add(UnnamedResult { task: TaskId::new(1, 1), place: 7, parts: vec![part] });
        let mut came = Vec::new();
        let named = naming.attend(&store, |digest| came.push(digest)).expect("it has its name");
        assert_eq!((named.names, came), (vec![Some(name)], vec![name.digest]));
        assert_eq!(waiting.to_vec(), b"what tasks wait for");
    }
}
