//! Small payloads on disk, appended to blocks that the client shares among them. A block for each payload would cost a
//! page of the file and one more system call.
//!
//! A block is freed with its last payload, so one long-lived payload keeps up to a block of room on the disk.

use super::{ArenaError, BlockPart, ClientArena, WeakBlock};

/// Size of a shared block, bytes. It bounds the room on disk that one long-lived payload keeps, and is large enough for
/// one write to the disk.
const SEGMENT: usize = 1 << 20;

/// The end of the log: the block that is being filled, and the position in it.
#[derive(Debug, Default)]
pub struct SpillLog {
    /// The block that payloads are appended to. It is gone if all its payloads are.
    segment: Option<WeakBlock>,
    /// Bytes of the block that are taken.
    used: u64,
}

impl SpillLog {
    /// Writes bytes to the disk and returns their part.
    ///
    /// # Errors
    /// [`ArenaError::DiskFull`], also if there is no disk; [`ArenaError::Disk`].
    pub fn append(&mut self, arena: &ClientArena, bytes: &[u8]) -> Result<BlockPart, ArenaError> {
        let size = bytes.len() as u64;
        let open = self.segment.as_ref().and_then(WeakBlock::upgrade);
        if let Some(piece) = open.as_ref().and_then(|open| open.piece(self.used, size)) {
            piece.write_through(bytes)?;
            self.used += size;
            return Ok(piece);
        }
        if let Some(full) = open {
            full.begin_writing();
        }
        let fresh = arena.take_on_disk(SEGMENT.max(bytes.len()))?;
        let piece = fresh.piece(0, size).unwrap_or_else(|| fresh.clone());
        piece.write_through(bytes)?;
        self.segment = Some(fresh.downgrade());
        self.used = size;
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArenaOptions;
    use proptest::prelude::*;

    fn arena() -> Option<ClientArena> {
        let root = option_env!("CARGO_TARGET_TMPDIR").unwrap_or("/var/tmp");
        let options = ArenaOptions { memory: Some(1 << 20), spill: vec![root.into()] };
        let arena = ClientArena::create_with(1, &options).expect("there is memory");
        arena.has_disk().then_some(arena)
    }

    #[test]
    fn payloads_share_a_block_that_goes_with_the_last_of_them() {
        let Some(arena) = arena() else { return };
        let mut log = SpillLog::default();
        let mut append = |seed: u8| log.append(&arena, &[seed; 300_000]).expect("there is room");
        let parts: Vec<_> = (0..4).map(&mut append).collect();
        assert_eq!(arena.live_count(), 2, "three fit into the first");
        for (seed, part) in (0..).zip(&parts) {
            assert_eq!(part.to_vec(), [seed; 300_000]);
        }
        drop(parts);
        assert_eq!((arena.live_count(), arena.spilled_size()), (0, 0));
        assert_eq!(append(7).to_vec(), [7; 300_000], "a block that has gone is not written to");
    }

    #[test]
    fn a_payload_larger_than_a_block_has_its_own() {
        let Some(arena) = arena() else { return };
        let mut log = SpillLog::default();
        let part = log.append(&arena, &vec![5; 3 << 20]).expect("there is room");
        assert_eq!(part.to_vec(), vec![5; 3 << 20]);
        assert_eq!(log.append(&arena, &[6]).expect("there is room").to_vec(), [6]);
    }

    #[test]
    fn without_a_disk_there_is_no_room() {
        let arena = ClientArena::create(1).expect("there is memory");
        let error = SpillLog::default().append(&arena, &[1]).expect_err("there is no disk");
        assert!(matches!(error, ArenaError::DiskFull { .. }), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn payloads_come_back_whatever_goes_before_them(
            steps in proptest::collection::vec((1..400_000usize, any::<u8>(), any::<bool>()), 1..20),
        ) {
            let Some(arena) = arena() else { return Ok(()) };
            let (mut log, mut held) = (SpillLog::default(), Vec::new());
            for (size, seed, drops) in steps {
                let part = log.append(&arena, &vec![seed; size]).expect("there is room");
                held.push((part, size, seed));
                if drops {
                    held.remove(0);
                }
                for (part, size, seed) in &held {
                    prop_assert_eq!(part.to_vec(), vec![*seed; *size]);
                }
            }
            held.clear();
            prop_assert_eq!(arena.spilled_size(), 0);
        }
    }
}
