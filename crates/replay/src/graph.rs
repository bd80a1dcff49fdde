//! The recorded graph: tasks, their times, and their parents.

use thiserror::Error;

/// A task of a recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedTask {
    /// Run time of the task.
    pub run_ns: u64,
    /// Time of the submission, from the start of the run. It never decreases from task to task.
    pub arrival_ns: u64,
    /// Bytes that the task returned.
    pub result_size: u64,
    /// Number of the function that the task called. The scheduler learns the run time of each function.
    pub function: u32,
    /// Indices of the tasks that this one needed, each below its own.
    pub parents: Vec<u32>,
}

/// The reason why tasks are not a valid graph.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GraphError {
    /// There is no task.
    #[error("the graph has no task")]
    Empty,
    /// There are more tasks than can be numbered.
    #[error("{count} tasks are more than {limit}")]
    TooMany {
        /// Number of tasks.
        count: usize,
        /// Largest valid number of tasks.
        limit: u32,
    },
    /// A task needs itself, or one that comes after it.
    #[error("task {task} needs task {parent}, which does not come before it")]
    NotBefore {
        /// Index of the task.
        task: usize,
        /// Index of the parent.
        parent: u32,
    },
    /// A task was submitted before the task that precedes it in the list.
    #[error("task {task} was submitted before the task that precedes it in the list")]
    Unordered {
        /// Index of the task.
        task: usize,
    },
    /// The number of a function is too large: it must be below the number of tasks.
    #[error("task {task} calls function {function}, whose number is not below the number of tasks")]
    Function {
        /// Index of the task.
        task: usize,
        /// Number of the function.
        function: u32,
    },
    /// The sum of all times would overflow.
    #[error("the times of the tasks exceed 64 bits together")]
    TooLong,
    /// The sum of all bytes would overflow.
    #[error("the sizes of the results exceed 64 bits together")]
    TooLarge,
}

impl GraphError {
    /// Returns the code that the exception in Python has.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "graph_empty",
            Self::TooMany { .. } => "graph_too_many",
            Self::NotBefore { .. } => "graph_not_before",
            Self::Unordered { .. } => "graph_unordered",
            Self::Function { .. } => "graph_function",
            Self::TooLong => "graph_too_long",
            Self::TooLarge => "graph_too_large",
        }
    }
}

/// Tasks in an order in which each comes after its parents.
#[derive(Debug, Clone)]
pub struct Graph {
    tasks: Vec<RecordedTask>,
    /// Number of times that each task is named as a parent, by task index.
    children: Vec<u32>,
    work_ns: u64,
    critical_ns: u64,
    /// Total size of all arguments and results, bytes.
    moved: u128,
}

/// Maximum number of tasks; in practice memory sets the limit.
const TASKS_MAX: u32 = 1 << 28;
/// 36 years, nanoseconds: virtual time, with all that is added to it, fits in 64 bits.
const TIME_MAX_NS: u64 = 1 << 60;

