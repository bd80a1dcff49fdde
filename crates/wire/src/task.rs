//! The frame of a task: what a worker is asked to do.

use crate::{Attempt, ContextId, Epoch, Equipment, FrameError, FunctionId, TaskId};

/// Words of a [`TaskFrame`].
pub const TASK_WORDS: usize = 3;
/// Words of a [`TaskExtension`], present when [`TaskFlags::EXTENDED`] is set.
pub const EXTENSION_WORDS: usize = 3;
/// Words of a [`ParentEntry`], in front of each parent's bytes.
pub const PARENT_WORDS: usize = 2;

/// Bits that say how a task is to be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskFlags(pub u8);

impl TaskFlags {
    /// A [`TaskExtension`] follows the frame.
    pub const EXTENDED: u8 = 1;
    /// The payload is several calls of one function: [`BatchCalls`](crate::BatchCalls). Their
    /// [`BatchResults`](crate::BatchResults) come before the answer.
    pub const BATCH: u8 = 2;
    /// The payload is sealed with the lease's key. Reserved.
    pub const SEALED: u8 = 4;
    /// Submitted by the task that now waits in this worker: it may run in that wait.
    pub const NESTED: u8 = 8;

    /// Parents and payload did not fit into the record: it holds offset and size of an arena block with them instead.
    pub const SPILLED: u8 = 16;

    /// Whether all of `bits` are set.
    #[must_use]
    pub const fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }
}

/// Where a payload's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum PayloadKind {
    /// In the record itself.
    #[default]
    Inline = 0,
    /// In the client's arena; the record holds an [`ArenaDescriptor`](crate::ArenaDescriptor).
    Arena = 1,
    /// In a store under its content hash; the record holds the hash. Reserved.
    Hash = 2,
}

impl PayloadKind {
    /// Takes a kind off the wire.
    ///
    /// # Errors
    /// [`FrameError::UnknownPayload`].
    pub const fn from_byte(byte: u8) -> Result<Self, FrameError> {
        match byte {
            0 => Ok(Self::Inline),
            1 => Ok(Self::Arena),
            2 => Ok(Self::Hash),
            other => Err(FrameError::UnknownPayload(other)),
        }
    }
}

/// The fixed part of a task record. Behind it: the extension if flagged, the list of a wide task's places (see
/// [`Equipment::named_places`]), `parent_count` parents (a [`ParentEntry`] and
/// its bytes, padded to 8, each), then `payload_size` bytes of encoded arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskFrame {
    /// The task.
    pub task: TaskId,
    /// What to call.
    pub function: FunctionId,
    /// Which placement of the task this is.
    pub attempt: Attempt,
    /// How to treat it.
    pub flags: TaskFlags,
    /// How many results of other tasks its arguments name.
    pub parent_count: u16,
    /// Bytes of encoded arguments.
    pub payload_size: u32,
    /// Where those bytes are.
    pub payload: PayloadKind,
}

impl TaskFrame {
    /// The frame as it travels.
    #[must_use]
    pub const fn words(&self) -> [u64; TASK_WORDS] {
        [
            self.task.word(),
            self.function.0 as u64
                | ((self.attempt.0 as u64) << 32)
                | ((self.flags.0 as u64) << 40)
                | ((self.parent_count as u64) << 48),
            self.payload_size as u64 | ((self.payload as u64) << 32),
        ]
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// [`FrameError::UnknownPayload`]. Sizes are checked where the record's own size is known.
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub const fn from_words(words: [u64; TASK_WORDS]) -> Result<Self, FrameError> {
        let payload = match PayloadKind::from_byte((words[2] >> 32) as u8) {
            Ok(payload) => payload,
            Err(error) => return Err(error),
        };
        Ok(Self {
            task: TaskId::from_word(words[0]),
            function: FunctionId(words[1] as u32),
            attempt: Attempt((words[1] >> 32) as u8),
            flags: TaskFlags((words[1] >> 40) as u8),
            parent_count: (words[1] >> 48) as u16,
            payload_size: words[2] as u32,
            payload,
        })
    }
}

/// The part of a task record that most tasks do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskExtension {
    /// The lease under which the task was sent; 0 on one node.
    pub lease_epoch: Epoch,
    /// The context that the function runs in. A worker has one only: for its sake alone there is no extension.
    pub context: ContextId,
    /// When the task must not start any more, nanoseconds of the node's monotonic clock; 0 is never.
    pub deadline_ns: u64,
    /// Higher runs earlier.
    pub priority: i32,
    /// What it has besides its worker.
    pub equipment: Equipment,
}

