//! What was recorded: tasks, what they took, and what they needed.

use thiserror::Error;

/// A task of a recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// How long it ran.
    pub run_ns: u64,
    /// When it was submitted, from the start of the run; in the order of the tasks.
    pub arrival_ns: u64,
    /// Bytes that it returned.
    pub result_size: u64,
    /// Which function it called: the scheduler learns how long those of one take.
    pub function: u32,
    /// Those that it needed, by number: each below its own.
    pub parents: Vec<u32>,
}

/// Why tasks are no graph.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GraphError {
    /// There is nothing to run.
    #[error("there is no task")]
    Empty,
    /// More than can be numbered.
    #[error("{count} tasks are more than {limit}")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: u32,
    },
    /// A task needs itself, or one that comes after it.
    #[error("task {task} needs task {parent}, which does not come before it")]
    NotBefore {
        /// Which.
        task: usize,
        /// What it needs.
        parent: u32,
    },
    /// A task came before the one that stands before it.
    #[error("task {task} was submitted before the one that stands before it")]
    Unordered {
        /// Which.
        task: usize,
    },
    /// Functions are numbered without gaps worth mentioning.
    #[error("task {task} calls function {function}, and there are not as many tasks")]
    Function {
        /// Which.
        task: usize,
        /// Its function.
        function: u32,
    },
    /// All times together are no time.
    #[error("the tasks take longer than can be counted")]
    TooLong,
    /// All bytes together are no size.
    #[error("the results are larger than can be counted")]
    TooLarge,
}

impl GraphError {
    /// A stable name.
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

/// Tasks in an order in which each comes behind those that it needs.
#[derive(Debug, Clone)]
pub struct Graph {
    tasks: Vec<Task>,
    children: Vec<u32>,
    work_ns: u64,
    critical_ns: u64,
    moved: u128,
}

/// So many are numbered; the machine's own limit is its memory.
const TASKS_MAX: u32 = 1 << 28;
/// A third of a century: virtual time stays below what 64 bits count, with all that is added to it.
const TIME_MAX_NS: u64 = 1 << 60;

impl Graph {
    /// Looks at recorded tasks.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn new(tasks: Vec<Task>) -> Result<Self, GraphError> {
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

    /// The tasks.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub(crate) fn task(&self, number: u32) -> &Task {
        &self.tasks[number as usize]
    }

    /// How often each task is named as a parent.
    pub(crate) fn child_counts(&self) -> &[u32] {
        &self.children
    }

    /// Bytes that tasks are given and return, each time that they are.
    pub(crate) const fn moved_size(&self) -> u128 {
        self.moved
    }

    /// How long the tasks ran, together.
    #[must_use]
    pub const fn work_ns(&self) -> u64 {
        self.work_ns
    }

    /// How long the longest way through the graph is.
    #[must_use]
    pub const fn critical_path_ns(&self) -> u64 {
        self.critical_ns
    }

    /// What no scheduler can be faster than: the longest way, or the work of each worker.
    #[must_use]
    pub fn bound_ns(&self, workers: u64) -> u64 {
        self.critical_ns.max(self.work_ns.div_ceil(workers.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(run_ns: u64, parents: &[u32]) -> Task {
        Task { run_ns, arrival_ns: 0, result_size: 0, function: 0, parents: parents.to_vec() }
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
        let late = Task { arrival_ns: 3, ..task(1, &[]) };
        let refused = [
            (vec![], GraphError::Empty),
            (vec![task(1, &[0])], GraphError::NotBefore { task: 0, parent: 0 }),
            (vec![task(1, &[1]), task(1, &[])], GraphError::NotBefore { task: 0, parent: 1 }),
            (vec![late, task(1, &[])], GraphError::Unordered { task: 1 }),
            (
                vec![Task { function: 9, ..task(1, &[]) }],
                GraphError::Function { task: 0, function: 9 },
            ),
            (vec![task(u64::MAX / 2, &[]), task(u64::MAX / 2, &[])], GraphError::TooLong),
            (vec![Task { result_size: u64::MAX, ..task(1, &[]) }; 2], GraphError::TooLarge),
        ];
        for (tasks, error) in refused {
            assert_eq!(Graph::new(tasks).map(|_| ()), Err(error));
        }
    }
}
