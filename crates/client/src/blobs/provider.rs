//! Blobs that a program's client provides because its tasks name them, and the broadcast plan that distributes them.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use gristmill_core::Payload;
use gristmill_shm::BlockPart;
use gristmill_store::BroadcastPlan;
use gristmill_wire::{BlobName, Digest, PeerId};

use super::parts::BlobParts;
use super::source::BlobSource;
use crate::bundle::Bundle;

/// Blob that tasks name.
#[derive(Debug, Default)]
struct ProvidedBlob {
    /// Blocks with its bytes, each with the number of tasks that name it there. There is more than one only if the program
    /// can write to some of them: such a block may change once the tasks that name it there have ended.
    blocks: Vec<(BlockPart, usize)>,
    /// Number of results that name it and whose bytes stayed on a node.
    far: usize,
    /// File with its bytes, and the number of contexts that name it.
    file: Option<(Arc<File>, usize)>,
}

impl ProvidedBlob {
    /// Returns true if the client has the bytes.
    const fn is_here(&self) -> bool {
        !self.blocks.is_empty() || self.file.is_some()
    }
}

/// Blobs that a client provides.
#[derive(Debug, Default)]
pub(crate) struct BlobProvider {
    pub broadcast: BroadcastPlan,
    held: HashMap<Digest, ProvidedBlob>,
    /// Addresses at which nodes give blobs to other nodes.
    pub addresses: HashMap<PeerId, String>,
}

impl BlobProvider {
    /// Holds a blob for one more task that names it, with its bytes in `part`. Returns the block that the task must keep. All
    /// tasks share one block if the program cannot write to it.
    pub fn hold(&mut self, name: BlobName, part: BlockPart) -> BlockPart {
        let held = self.held.entry(name.digest).or_default();
        if !held.is_here() {
            self.broadcast.hold(name);
        }
        let is_same = |other: &BlockPart| !other.is_exposed() || other.range() == part.range();
        if let Some((block, count)) = held.blocks.iter_mut().find(|(block, _)| is_same(block)) {
            *count += 1;
            return block.clone();
        }
        held.blocks.push((part.clone(), 1));
        part
    }

    /// Holds a blob for one more context that names it, with its bytes in a file.
    pub fn hold_file(&mut self, digest: Digest, file: Arc<File>) {
        let held = self.held.entry(digest).or_default();
        if !held.is_here() {
            self.broadcast.hold(BlobName { digest, size: digest.size() });
        }
        held.file.get_or_insert((file, 0)).1 += 1;
    }

    /// Releases a blob for one context that named it.
    pub fn release_file(&mut self, digest: Digest) {
        let Some(held) = self.held.get_mut(&digest) else { return };
        if let Some((_, count)) = &mut held.file {
            *count -= 1;
        }
        held.file.take_if(|(_, count)| *count == 0);
        self.release_if_unneeded(digest);
    }

    /// Records that a result names a blob whose bytes stayed on a node.
    pub fn know(&mut self, node: PeerId, name: BlobName) {
        self.held.entry(name.digest).or_default().far += 1;
        self.broadcast.know(name);
        self.broadcast.made(node, name.digest);
    }

    /// Forgets a result whose bytes stayed on a node.
    pub fn forget(&mut self, digest: Digest) {
        if let Some(held) = self.held.get_mut(&digest) {
            held.far -= 1;
        }
        self.release_if_unneeded(digest);
    }

    fn release(&mut self, digest: Digest, part: &BlockPart) {
        let Some(held) = self.held.get_mut(&digest) else { return };
        if let Some((_, count)) =
            held.blocks.iter_mut().find(|(block, _)| block.range() == part.range())
        {
            *count -= 1;
        }
        held.blocks.retain(|(_, count)| *count > 0);
        self.release_if_unneeded(digest);
    }

    fn release_if_unneeded(&mut self, digest: Digest) {
        let Some(held) = self.held.get(&digest).filter(|held| !held.is_here()) else { return };
        if held.far > 0 {
            return self.broadcast.let_go(digest);
        }
        self.held.remove(&digest);
        self.broadcast.release(digest);
    }

