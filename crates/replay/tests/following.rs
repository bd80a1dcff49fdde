//! Tasks that wait at a node for their parents leave its workers to tasks that are ready.

use gristmill_replay::{ClusterSpec, Costs, Graph, RecordedTask, Replay};

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

/// Returns the makespan on one node of four workers over a link of 100 us, for one long task, `waiting` tasks that need it,
/// and `ready` tasks without parents.
fn makespan_ns(long_ns: u64, waiting: u32, (ready, run_ns): (u32, u64)) -> u64 {
    let task = |function, run_ns, parents| RecordedTask {
        run_ns,
        arrival_ns: 0,
        result_size: 0,
        function,
        parents,
    };
    let mut tasks = vec![task(0, long_ns, vec![])];
    tasks.extend((0..waiting).map(|_| task(1, run_ns, vec![0])));
    tasks.extend((0..ready).map(|_| task(1, run_ns, vec![])));
    let graph = Graph::new(tasks).expect("it is a graph");
    let cluster = ClusterSpec { nodes: 1, workers: 4, cores: u32::MAX };
    let costs = Costs { hop_ns: 100 * US, program_ns: 0, wrap_ns: 0, ..Costs::default() };
    let mut replay = Replay::new(graph, cluster, costs, 1).expect("there are workers");
    while !replay.advance(1_000).expect("it ends") {}
    replay.forecast().makespan_ns
}

#[test]
fn what_waits_behind_a_long_task_does_not_hold_up_what_is_ready() {
    // The other three workers have as much work as the worker of the long task.
    assert!(makespan_ns(1_000 * MS, 50, (60, 50 * MS)) < 1_900 * MS);
}

#[test]
fn short_tasks_that_are_ready_go_in_a_stream_however_many_wait() {
    assert!(makespan_ns(200 * MS, 500, (30_000, 10 * US)) < 240 * MS);
}
