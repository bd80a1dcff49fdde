//! The message that sends a task to another node.

use super::{MessageKind, ParentResults, Parted, Reader, put_words, write_message};
use crate::{Attempt, ContextId, FrameError, FunctionId, PARENTS_MAX, ResourceRequest, TaskId};

/// Limits and resources of a task, besides its call. Times are nanoseconds; `u64::MAX` means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskLimits {
    /// The time left in which the task may start, as of its sending. It is relative because the clocks of two nodes differ.
    pub deadline_left_ns: u64,
    /// The longest time that the task may run, from its start.
    pub timeout_ns: u64,
    /// The time from an interrupt to the kill.
    pub grace_ns: u64,
    /// The priority; tasks of higher priority are placed earlier.
    pub priority: i32,
    /// The context that the task runs in.
    pub context: ContextId,
    /// Resources that the task needs besides a worker.
    pub demand: ResourceRequest,
}

/// A task, borrowed from the message.
#[derive(Debug, Clone)]
pub struct TaskMessage<'a> {
    /// The id that the sender gave the task.
    pub task: TaskId,
    /// The function to call, by the sender's id.
    pub function: FunctionId,
    /// The placement of the task that this message belongs to.
    pub attempt: Attempt,
    /// True if a large result may stay with the receiver until the sender asks for it.
    pub may_stay: bool,
    /// Limits and resources; `None` means all defaults.
    pub limits: Option<TaskLimits>,
    /// Results that the arguments name by index.
    pub parents: ParentResults<'a>,
    /// Encoded arguments.
    pub payload: Parted<'a>,
}

/// The flag of a task with limits.
const LIMITED: u64 = 1 << 40;
/// The flag of a task whose large result may stay.
const MAY_STAY: u64 = 1 << 41;
/// The value instead of the number of parents if a separate word holds that number.
const COUNTED_BEHIND: u32 = 0xFFFF;

impl<'a> TaskMessage<'a> {
    /// Appends a task. `fill` appends `parent_count` results, then the arguments, with [`Parted::put_head`]. Returns the
    /// message's size. If 16 bits are too few for the number of parents, a separate word behind the limits holds it.
    #[inline]
    pub fn write(
        out: &mut Vec<u8>,
        (task, function, attempt): (TaskId, FunctionId, Attempt),
        limits: Option<&TaskLimits>,
        (parent_count, may_stay): (u32, bool),
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        let word = u64::from(function.0)
            | (u64::from(attempt.0) << 32)
            | if limits.is_some() { LIMITED } else { 0 }
            | if may_stay { MAY_STAY } else { 0 }
            | (u64::from(parent_count.min(COUNTED_BEHIND)) << 48);
        write_message(out, MessageKind::Task, |out| {
            put_words(out, [task.word(), word]);
            if let Some(limits) = limits {
                let urgency = u64::from(limits.priority.cast_unsigned())
                    | (u64::from(limits.context.0) << 32);
                let times = [limits.deadline_left_ns, limits.timeout_ns, limits.grace_ns, urgency];
                put_words(out, times);
                put_words(out, limits.demand.words());
            }
            if parent_count >= COUNTED_BEHIND {
                put_words(out, [u64::from(parent_count)]);
            }
            fill(out);
        })
    }

    /// Reads the id of a task, and its placement, from the beginning of the body.
    ///
    /// # Errors
    /// [`FrameError::Truncated`]: the beginning is too short.
    #[expect(clippy::cast_possible_truncation, reason = "a field of a packed word")]
    pub fn task_of(body: &[u8]) -> Result<(TaskId, Attempt), FrameError> {
        let [task, word] = Reader::new(body).words()?;
        Ok((TaskId::from_word(task), Attempt((word >> 32) as u8)))
    }