    /// Releases all blobs that a dropped bundle names.
    #[cold]
    pub fn release_all(&mut self, arguments: &Bundle) {
        for (part, name) in arguments.named_parts() {
            if let Some(name) = name {
                self.release(name.digest, part);
            }
        }
    }

    /// Returns the number of blobs that tasks, results and contexts name.
    pub fn held_count(&self) -> usize {
        self.held.len()
    }

    /// Returns true if a blob is a file of a context.
    pub fn is_file(&self, digest: Digest) -> bool {
        self.held.get(&digest).is_some_and(|held| held.file.is_some())
    }

    /// Returns the source of a blob's bytes, if the client has them.
    pub fn source(&self, digest: Digest) -> Option<BlobSource> {
        if let Some(part) = self.part(digest) {
            return Some(part.clone().into());
        }
        let (file, _) = self.held.get(&digest)?.file.as_ref()?;
        Some(BlobSource::File(Arc::clone(file), digest.size()))
    }

    /// Returns a block with a blob's bytes, preferably one that the program cannot write to.
    pub fn part(&self, digest: Digest) -> Option<&BlockPart> {
        let blocks = &self.held.get(&digest)?.blocks;
        let safe = blocks.iter().find(|(block, _)| !block.is_exposed());
        safe.or(blocks.last()).map(|(block, _)| block)
    }
}

impl BlobParts<'_> {
    /// Stores the arguments of a call, and returns their payload. Blocks with a name travel by that name.
    pub fn take_arguments(
        &mut self,
        bytes: &[u8],
        mut parts: Vec<BlockPart>,
        names: Vec<Option<BlobName>>,
    ) -> Payload {
        for (part, name) in parts.iter_mut().zip(&names) {
            if let Some(name) = *name {
                *part = self.provider.hold(name, part.clone());
            }
        }
        self.bundles.insert_named(bytes, parts, names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_shm::ClientArena;

    #[test]
    fn a_blob_is_held_once_for_all_tasks_unless_it_can_be_written_to() {
        let arena = ClientArena::create(0).expect("an arena");
        let name = BlobName { digest: Digest([1; 32]), size: 4 };
        let store = || arena.store(b"same").expect("a block");
        let mut provider = BlobProvider::default();
        let exposed = store();
        exposed.expose();
        let kept: Vec<_> = [exposed, store(), store()].map(|part| provider.hold(name, part)).into();
        assert_ne!(kept[0].range(), kept[1].range());
        assert_eq!(kept[1].range(), kept[2].range());
        assert_eq!(arena.live_count(), 2, "the third one's own block is gone");
        provider.release(name.digest, &kept[1]);
        assert_eq!(provider.part(name.digest).expect("held").range(), kept[1].range());
        provider.release(name.digest, &kept[2]);
        assert_eq!(provider.part(name.digest).expect("held").range(), kept[0].range());
        provider.release(name.digest, &kept[0]);
        assert!(provider.part(name.digest).is_none());
    }

    #[test]
    fn a_file_is_given_while_a_context_names_it() {
        let path = std::env::temp_dir().join(format!("gristmill-provider-{}", std::process::id()));
        std::fs::write(&path, b"weights").expect("it is written");
        let file = Arc::new(File::open(&path).expect("it is there"));
        std::fs::remove_file(&path).expect("it is removed");
        let digest = Digest::of([1; 32], 7);
        let mut provider = BlobProvider::default();
        provider.hold_file(digest, Arc::clone(&file));
        provider.hold_file(digest, file);
        provider.release_file(digest);
        let source = provider.source(digest).expect("another context names it");
        let mut space = [0; 3];
        source.read_at(4, &mut space);
        assert_eq!((source.size(), &space), (7, b"hts"));
        provider.release_file(digest);
        assert!(provider.source(digest).is_none() && provider.held_count() == 0);
    }
}
