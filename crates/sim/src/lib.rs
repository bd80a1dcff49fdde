//! Deterministic simulation of an engine's decisions against simulated workers, networks, clocks and processes, in orders that
//! a seed draws. There are three kinds of simulation.
//!
//! The *engine* is one state machine and its workers. A seed draws a program (chains, fans, diamonds, tasks that submit tasks,
//! tasks that need several CPU slots, memory or GPUs, contexts that are defined and forgotten and whose starts take long or
//! fail), an engine (workers, limits, budgets) and faults (exceptions, exits, kills at any step, the death of the keeper and of
//! all workers with it, failing starts, cancels, timeouts, deadlines, shut-down), then interleaves single steps of the program,
//! the client and the workers under a virtual clock. Checked at every step: each task gets one final state, and one that has a
//! cause; no task starts beyond its budgets, twice at a time, before its parents or after its end; running tasks use no more
//! resources than there are, and each runs in a worker that has its context. A worker that dies costs one task. It costs
//! several only if they were nested, a child in the wait of its parent: because no other worker could run the child, or because
//! the child's function had earned this by many clean runs. No worker idles for long if other tasks could use its CPU slot, and
//! tasks that wait for a worker get one in time. Checked at the end: no task is without a final state, and no record and no
//! process is left. If nothing can happen while a task is outstanding, the engine hangs, which is a failure.
//!
//! The *cluster* is a client and its nodes, each with engines of their own: see [`SimCluster`].
//!
//! The *siege* is one engine with an honest peer and hostile ones. [`Siege`] has an engine without blobs, of a program or of a
//! lease. [`DataSiege`] has a program's engine with blobs, [`LeaseSiege`] a lease's. In [`AskerSiege`], workers make arbitrary
//! requests instead.
//!
//! Not simulated: memory orders (the loom models of the ring check them), lost messages of a ring (it loses none).
#![forbid(unsafe_code)]

mod batches;
mod capacity;
mod cluster;
mod contents;
mod context_changes;
mod contexts;
mod drive;
mod fairness;
mod grants;
mod hostile;
mod inner;
mod memory;
mod observed;
mod plan;
mod precedence;
mod random;
mod run;
mod steps;
mod values;
mod worker;
mod world;