    /// Reads a task.
    ///
    /// # Errors
    /// [`FrameError::Truncated`]: the task is shorter than it states; [`FrameError::TooManyParents`].
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub fn read(body: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body);
        let [task, word] = reader.words()?;
        let limits = if word & LIMITED == 0 {
            None
        } else {
            let [deadline_left_ns, timeout_ns, grace_ns, urgency] = reader.words()?;
            Some(TaskLimits {
                deadline_left_ns,
                timeout_ns,
                grace_ns,
                priority: (urgency as u32).cast_signed(),
                context: ContextId((urgency >> 32) as u32),
                demand: ResourceRequest::from_words(reader.words()?),
            })
        };
        let mut left = (word >> 48) as u32;
        if left == COUNTED_BEHIND {
            let [count] = reader.words()?;
            if count > u64::from(PARENTS_MAX) {
                return Err(FrameError::TooManyParents { count });
            }
            left = count as u32;
        }
        let parents = ParentResults { reader: reader.clone(), left };
        let mut behind = parents.clone();
        for parent in behind.by_ref() {
            parent?;
        }
        let mut reader = behind.reader;
        Ok(Self {
            task: TaskId::from_word(task),
            function: FunctionId(word as u32),
            attempt: Attempt((word >> 32) as u8),
            may_stay: word & MAY_STAY != 0,
            limits,
            parents,
            payload: Parted::read(&mut reader)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Messages, ParentResult, Part};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_task() {
        let mut chunk = Vec::new();
        let name = (TaskId::new(5, 7), FunctionId(9), Attempt(2));
        TaskMessage::write(&mut chunk, name, None, (0, false), |out| Parted::put_plain(out, b"ab"));
        let golden = [
            32, 0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0,
            0, 0, 0, b'a', b'b', 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(chunk, golden);
    }

    #[test]
    fn limits_and_parents_come_back() {
        let limits = TaskLimits {
            deadline_left_ns: 1,
            timeout_ns: u64::MAX,
            grace_ns: 3,
            priority: -4,
            context: ContextId(5),
            demand: ResourceRequest { cores: 6, gpus: 7, memory: 8 },
        };
        let mut chunk = Vec::new();
        let name = (TaskId::new(1, 2), FunctionId(3), Attempt(4));
        TaskMessage::write(&mut chunk, name, Some(&limits), (3, true), |out| {
            Parted::put_plain(out, b"first");
            ParentResult::put_task(out, TaskId::new(6, 7), Attempt(8));
            Parted::put_head(out, b"second", 1);
            Parted::put_part(out, 3, |space| space.copy_from_slice(b"big"));
            Parted::put_plain(out, b"arguments");
        });
        let (_, body) = Messages::new(&chunk).next().expect("one").expect("whole");
        let task = TaskMessage::read(body).expect("it decodes");
        assert_eq!(TaskMessage::task_of(&body[..16]), Ok((name.0, name.2)), "of the beginning");
        assert_eq!((task.task, task.function, task.attempt), name);
        assert_eq!((task.limits, task.payload.bytes), (Some(limits), b"arguments".as_slice()));
        assert!(task.may_stay);
        let parents: Vec<_> = task.parents.map(|one| one.expect("it decodes")).collect();
        let value = |bytes, parts| ParentResult::Value(Parted { bytes, parts });
        assert_eq!(parents[0], value(b"first".as_slice(), Vec::new()));
        assert_eq!(parents[1], ParentResult::Of(TaskId::new(6, 7), Attempt(8)));
        assert_eq!(parents[2], value(b"second".as_slice(), vec![Part::Bytes(b"big")]));
    }

    #[test]
    fn any_number_of_parents_up_to_the_bound_comes_back() {
        for count in [0xFFFE, 0xFFFF, 0x1_0000, 70_000] {
            let mut chunk = Vec::new();
            let name = (TaskId::new(1, 2), FunctionId(3), Attempt(4));
            TaskMessage::write(&mut chunk, name, None, (count, false), |out| {
                for parent in 0..count {
                    ParentResult::put_task(out, TaskId::new(parent, 0), Attempt(0));
                }
                Parted::put_plain(out, b"arguments");
            });
            let (_, body) = Messages::new(&chunk).next().expect("one").expect("whole");
            let task = TaskMessage::read(body).expect("it decodes");
            assert_eq!(task.parents.count(), count as usize);
            assert_eq!(task.payload.bytes, b"arguments");
        }
    }

    #[test]
    fn more_parents_than_a_task_can_have_are_refused() {
        let mut body = Vec::new();
        put_words(&mut body, [0, u64::from(COUNTED_BEHIND) << 48, u64::from(PARENTS_MAX) + 1]);
        let refused = TaskMessage::read(&body).err();
        assert_eq!(refused, Some(FrameError::TooManyParents { count: 1 << 24 }));
    }

    proptest! {
        #[test]
        fn any_body_decodes_or_is_refused(bytes: Vec<u8>) {
            if let Ok(task) = TaskMessage::read(&bytes) {
                let (count, least) = (task.parents.count(), size_of::<u64>());
                prop_assert!(count * least <= bytes.len());
            }
        }
    }
}