impl TaskExtension {
    /// The extension as it travels.
    #[must_use]
    pub const fn words(&self) -> [u64; EXTENSION_WORDS] {
        [
            self.lease_epoch.0 as u64 | ((self.context.0 as u64) << 32),
            self.deadline_ns,
            self.priority.cast_unsigned() as u64 | ((self.equipment.word() as u64) << 32),
        ]
    }

    /// Reads an extension; every bit pattern is one.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub const fn from_words(words: [u64; EXTENSION_WORDS]) -> Self {
        Self {
            lease_epoch: Epoch(words[0] as u32),
            context: ContextId((words[0] >> 32) as u32),
            deadline_ns: words[1],
            priority: (words[2] as u32).cast_signed(),
            equipment: Equipment::from_word((words[2] >> 32) as u32),
        }
    }
}

/// What stands in front of the bytes of one parent's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentEntry {
    /// The parent task; with size 0 and [`ParentEntry::IN_RING`] its result is the one this worker produced itself.
    pub task: TaskId,
    /// Bytes of the result that follow.
    pub size: u32,
    /// How the bytes are to be read.
    pub flags: u32,
}

impl ParentEntry {
    /// The result is not here: it is what this worker answered to the parent, earlier in the same ring. Reserved.
    pub const IN_RING: u32 = 1;
    /// The bytes are an arena descriptor.
    pub const ARENA: u32 = 2;

    /// The entry as it travels.
    #[must_use]
    pub const fn words(&self) -> [u64; PARENT_WORDS] {
        [self.task.word(), self.size as u64 | ((self.flags as u64) << 32)]
    }

    /// Reads an entry; its size is checked against the record by the reader.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub const fn from_words(words: [u64; PARENT_WORDS]) -> Self {
        Self {
            task: TaskId::from_word(words[0]),
            size: words[1] as u32,
            flags: (words[1] >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes<const N: usize>(words: [u64; N]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn golden_frame() {
        let frame = TaskFrame {
            task: TaskId::new(5, 7),
            function: FunctionId(9),
            attempt: Attempt(2),
            flags: TaskFlags(TaskFlags::EXTENDED | TaskFlags::NESTED),
            parent_count: 3,
            payload_size: 17,
            payload: PayloadKind::Arena,
        };
        let golden = [5, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 2, 9, 3, 0, 17, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(bytes(frame.words()), golden);
        assert_eq!(TaskFrame::from_words(frame.words()), Ok(frame));
    }

    #[test]
    fn golden_extension_and_parent() {
        let extension = TaskExtension {
            lease_epoch: Epoch(1),
            context: ContextId(2),
            deadline_ns: 3,
            priority: -4,
            equipment: Equipment { devices: 5, places: 6 },
        };
        let golden =
            [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff, 5, 0, 6, 0];
        assert_eq!(bytes(extension.words()), golden);
        assert_eq!(TaskExtension::from_words(extension.words()), extension);
        let parent = ParentEntry { task: TaskId::new(1, 0), size: 6, flags: ParentEntry::ARENA };
        assert_eq!(bytes(parent.words()), [1, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(ParentEntry::from_words(parent.words()), parent);
    }

    proptest! {
        #[test]
        fn any_words_decode_or_are_refused(words: [u64; TASK_WORDS]) {
            if let Ok(frame) = TaskFrame::from_words(words) {
                prop_assert_eq!(TaskFrame::from_words(frame.words()), Ok(frame));
            }
        }
    }
}
