//! What a program's client has to give: the blobs that its tasks name, and the plan of who gets them from whom.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use gristmill_core::Payload;
use gristmill_shm::BlockPart;
use gristmill_store::Spread;
use gristmill_wire::{BlobName, Digest, PeerId};

use super::parts::BlobParts;
use super::source::Source;
use crate::bundle::Bundle;

/// A blob that tasks name.
#[derive(Debug, Default)]
struct Held {
    /// Blocks that have its bytes, each with how many tasks name it there. More than one only where the program can write
    /// to some of them: what is behind the end of their tasks is nobody's business.
    blocks: Vec<(BlockPart, usize)>,
    /// How many results name it whose bytes stayed where they were made.
    far: usize,
    /// A file that has its bytes, and how many contexts name it.
    file: Option<(Arc<File>, usize)>,
}

impl Held {
    /// Whether its bytes can be given from here.
    const fn is_here(&self) -> bool {
        !self.blocks.is_empty() || self.file.is_some()
    }
}

/// What a client has to give.
#[derive(Debug, Default)]
pub(crate) struct Giving {
    pub spread: Spread,
    held: HashMap<Digest, Held>,
    /// Where nodes give blobs to other nodes.
    pub addresses: HashMap<PeerId, String>,
}

impl Giving {
    /// A task names a blob, whose bytes are in `part`; gives the block that the task is to keep: one for all where nobody
    /// can write to it.
    pub fn hold(&mut self, name: BlobName, part: BlockPart) -> BlockPart {
        let held = self.held.entry(name.digest).or_default();
        if !held.is_here() {
            self.spread.hold(name);
        }
        let is_same = |other: &BlockPart| !other.is_exposed() || other.range() == part.range();
        if let Some((block, count)) = held.blocks.iter_mut().find(|(block, _)| is_same(block)) {
            *count += 1;
            return block.clone();
        }
        held.blocks.push((part.clone(), 1));
        part
    }

    /// A context names a blob whose bytes are in a file.
    pub fn hold_file(&mut self, digest: Digest, file: Arc<File>) {
        let held = self.held.entry(digest).or_default();
        if !held.is_here() {
            self.spread.hold(BlobName { digest, size: digest.size() });
        }
        held.file.get_or_insert((file, 0)).1 += 1;
    }

    /// A context is gone that named it.
    pub fn release_file(&mut self, digest: Digest) {
        let Some(held) = self.held.get_mut(&digest) else { return };
        if let Some((_, count)) = &mut held.file {
            *count -= 1;
        }
        held.file.take_if(|(_, count)| *count == 0);
        self.release_if_unneeded(digest);
    }

    /// A result names a blob whose bytes stayed with a node.
    pub fn know(&mut self, node: PeerId, name: BlobName) {
        self.held.entry(name.digest).or_default().far += 1;
        self.spread.know(name);
        self.spread.made(node, name.digest);
    }

    /// A result is gone whose bytes stayed with a node.
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
            return self.spread.let_go(digest);
        }
        self.held.remove(&digest);
        self.spread.release(digest);
    }

    /// The task whose arguments these were is final.
    #[cold]
    pub fn release_all(&mut self, arguments: &Bundle) {
        for (part, name) in arguments.named_parts() {
            if let Some(name) = name {
                self.release(name.digest, part);
            }
        }
    }

    /// How many blobs tasks and results name.
    pub fn held_count(&self) -> usize {
        self.held.len()
    }

    /// Whether a blob is a file of a context.
    pub fn is_file(&self, digest: Digest) -> bool {
        self.held.get(&digest).is_some_and(|held| held.file.is_some())
    }

    /// Where the bytes of a blob are, if they are here.
    pub fn source(&self, digest: Digest) -> Option<Source> {
        if let Some(part) = self.part(digest) {
            return Some(part.clone().into());
        }
        let (file, _) = self.held.get(&digest)?.file.as_ref()?;
        Some(Source::File(Arc::clone(file), digest.size()))
    }

    /// A block that has a blob's bytes: one that nobody can write to, if there is one.
    pub fn part(&self, digest: Digest) -> Option<&BlockPart> {
        let blocks = &self.held.get(&digest)?.blocks;
        let safe = blocks.iter().find(|(block, _)| !block.is_exposed());
        safe.or(blocks.last()).map(|(block, _)| block)
    }
}

impl BlobParts<'_> {
    /// The payload of a call with blocks, of which those with a name travel by that.
    pub fn take_arguments(
        &mut self,
        bytes: &[u8],
        mut parts: Vec<BlockPart>,
        names: Vec<Option<BlobName>>,
    ) -> Payload {
        for (part, name) in parts.iter_mut().zip(&names) {
            if let Some(name) = *name {
                *part = self.giving.hold(name, part.clone());
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
        let mut giving = Giving::default();
        let exposed = store();
        exposed.expose();
        let kept: Vec<_> = [exposed, store(), store()].map(|part| giving.hold(name, part)).into();
        assert_ne!(kept[0].range(), kept[1].range());
        assert_eq!(kept[1].range(), kept[2].range());
        assert_eq!(arena.live_count(), 2, "the third one's own block is gone");
        giving.release(name.digest, &kept[1]);
        assert_eq!(giving.part(name.digest).expect("held").range(), kept[1].range());
        giving.release(name.digest, &kept[2]);
        assert_eq!(giving.part(name.digest).expect("held").range(), kept[0].range());
        giving.release(name.digest, &kept[0]);
        assert!(giving.part(name.digest).is_none());
    }

    #[test]
    fn a_file_is_given_while_a_context_names_it() {
        let path = std::env::temp_dir().join(format!("gristmill-giving-{}", std::process::id()));
        std::fs::write(&path, b"weights").expect("it is written");
        let file = Arc::new(File::open(&path).expect("it is there"));
        std::fs::remove_file(&path).expect("it is removed");
        let digest = Digest::of([1; 32], 7);
        let mut giving = Giving::default();
        giving.hold_file(digest, Arc::clone(&file));
        giving.hold_file(digest, file);
        giving.release_file(digest);
        let source = giving.source(digest).expect("another context names it");
        let mut space = [0; 3];
        source.read_at(4, &mut space);
        assert_eq!((source.size(), &space), (7, b"hts"));
        giving.release_file(digest);
        assert!(giving.source(digest).is_none() && giving.held_count() == 0);
    }
}
