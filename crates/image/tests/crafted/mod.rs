//! Images that no honest program writes.

use std::path::Path;

/// One entry of an archive, valid or not.
#[derive(Debug, Clone)]
pub struct Raw {
    /// Type byte of the entry in the archive.
    pub kind: u8,
    /// Name of the entry.
    pub name: Vec<u8>,
    /// Target of a link.
    pub target: Vec<u8>,
    /// Mode bits.
    pub mode: u32,
    /// Bytes of the file.
    pub bytes: Vec<u8>,
}

/// Returns an entry of a type, with the set-user-id and set-group-id bits set.
pub fn raw(kind: u8, name: &str, target: &str, bytes: &[u8]) -> Raw {
    let (name, target) = (name.as_bytes().to_vec(), target.as_bytes().to_vec());
    Raw { kind, name, target, mode: 0o6777, bytes: bytes.to_vec() }
}

impl Raw {
    /// Returns the entry's blocks in the archive.
    pub fn blocks(&self) -> Vec<u8> {
        let mut block = vec![0; 512];
        let mut put = |at: usize, room: usize, bytes: &[u8]| {
            let count = bytes.len().min(room);
            block[at..at + count].copy_from_slice(&bytes[..count]);
        };
        put(0, 100, &self.name);
        put(100, 8, format!("{:07o}", self.mode).as_bytes());
        put(124, 12, format!("{:011o}", self.bytes.len()).as_bytes());
        put(148, 8, b"        ");
        put(156, 1, &[self.kind]);
        put(157, 100, &self.target);
        put(257, 8, b"ustar  \0");
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block.extend_from_slice(&self.bytes);
        block.resize(block.len().next_multiple_of(512), 0);
        block
    }
}

/// Writes an image of frames, each with its kind (0 folders, 1 files, 2 links) and its uncompressed archive bytes.
pub fn write_image(path: &Path, (content, count): (u64, u64), frames: &[(u32, Vec<u8>)]) {
    let mut image = Vec::new();
    for number in [0x184D_2A5E_u32, 40] {
        image.extend_from_slice(&number.to_le_bytes());
    }
    image.extend_from_slice(b"gristmill-image\0");
    image.extend_from_slice(&1_u64.to_le_bytes());
    image.extend_from_slice(&content.to_le_bytes());
    image.extend_from_slice(&count.to_le_bytes());
    for (kind, bytes) in frames {
        let compressed = zstd::encode_all(&bytes[..], 1).expect("bytes compress");
        for number in [0x184D_2A5D_u32, 16, *kind, 0] {
            image.extend_from_slice(&number.to_le_bytes());
        }
        image.extend_from_slice(&(compressed.len() as u64).to_le_bytes());
        image.extend_from_slice(&compressed);
    }
    std::fs::write(path, image).expect("an image can be written");
}