impl Graph {
    /// Checks recorded tasks and makes a graph of them.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn new(tasks: Vec<RecordedTask>) -> Result<Self, GraphError> {
        if tasks.is_empty() {
            return Err(GraphError::Empty);
        }
        if tasks.len() > TASKS_MAX as usize {
            return Err(GraphError::TooMany { count: tasks.len(), limit: TASKS_MAX });
        }
        let mut children = vec![0; tasks.len()];
        let mut ends = vec![0_u64; tasks.len()];
        let (mut work_ns, mut size, mut arrival_ns, mut moved) = (0_u64, 0_u64, 0_u64, 0_u128);
        for (number, task) in tasks.iter().enumerate() {
            if let Some(&parent) = task.parents.iter().find(|&&one| one as usize >= number) {
                return Err(GraphError::NotBefore { task: number, parent });
            }
            if task.arrival_ns < arrival_ns {
                return Err(GraphError::Unordered { task: number });
            }
            if task.function as usize >= tasks.len() {
                return Err(GraphError::Function { task: number, function: task.function });
            }
            arrival_ns = task.arrival_ns;
            let sum = work_ns.checked_add(task.run_ns).filter(|&sum| sum < TIME_MAX_NS);
            work_ns = sum.filter(|_| arrival_ns < TIME_MAX_NS).ok_or(GraphError::TooLong)?;
            size = size.checked_add(task.result_size).ok_or(GraphError::TooLarge)?;
            let begin = task.parents.iter().map(|&one| ends[one as usize]).max().unwrap_or(0);
            ends[number] = begin + task.run_ns;
            task.parents.iter().for_each(|&one| children[one as usize] += 1);
            let given = task.parents.iter().map(|&one| u128::from(tasks[one as usize].result_size));
            moved += given.sum::<u128>() + u128::from(task.result_size);
        }
        let critical_ns = ends.into_iter().max().unwrap_or(0);
        Ok(Self { tasks, children, work_ns, critical_ns, moved })
    }

    /// Returns the tasks.
    #[must_use]
    pub fn tasks(&self) -> &[RecordedTask] {
        &self.tasks
    }

    pub(crate) fn task(&self, number: u32) -> &RecordedTask {
        &self.tasks[number as usize]
    }

    /// Returns the number of times that each task is named as a parent.
    pub(crate) fn child_counts(&self) -> &[u32] {
        &self.children
    }

    /// Returns the bytes of all arguments and results. A result counts once for each task that receives it.
    pub(crate) const fn moved_size(&self) -> u128 {
        self.moved
    }

    /// Returns the sum of the tasks' run times.
    #[must_use]
    pub const fn work_ns(&self) -> u64 {
        self.work_ns
    }

    /// Returns the length of the longest path through the graph.
    #[must_use]
    pub const fn critical_path_ns(&self) -> u64 {
        self.critical_ns
    }

    /// Returns the lower bound of the makespan for any scheduler: the longest path, or the work divided by the number of
    /// workers.
    #[must_use]
    pub fn bound_ns(&self, workers: u64) -> u64 {
        self.critical_ns.max(self.work_ns.div_ceil(workers.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(run_ns: u64, parents: &[u32]) -> RecordedTask {
        RecordedTask {
            run_ns,
            arrival_ns: 0,
            result_size: 0,
            function: 0,
            parents: parents.to_vec(),
        }
    }

    #[test]
    fn the_longest_way_counts_and_the_work_of_each_worker() {
        let tasks = vec![task(5, &[]), task(7, &[0]), task(1, &[0]), task(2, &[1, 2])];
        let graph = Graph::new(tasks).expect("it is one");
        assert_eq!((graph.critical_path_ns(), graph.work_ns()), (14, 15));
        assert_eq!((graph.bound_ns(1), graph.bound_ns(2)), (15, 14));
    }

    #[test]
    fn what_is_no_graph_is_refused_by_the_number_of_its_task() {
        let late = RecordedTask { arrival_ns: 3, ..task(1, &[]) };
        let refused = [
            (vec![], GraphError::Empty),
            (vec![task(1, &[0])], GraphError::NotBefore { task: 0, parent: 0 }),
            (vec![task(1, &[1]), task(1, &[])], GraphError::NotBefore { task: 0, parent: 1 }),
            (vec![late, task(1, &[])], GraphError::Unordered { task: 1 }),
            (
                vec![RecordedTask { function: 9, ..task(1, &[]) }],
                GraphError::Function { task: 0, function: 9 },
            ),
            (vec![task(u64::MAX / 2, &[]), task(u64::MAX / 2, &[])], GraphError::TooLong),
            (vec![RecordedTask { result_size: u64::MAX, ..task(1, &[]) }; 2], GraphError::TooLarge),
        ];
        for (tasks, error) in refused {
            assert_eq!(Graph::new(tasks).map(|_| ()), Err(error));
        }
    }
}
