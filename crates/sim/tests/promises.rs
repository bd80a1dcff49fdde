//! Some seeds of each kind of simulation. All are the same at each run; `./dev sim` runs many more.

use proptest::collection::vec;
use proptest::prelude::*;

use gristmill_sim::{
    AskerReport, AskerSiege, Choices, DataSiege, LeaseSiege, SeededRandom, Siege, SimCluster,
    Simulation,
};

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
    let mut random = SeededRandom::new(3);
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
    let mut random = SeededRandom::new(2);
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
    let mut random = SeededRandom::new(1);
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
    let moves =
        |seed: &u64| SimCluster::new(*seed, false).run().blob_bytes.iter().all(|&count| count > 0);
    let large = (0..60).find(moves).expect("nodes get large parts from each other");
    for seed in [7, large] {
        let first = SimCluster::new(seed, true).run();
        assert!(!first.trace.is_empty());
        assert_eq!(SimCluster::new(seed, true).run().trace, first.trace);
    }
}
