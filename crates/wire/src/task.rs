//! The frame of a task: the work that a worker receives.

use crate::{Attempt, ContextId, Epoch, FrameError, FunctionId, ResourceGrant, TaskId};

/// Words of a [`TaskFrame`].
pub const TASK_WORDS: usize = 3;
/// Words of a [`TaskExtension`], present when [`TaskFlags::EXTENDED`] is set.
pub const EXTENSION_WORDS: usize = 4;
/// Words of a [`ParentEntry`], in front of each parent's bytes.
pub const PARENT_WORDS: usize = 2;

/// Bits that say how to treat a task.
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
    /// The task that now waits in this worker submitted this task, so it may run during that wait.
    pub const NESTED: u8 = 8;

    /// Parents and payload did not fit into the record. It holds the offset and size of an arena block that contains them.
    pub const SPILLED: u8 = 16;

    /// Returns true if all of `bits` are set.
    #[must_use]
    pub const fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }
}

/// The location of a payload's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum PayloadKind {
    /// In the record itself.
    #[default]
    Inline = 0,
    /// In the client's arena; the record holds an [`ArenaDescriptor`](crate::ArenaDescriptor).
    Arena = 1,
    /// In a store under the hash of their content; the record holds the hash. Reserved.
    Hash = 2,
}

impl PayloadKind {
    /// Reads a payload kind.
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

/// The fixed part of a task record. Behind it follow, in this order: the extension if flagged, the slot list of a wide task
/// (see [`ResourceGrant::named_places`]), `parent_count` parents (a [`ParentEntry`] and its bytes, padded to 8, each), and
/// `payload_size` bytes of encoded arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskFrame {
    /// The task.
    pub task: TaskId,
    /// The function to call.
    pub function: FunctionId,
    /// The placement of the task that this record belongs to.
    pub attempt: Attempt,
    /// Flags for the treatment of the task.
    pub flags: TaskFlags,
    /// The number of results of other tasks that the arguments name; at most [`PARENTS_MAX`](crate::PARENTS_MAX).
    pub parent_count: u32,
    /// Bytes of encoded arguments.
    pub payload_size: u32,
    /// The location of the encoded arguments.
    pub payload: PayloadKind,
}

impl TaskFrame {
    /// Returns the frame in wire format.
    #[must_use]
    pub const fn words(&self) -> [u64; TASK_WORDS] {
        [
            self.task.word(),
            self.function.0 as u64
                | ((self.attempt.0 as u64) << 32)
                | ((self.flags.0 as u64) << 40),
            self.payload_size as u64
                | ((self.payload as u64) << 32)
                | ((self.parent_count as u64) << 40),
        ]
    }

    /// Reads a frame. It does not check sizes; the caller does, because it knows the size of the record.
    ///
    /// # Errors
    /// [`FrameError::UnknownPayload`].
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
            parent_count: (words[2] >> 40) as u32,
            payload_size: words[2] as u32,
            payload,
        })
    }
}

/// The part of a task record that most tasks omit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskExtension {
    /// The number of the lease under which the task was sent. Not used yet: always 0.
    pub lease_epoch: Epoch,
    /// The context that the function runs in. A task for a worker gets no extension for its context alone: the worker has
    /// only one context and knows it.
    pub context: ContextId,
    /// The time after which the task must not start, nanoseconds of the node's monotonic clock; 0 means never.
    pub deadline_ns: u64,
    /// The priority; tasks of higher priority run earlier.
    pub priority: i32,
    /// Resources that the task holds besides its worker.
    pub grant: ResourceGrant,
    /// The longest run of the task from its start, nanoseconds; 0 means no limit. The client watches it; the worker tells
    /// native functions how much of it is left.
    pub timeout_ns: u64,
}

impl TaskExtension {
    /// Returns the extension in wire format.
    #[must_use]
    pub const fn words(&self) -> [u64; EXTENSION_WORDS] {
        [
            self.lease_epoch.0 as u64 | ((self.context.0 as u64) << 32),
            self.deadline_ns,
            self.priority.cast_unsigned() as u64 | ((self.grant.word() as u64) << 32),
            self.timeout_ns,
        ]
    }

    /// Reads an extension; every bit pattern is valid.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub const fn from_words(words: [u64; EXTENSION_WORDS]) -> Self {
        Self {
            lease_epoch: Epoch(words[0] as u32),
            context: ContextId((words[0] >> 32) as u32),
            deadline_ns: words[1],
            priority: (words[2] as u32).cast_signed(),
            grant: ResourceGrant::from_word((words[2] >> 32) as u32),
            timeout_ns: words[3],
        }
    }
}

/// The words in front of the bytes of one parent's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentEntry {
    /// The parent task. With size 0 and [`ParentEntry::IN_RING`], its result is one that this worker produced itself.
    pub task: TaskId,
    /// Bytes of the result that follow.
    pub size: u32,
    /// Flags that say how to read the bytes.
    pub flags: u32,
}

impl ParentEntry {
    /// The result is not here: this worker gave it in an earlier answer in the same ring. Reserved.
    pub const IN_RING: u32 = 1;
    /// The bytes are an arena descriptor.
    pub const ARENA: u32 = 2;

    /// Returns the entry in wire format.
    #[must_use]
    pub const fn words(&self) -> [u64; PARENT_WORDS] {
        [self.task.word(), self.size as u64 | ((self.flags as u64) << 32)]
    }

    /// Reads an entry. The caller checks the size against the record.
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
        let golden = [5, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 2, 9, 0, 0, 17, 0, 0, 0, 1, 3, 0, 0];
        assert_eq!(bytes(frame.words()), golden);
        assert_eq!(TaskFrame::from_words(frame.words()), Ok(frame));
        let most = TaskFrame { parent_count: crate::PARENTS_MAX, ..frame };
        assert_eq!(TaskFrame::from_words(most.words()), Ok(most));
    }

    #[test]
    fn golden_extension_and_parent() {
        let extension = TaskExtension {
            lease_epoch: Epoch(1),
            context: ContextId(2),
            deadline_ns: 3,
            priority: -4,
            grant: ResourceGrant { devices: 5, places: 6 },
            timeout_ns: 7,
        };
        let golden = [
            [1, 0, 0, 0, 2, 0, 0, 0],
            [3, 0, 0, 0, 0, 0, 0, 0],
            [0xfc, 0xff, 0xff, 0xff, 5, 0, 6, 0],
            [7, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
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
