//! An independent check of the scheduler: each task runs once, and after its parents.

use crate::graph::Graph;

const NEVER: u64 = u64::MAX;

/// The times of each task's submission, start and end.
#[derive(Debug)]
pub(crate) struct Watch {
    submitted_at: Vec<u64>,
    begun_at: Vec<u64>,
    ended_at: Vec<u64>,
    /// Number of tasks that ran, by engine.
    pub counts: Vec<u32>,
    /// The first violation: the task and what it did.
    pub complaint: Option<(u32, &'static str)>,
}

impl Watch {
    pub fn new(count: usize, engines: usize) -> Self {
        Self {
            submitted_at: vec![NEVER; count],
            begun_at: vec![NEVER; count],
            ended_at: vec![NEVER; count],
            counts: vec![0; engines],
            complaint: None,
        }
    }

    pub fn submitted(&mut self, number: u32, now: u64) {
        self.submitted_at[number as usize] = now;
    }

    pub fn began(&mut self, graph: &Graph, (number, engine): (u32, usize), now: u64) {
        let has_ended = |&parent: &u32| self.ended_at[parent as usize] <= now;
        if !graph.task(number).parents.iter().all(has_ended) {
            self.complaint.get_or_insert((number, "ran before a task that it needs had ended"));
        }
        let begun_at = &mut self.begun_at[number as usize];
        if *begun_at != NEVER {
            self.complaint.get_or_insert((number, "ran twice"));
        }
        *begun_at = now;
        self.counts[engine] += 1;
    }

    pub fn ended(&mut self, number: u32, now: u64) {
        self.ended_at[number as usize] = now;
    }

    /// Returns the times that tasks waited for a worker after their submission and their parents' ends, sorted.
    pub fn waits_ns(&self, graph: &Graph) -> Vec<u64> {
        let wait_ns = |(number, task): (usize, &crate::RecordedTask)| {
            let parents = task.parents.iter().map(|&parent| self.ended_at[parent as usize]);
            let ready_at = parents.fold(self.submitted_at[number], u64::max);
            self.begun_at[number].saturating_sub(ready_at)
        };
        let mut waits: Vec<u64> = graph.tasks().iter().enumerate().map(wait_ns).collect();
        waits.sort_unstable();
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedTask;

    #[test]
    fn what_runs_twice_or_too_early_is_seen() {
        let task = |parents: &[u32]| RecordedTask {
            run_ns: 1,
            arrival_ns: 0,
            result_size: 0,
            function: 0,
            parents: parents.to_vec(),
        };
        let graph = Graph::new(vec![task(&[]), task(&[0])]).expect("it is one");
        let mut early = Watch::new(2, 1);
        early.began(&graph, (1, 0), 5);
        assert_eq!(early.complaint, Some((1, "ran before a task that it needs had ended")));
        let mut twice = Watch::new(2, 1);
        twice.began(&graph, (0, 0), 5);
        twice.began(&graph, (0, 0), 6);
        assert_eq!(twice.complaint, Some((0, "ran twice")));
    }
}
