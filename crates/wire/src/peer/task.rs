//! A task on its way to another node.

use super::{MessageKind, ParentResults, Parted, Reader, put_words, write_message};
use crate::{Attempt, ContextId, Demand, FrameError, FunctionId, TaskId};

/// What a task asks for besides its call. Times are nanoseconds; `u64::MAX` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskLimits {
    /// How much of the time was left in which it may start, when it was sent: clocks of two nodes do not agree.
    pub deadline_left_ns: u64,
    /// Longest run, from its start.
    pub timeout_ns: u64,
    /// From an interrupt to the kill.
    pub grace_ns: u64,
    /// Higher is placed earlier.
    pub priority: i32,
    /// The context it runs in.
    pub context: ContextId,
    /// What it needs besides a worker.
    pub demand: Demand,
}

/// A task, read where it lies.
#[derive(Debug, Clone)]
pub struct TaskMessage<'a> {
    /// Its id with whoever sent it.
    pub task: TaskId,
    /// What to call, as defined by whoever sent it.
    pub function: FunctionId,
    /// Which placement of it this is.
    pub attempt: Attempt,
    /// A large result may stay with whoever runs it, until it is asked for.
    pub may_stay: bool,
    /// What else it asks for; none is all defaults.
    pub limits: Option<TaskLimits>,
    /// Results that its arguments name by index.
    pub parents: ParentResults<'a>,
    /// Encoded arguments.
    pub payload: Parted<'a>,
}

/// The task has limits.
const LIMITED: u64 = 1 << 40;
/// A large result may stay.
const MAY_STAY: u64 = 1 << 41;

impl<'a> TaskMessage<'a> {
    /// Appends a task; `fill` appends `parent_count` results, then the arguments, with [`Parted::put_head`]. Gives the
    /// message's size.
    #[inline]
    pub fn write(
        out: &mut Vec<u8>,
        (task, function, attempt): (TaskId, FunctionId, Attempt),
        limits: Option<&TaskLimits>,
        (parent_count, may_stay): (u16, bool),
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        let word = u64::from(function.0)
            | (u64::from(attempt.0) << 32)
            | if limits.is_some() { LIMITED } else { 0 }
            | if may_stay { MAY_STAY } else { 0 }
            | (u64::from(parent_count) << 48);
        write_message(out, MessageKind::Task, |out| {
            put_words(out, [task.word(), word]);
            if let Some(limits) = limits {
                let urgency = u64::from(limits.priority.cast_unsigned())
                    | (u64::from(limits.context.0) << 32);
                let times = [limits.deadline_left_ns, limits.timeout_ns, limits.grace_ns, urgency];
                put_words(out, times);
                put_words(out, limits.demand.words());
            }
            fill(out);
        })
    }

    /// Reads a task.
    ///
    /// # Errors
    /// [`FrameError::Truncated`]: it is shorter than it says.
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
                demand: Demand::from_words(reader.words()?),
            })
        };
        let left = (word >> 48) as u16;
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
            demand: Demand { cores: 6, gpus: 7, memory: 8 },
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
        assert_eq!((task.task, task.function, task.attempt), name);
        assert_eq!((task.limits, task.payload.bytes), (Some(limits), b"arguments".as_slice()));
        assert!(task.may_stay);
        let parents: Vec<_> = task.parents.map(|one| one.expect("it decodes")).collect();
        let value = |bytes, parts| ParentResult::Value(Parted { bytes, parts });
        assert_eq!(parents[0], value(b"first".as_slice(), Vec::new()));
        assert_eq!(parents[1], ParentResult::Of(TaskId::new(6, 7), Attempt(8)));
        assert_eq!(parents[2], value(b"second".as_slice(), vec![Part::Bytes(b"big")]));
    }

    proptest! {
        #[test]
        fn any_body_decodes_or_is_refused(bytes: Vec<u8>) {
            if let Ok(task) = TaskMessage::read(&bytes) {
                prop_assert!(task.parents.count() <= usize::from(u16::MAX));
            }
        }
    }
}