pub use cluster::{ClusterReport, SimCluster};
pub use hostile::{AskerReport, AskerSiege, Choices, DataSiege, LeaseSiege, Siege, SiegeReport};
pub use run::{Report, Simulation};

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_hundred_seeds_keep_every_promise() {
        let mut finished = [0; gristmill_core::Status::COUNT];
        for seed in 0..200 {
            let report = Simulation::new(seed, false).run();
            finished.iter_mut().zip(report.finished).for_each(|(sum, count)| *sum += count);
        }
        assert!(finished.iter().all(|&count| count > 0), "every end is reached: {finished:?}");
    }

    #[test]
    fn sixty_clusters_keep_every_promise() {
        let mut finished = [0; gristmill_core::Status::COUNT];
        let (mut lost_links, mut repeated, mut made_again) = (0, 0, 0);
        let mut blob_bytes = [0; 2];
        for seed in 0..60 {
            let report = SimCluster::new(seed, false).run();
            finished.iter_mut().zip(report.finished).for_each(|(sum, count)| *sum += count);
            lost_links += report.lost_links;
            repeated += report.repeated;
            made_again += report.made_again;
            blob_bytes.iter_mut().zip(report.blob_bytes).for_each(|(sum, count)| *sum += count);
        }
        assert!(finished.iter().all(|&count| count > 0), "every end is reached: {finished:?}");
        assert!(lost_links > 0 && repeated > 0, "links are lost, and tasks repeated");
        assert!(blob_bytes.iter().all(|&count| count > 0), "large parts move: {blob_bytes:?}");
        assert!(made_again > 0, "results that stayed are made again");
    }

    #[test]
    fn a_task_whose_result_a_node_has_lost_can_be_cancelled_before_it_runs_again() {
        // The disk of the node fails, and the task is cancelled while it waits for another attempt.
        let reports = (47_341..47_401).map(|seed| SimCluster::new(seed, false).run());
        let made_again: u64 = reports.map(|report| report.made_again).sum();
        assert!(made_again > 0, "results are lost and made again");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn no_peer_can_harm_an_engine_or_its_other_peers(
            bytes in vec(any::<u8>(), 0..3_000), is_lease: bool,
        ) {
            Siege::new(is_lease).run(Choices::new(&bytes));
        }

        #[test]
        fn no_node_can_harm_the_data_of_others(bytes in vec(any::<u8>(), 0..2_000)) {
            DataSiege::default().run(Choices::new(&bytes));
        }

        #[test]
        fn no_client_can_harm_the_data_of_others(
            bytes in vec(any::<u8>(), 0..800), kind in 0_u8..4,
        ) {
            LeaseSiege::new(kind).run(Choices::new(&bytes));
        }

        #[test]
        fn no_worker_can_harm_its_engine_by_what_it_asks_for(bytes in vec(any::<u8>(), 0..2_000)) {
            AskerSiege::default().run(Choices::new(&bytes));
        }
    }

    #[test]
    fn workers_that_ask_for_anything_fill_their_contexts_and_are_given_up() {
        let mut random = random::SeededRandom::new(3);
        let mut sum = AskerReport::default();
        for _ in 0..60 {
            let bytes: Vec<u8> = (0..2_000).map(|_| random.next().to_le_bytes()[0]).collect();
            let report = AskerSiege::default().run(Choices::new(&bytes));
            (sum.taken, sum.refused) = (sum.taken + report.taken, sum.refused + report.refused);
            sum.contexts = sum.contexts.max(report.contexts);
            sum.tasks = sum.tasks.max(report.tasks);
        }
        assert!(sum.tasks > 4, "what they submit is accepted: {sum:?}");
        assert!(sum.taken > sum.refused && sum.refused > 0, "{sum:?}");
        assert_eq!(sum.contexts, 4, "they have as many as they may");
    }

    #[test]
    fn clients_that_lie_of_data_harm_no_other_and_a_lost_result_is_made_again() {
        let mut random = random::SeededRandom::new(2);
        let (mut liars, mut repeated) = (0, 0);
        for seed in 0..240 {
            let bytes: Vec<u8> = (0..2_000).map(|_| random.next().to_le_bytes()[0]).collect();
            let report = LeaseSiege::new(seed).run(Choices::new(&bytes));
            (liars, repeated) = (liars + report.liars, repeated + report.repeated);
        }
        assert!(liars > 0 && repeated > 0, "{liars} clients lied, {repeated} tasks were run again");
    }

    #[test]
    fn nodes_that_lie_of_data_are_found_out() {
        let mut random = random::SeededRandom::new(1);
        let (mut tasks, mut tainted, mut endings) = (0, 0, Vec::new());
        // One siege in thirty sends all the bytes of a result, with wrong ones among them.
        for _ in 0..300 {
            let bytes: Vec<u8> = (0..2_000).map(|_| random.next().to_le_bytes()[0]).collect();
            let report = DataSiege::default().run(Choices::new(&bytes));
            (tasks, tainted) = (tasks + report.tasks, tainted + report.tainted);
            endings.extend(report.endings);
        }
        for lie in ["that do not hash to", "has the name of a blob of"] {
            let count = endings.iter().filter(|text| text.contains(lie)).count();
            assert!(count > 0, "{lie}: {endings:?}");
        }
        assert!(tainted > 0 && tainted < tasks, "{tainted} of {tasks} tasks were with liars");
    }

    #[test]
    fn a_seed_repeats_itself() {
        let first = Simulation::new(7, true).run();
        assert_eq!(Simulation::new(7, true).run().trace, first.trace);
        let moves = |seed: &u64| {
            SimCluster::new(*seed, false).run().blob_bytes.iter().all(|&count| count > 0)
        };
        let large = (0..60).find(moves).expect("nodes get large parts from each other");
        for seed in [7, large] {
            let first = SimCluster::new(seed, true).run();
            assert!(!first.trace.is_empty());
            assert_eq!(SimCluster::new(seed, true).run().trace, first.trace);
        }
    }
}
