//! Laws that every correct scheduler obeys, at any cost of the steps.

use gristmill_replay::{ClusterSpec, Costs, Forecast, Graph, RecordedTask, Replay, ReplayError};
use proptest::prelude::*;

/// A millisecond, nanoseconds.
const MS: u64 = 1_000_000;

fn task(run_ns: u64, parents: Vec<u32>) -> RecordedTask {
    RecordedTask { run_ns, arrival_ns: 0, result_size: 0, function: 0, parents }
}

fn bag(count: u64, run_ns: u64) -> Vec<RecordedTask> {
    (0..count).map(|_| task(run_ns, vec![])).collect()
}

fn chain(count: u32, run_ns: u64) -> Vec<RecordedTask> {
    (0..count).map(|one| task(run_ns, one.checked_sub(1).into_iter().collect())).collect()
}

fn run(
    tasks: Vec<RecordedTask>,
    (nodes, workers): (u16, u16),
    costs: Costs,
    seed: u64,
) -> Forecast {
    let graph = Graph::new(tasks).expect("it is a graph");
    let cluster = ClusterSpec { nodes, workers, cores: u32::MAX };
    let mut replay = Replay::new(graph, cluster, costs, seed).expect("there are workers");
    while !replay.advance(10_000).expect("it ends") {}
    replay.forecast()
}

/// Returns the maximum overhead of a task that does not wait for a network.
fn overhead_ns(costs: &Costs) -> u64 {
    costs.program_ns
        + costs.submit_ns
        + costs.answer_ns
        + 2 * costs.see_ns
        + costs.call_ns
        + costs.wrap_ns
}

#[test]
fn a_bag_of_equal_tasks_takes_as_many_rounds_as_each_worker_has() {
    for (count, workers) in [(1, 1), (7, 1), (8, 2), (9, 2), (100, 3), (1_000, 64), (5, 64)] {
        for nodes in [0, 1] {
            let found = run(bag(count, 10 * MS), (nodes, workers), Costs::nothing(), 1);
            let rounds = count.div_ceil(u64::from(workers));
            // A task queued behind another one is moved once the other has run for 100 us and a worker idles.
            let late = found.makespan_ns - rounds * 10 * MS;
            assert!(late < MS, "{count} on {nodes} nodes of {workers}: {late} ns late");
        }
    }
}

#[test]
fn a_chain_takes_the_sum_of_its_tasks() {
    for cluster in [(0, 2), (1, 4), (50, 4)] {
        let found = run(chain(500, MS), cluster, Costs::nothing(), 1);
        assert_eq!(found.makespan_ns, 500 * MS);
        assert_eq!(found.critical_path_ns, 500 * MS);
    }
    let costs = Costs { scatter: 0.0, ..Costs::default() };
    let found = run(chain(500, MS), (0, 2), costs, 1);
    let overhead = found.makespan_ns - 500 * MS;
    let most = 500 * (overhead_ns(&costs) + 2 * costs.wake_ns);
    assert!(overhead < most, "{overhead} ns of at most {most}");
}

#[test]
fn more_nodes_are_never_slower_for_a_bag() {
    for costs in [Costs::nothing(), Costs::default()] {
        let mut before = u64::MAX;
        for nodes in [1, 2, 4, 8, 16, 32] {
            let found = run(bag(2_000, 5 * MS), (nodes, 4), costs, 3);
            let tolerance = found.makespan_ns / 100;
            assert!(
                found.makespan_ns <= before.saturating_add(tolerance),
                "{nodes} nodes: {found:?}"
            );
            before = found.makespan_ns;
        }
    }
}

#[test]
fn a_thousand_nodes_share_a_bag_evenly() {
    let found = run(bag(24_000, 1_000 * MS), (1_000, 16), Costs::default(), 1);
    assert_eq!(found.tasks_of_nodes.len(), 1_000);
    assert_eq!(found.tasks_of_nodes.iter().sum::<u32>(), 24_000);
    let (least, most) = (found.tasks_of_nodes.iter().min(), found.tasks_of_nodes.iter().max());
    assert!(least >= Some(&16) && most <= Some(&48), "{least:?} to {most:?}");
    assert!(found.makespan_ns < 2_500 * MS, "{found:?}");
}

#[test]
fn what_waits_at_a_node_is_moved_to_one_that_idles() {
    // The tasks follow their parent to its node, two for each of its workers, while other nodes idle.
    let mut tasks = vec![task(MS, vec![])];
    tasks.extend((0..8).map(|_| task(50 * MS, vec![0])));
    let found = run(tasks, (3, 4), Costs::default(), 1);
    assert!(found.given_back > 0, "{found:?}");
    assert!(found.makespan_ns < 60 * MS, "{found:?}");
}

