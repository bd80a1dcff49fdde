//! The uncompressed headers of an image: one before the whole file, and one before each compressed frame.
//!
//! Both are skippable frames of zstd, so `tar --zstd` reads an image as it is. `Head` in a name of this module means such a
//! header; `header.rs` has the tar headers of the entries.

/// First bytes of the file header; one of zstd's magic numbers for skippable frames.
const HEAD_MAGIC: u32 = 0x184D_2A5E;
/// First bytes of a frame header.
const FRAME_MAGIC: u32 = 0x184D_2A5D;
const NAME: [u8; 16] = *b"gristmill-image\0";
/// Version of the format that this program writes, and the only one that it reads.
const VERSION: u32 = 1;

/// Size of the file header, bytes.
pub const HEAD_SIZE: usize = 48;
/// Size of a frame header, bytes.
pub const FRAME_HEAD_SIZE: usize = 24;

/// The file header of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageHeader {
    /// Total size of all files in the image, bytes.
    pub content_size: u64,
    /// Number of folders, files and links.
    pub entry_count: u64,
}

/// The reason why the bytes at the start of a file are no valid file header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHead {
    /// The bytes are not an image.
    Foreign,
    /// The image has a version that this program does not know.
    Version(u32),
}

/// The kind of entries in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// All folders; the first frame.
    Folders,
    /// Some of the files.
    Files,
    /// All links, and the end of the archive; the last frame.
    Links,
}

/// The header of a compressed frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Kind of the entries in the frame.
    pub kind: FrameKind,
    /// Compressed size of the frame, bytes.
    pub size: u64,
}

impl ImageHeader {
    pub(crate) fn encode(self) -> [u8; HEAD_SIZE] {
        let mut bytes = [0; HEAD_SIZE];
        bytes[0..4].copy_from_slice(&HEAD_MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&40_u32.to_le_bytes());
        bytes[8..24].copy_from_slice(&NAME);
        bytes[24..28].copy_from_slice(&VERSION.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.content_size.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.entry_count.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEAD_SIZE]) -> Result<Self, NoHead> {
        if word(bytes, 0) != HEAD_MAGIC || word(bytes, 4) != 40 || bytes[8..24] != NAME {
            return Err(NoHead::Foreign);
        }
        if word(bytes, 24) != VERSION {
            return Err(NoHead::Version(word(bytes, 24)));
        }
        Ok(Self { content_size: long(bytes, 32), entry_count: long(bytes, 40) })
    }
}

impl FrameHead {
    pub fn encode(self) -> [u8; FRAME_HEAD_SIZE] {
        let mut bytes = [0; FRAME_HEAD_SIZE];
        let kind = match self.kind {
            FrameKind::Folders => 0_u32,
            FrameKind::Files => 1,
            FrameKind::Links => 2,
        };
        bytes[0..4].copy_from_slice(&FRAME_MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&16_u32.to_le_bytes());
        bytes[8..12].copy_from_slice(&kind.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; FRAME_HEAD_SIZE]) -> Option<Self> {
        let kind = match word(bytes, 8) {
            0 => FrameKind::Folders,
            1 => FrameKind::Files,
            2 => FrameKind::Links,
            _ => return None,
        };
        let is_head = word(bytes, 0) == FRAME_MAGIC && word(bytes, 4) == 16;
        is_head.then_some(Self { kind, size: long(bytes, 16) })
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_others_are_none() {
        let head = ImageHeader { content_size: 1 << 40, entry_count: 7 };
        assert_eq!(ImageHeader::decode(&head.encode()), Ok(head));
        let mut other = head.encode();
        other[24] = 9;
        assert_eq!(ImageHeader::decode(&other), Err(NoHead::Version(9)));
        assert_eq!(ImageHeader::decode(&[0; HEAD_SIZE]), Err(NoHead::Foreign));
        for kind in [FrameKind::Folders, FrameKind::Files, FrameKind::Links] {
            let head = FrameHead { kind, size: 12 };
            assert_eq!(FrameHead::decode(&head.encode()), Some(head));
        }
        assert_eq!(FrameHead::decode(&[0; FRAME_HEAD_SIZE]), None);
    }
}
