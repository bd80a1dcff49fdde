//! Runs of many seeds on all cores: their sums, and the failures.

use std::cell::RefCell;
use std::ops::Range;
use std::panic::{PanicHookInfo, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gristmill_core::Status;
use gristmill_sim::{ClusterReport, Report, SimCluster, Simulation};

use super::Kind;

/// Maximum number of reported failures: if more seeds fail, it is for the same few reasons.
const FAILURES_MAX: usize = 20;

thread_local! {
    /// Message of this thread's last panic.
    static LAST_WORDS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Sums of many seeds.
#[derive(Debug, Default)]
struct Sums {
    steps: u64,
    finished: [u64; Status::COUNT],
    others: [u64; 3],
    failures: Vec<(u64, String)>,
}

/// Runs seeds, until the first failure if requested, and prints their sums; returns whether all were good.
pub fn run(kind: Kind, seeds: Range<u64>, stops_at_first: bool) -> bool {
    let began = Instant::now();
    std::panic::set_hook(Box::new(note_panic));
    let failures_max = if stops_at_first { 1 } else { FAILURES_MAX };
    let (first, count) = (seeds.start, seeds.end - seeds.start);
    let (seeds, sums) = (Mutex::new(seeds), Mutex::new(Sums::default()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(kind, &seeds, &sums, failures_max));
        }
    });
    let _ = std::panic::take_hook();
    let mut sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    let tasks: u64 = sums.finished.iter().sum();
    let (name, spent, steps) = (kind.name(), began.elapsed(), sums.steps);
    println!("{name}, {count} seeds from {first}: {tasks} tasks, {steps} steps, {spent:.1?}");
    println!("{}: {:?}", words(kind), sums.others);
    println!(
        "succeeded, failed, cancelled, timed out, dependency failed, lost, refused: {:?}",
        sums.finished
    );
    sums.failures.sort();
    for (seed, text) in sums.failures.iter().take(FAILURES_MAX) {
        eprintln!("FAILED, see ./dev sim {name} {seed} --trace: {text}");
    }
    sums.failures.is_empty()
}

fn note_panic(panic: &PanicHookInfo<'_>) {
    let text = panic.to_string().replace('\n', " ");
    LAST_WORDS.with_borrow_mut(|words| *words = text);
}

/// Runs seeds until none is left, or enough have failed.
fn work(kind: Kind, seeds: &Mutex<Range<u64>>, sums: &Mutex<Sums>, failures_max: usize) {
    let next = || seeds.lock().unwrap_or_else(PoisonError::into_inner).next();
    while let Some(seed) = next() {
        let done = catch_unwind(|| match kind {
            Kind::Engine => Sums::of_engine(&Simulation::new(seed, false).run()),
            Kind::Cluster => Sums::of_cluster(&SimCluster::new(seed, false).run()),
        });
        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(done) => sums.add(&done),
            Err(_) => sums.failures.push((seed, LAST_WORDS.take())),
        }
        if sums.failures.len() >= failures_max {
            return;
        }
    }
}

const fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Engine => "workers lost, tasks stolen, stale answers dropped",
        Kind::Cluster => "placements on nodes, links lost, tasks repeated",
    }
}

impl Sums {
    fn of_engine(report: &Report) -> Self {
        let others = [report.losses, report.stolen, report.stale];
        Self { steps: report.steps, finished: report.finished, others, ..Self::default() }
    }

    fn of_cluster(report: &ClusterReport) -> Self {
        let others = [report.placements, report.lost_links, report.repeated];
        Self { steps: report.steps, finished: report.finished, others, ..Self::default() }
    }

    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.finished.iter_mut().zip(other.finished).for_each(|(sum, count)| *sum += count);
        self.others.iter_mut().zip(other.others).for_each(|(sum, count)| *sum += count);
    }
}