#[test]
fn a_seed_is_repeated_and_another_one_is_another_run() {
    let tasks = || bag(300, 20_000);
    let first = run(tasks(), (3, 2), Costs::default(), 5);
    assert_eq!(run(tasks(), (3, 2), Costs::default(), 5), first);
    assert_ne!(run(tasks(), (3, 2), Costs::default(), 6).makespan_ns, first.makespan_ns);
}

#[test]
fn tasks_come_when_they_came() {
    let tasks: Vec<RecordedTask> =
        (0..10).map(|one| RecordedTask { arrival_ns: one * 50 * MS, ..task(MS, vec![]) }).collect();
    let found = run(tasks, (0, 2), Costs::nothing(), 1);
    assert_eq!(found.makespan_ns, 451 * MS);
    assert_eq!(found.wait.max_ns, 0);
}

#[test]
fn the_first_task_comes_when_it_came_too() {
    let late = RecordedTask { arrival_ns: 5 * MS, ..task(MS, vec![]) };
    for nodes in [0, 1] {
        let found = run(vec![late.clone()], (nodes, 1), Costs::nothing(), 1);
        assert_eq!((found.makespan_ns, found.wait.max_ns), (6 * MS, 0), "{nodes} nodes");
    }
}

#[test]
fn large_results_go_home_and_to_each_node_that_needs_them_once() {
    let size = 10_000_000;
    let mut tasks = vec![RecordedTask { result_size: size, ..task(MS, vec![]) }];
    tasks.extend((0..64).map(|_| task(50 * MS, vec![0])));
    let found = run(tasks, (4, 4), Costs::default(), 1);
    assert!((size..size + 100_000).contains(&found.bytes_received), "{found:?}");
    assert!(found.bytes_sent < 4 * size, "the node that made it has it: {found:?}");
    assert!(found.bytes_sent >= size, "{found:?}");
}

#[test]
fn without_workers_there_is_no_replay() {
    let graph = Graph::new(bag(1, 1)).expect("it is a graph");
    let cluster = ClusterSpec { nodes: 3, workers: 0, cores: 1 };
    let refused = Replay::new(graph, cluster, Costs::default(), 1).err();
    assert_eq!(refused, Some(ReplayError::NoWorkers));
}

#[test]
fn what_could_not_be_counted_is_refused() {
    let tasks = || {
        let large = RecordedTask { result_size: 1 << 60, ..task(1, vec![]) };
        Graph::new(vec![large, task(1, vec![0; 64])]).expect("it is a graph")
    };
    let cluster = ClusterSpec { nodes: 2, workers: 2, cores: u32::MAX };
    let slow = Costs { link_rate: 1, ..Costs::nothing() };
    let costly = Costs { hop_ns: 3_600_000_000_000, scatter: 2.0, ..Costs::nothing() };
    for costs in [slow, costly] {
        let refused = Replay::new(tasks(), cluster, costs, 1).err();
        assert!(matches!(refused, Some(ReplayError::TooLong { .. })), "{refused:?}");
    }
    let fast = Costs { link_rate: u64::MAX, ..Costs::nothing() };
    let mut replay = Replay::new(tasks(), cluster, fast, 1).expect("it is fast enough");
    assert_eq!(replay.advance(1_000), Ok(true));
}

/// Returns tasks whose parents are drawn from the tasks before them.
fn graphs() -> impl Strategy<Value = Vec<RecordedTask>> {
    let one = (0..3 * MS, 0..3_000_000_u64, 0..3_u32, prop::collection::vec(any::<u32>(), 0..4));
    prop::collection::vec(one, 1..80).prop_map(|drawn| {
        let count = u32::try_from(drawn.len()).expect("few");
        let tasks = drawn.into_iter().zip(0..count);
        tasks
            .map(|((run_ns, result_size, function, parents), number)| RecordedTask {
                run_ns,
                arrival_ns: u64::from(number) * 1_000,
                result_size,
                function: function.min(count - 1),
                parents: parents.iter().filter_map(|one| one.checked_rem(number)).collect(),
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_graph_ends_on_every_cluster_and_none_beats_its_bound(
        tasks in graphs(), nodes in 0_u16..6, workers in 1_u16..5, seed in any::<u64>(),
    ) {
        let count = tasks.len();
        let free = run(tasks.clone(), (nodes, workers), Costs::nothing(), seed);
        let costly = run(tasks, (nodes, workers), Costs::default(), seed);
        for found in [free, costly] {
            prop_assert!(found.makespan_ns >= found.bound_ns);
            prop_assert_eq!(found.tasks_of_nodes.iter().sum::<u32>() as usize, count);
        }
    }
}
