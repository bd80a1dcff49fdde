//! `sim [engine|cluster] [SEED] [--count N] [--first] [--trace]`: runs one seed, or many of both kinds, and reports failures.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its terminal")]

mod many;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use gristmill_sim::{SimCluster, Simulation};

/// Number of seeds to run if none is named: of one engine, and of a cluster.
const COUNTS: [u64; 2] = [5_000, 3_000];

/// Kind of simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Engine,
    Cluster,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Cluster => "cluster",
        }
    }
}

#[derive(Debug, Default)]
struct CliArgs {
    kind: Option<Kind>,
    seed: Option<u64>,
    count: Option<u64>,
    stops_at_first: bool,
    with_trace: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(wish) = parse(&arguments) else {
        eprintln!("usage: sim [engine|cluster] [SEED] [--count N] [--first] [--trace]");
        return ExitCode::from(2);
    };
    let kinds = [Kind::Engine, Kind::Cluster].into_iter().zip(COUNTS);
    let wanted = kinds.filter(|(kind, _)| wish.kind.is_none_or(|wanted| wanted == *kind));
    let mut is_good = true;
    for (kind, count) in wanted {
        is_good &= match (wish.seed, wish.count) {
            (Some(seed), None) => run_one(kind, seed, wish.with_trace),
            (first, wanted) => {
                let first = first.unwrap_or(0);
                many::run(kind, first..first + wanted.unwrap_or(count), wish.stops_at_first)
            }
        };
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(arguments: &[String]) -> Option<CliArgs> {
    let mut wish = CliArgs::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--count" => wish.count = Some(rest.next()?.parse().ok()?),
            "--first" => wish.stops_at_first = true,
            "--trace" => wish.with_trace = true,
            "engine" => wish.kind = Some(Kind::Engine),
            "cluster" => wish.kind = Some(Kind::Cluster),
            seed => wish.seed = Some(seed.parse().ok()?),
        }
    }
    Some(wish)
}

fn run_one(kind: Kind, seed: u64, with_trace: bool) -> bool {
    let (trace, is_good) = match kind {
        Kind::Engine => {
            let mut simulation = Simulation::new(seed, with_trace);
            let result = catch_unwind(AssertUnwindSafe(|| simulation.run()));
            result.map_or_else(|_| (simulation.trace().to_vec(), false), |one| (one.trace, true))
        }
        Kind::Cluster => {
            let mut cluster = SimCluster::new(seed, with_trace);
            let result = catch_unwind(AssertUnwindSafe(|| cluster.run()));
            result.map_or_else(|_| (cluster.trace(), false), |one| (one.trace, true))
        }
    };
    trace.iter().for_each(|line| println!("{line}"));
    println!("{} seed {seed}: {}", kind.name(), if is_good { "good" } else { "FAILED" });
    is_good
}
