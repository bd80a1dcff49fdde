//! `sim [SEED] [--count N]`: one seed with its trace, or many without.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its terminal")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use gristmill_core::Status;
use gristmill_sim::Simulation;

/// Seeds run when none is named.
const COUNT: u64 = 5_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((seed, count)) = parse(&arguments) else {
        eprintln!("usage: sim [SEED] [--count N]");
        return ExitCode::from(2);
    };
    match (seed, count) {
        (Some(seed), None) => run_one(seed),
        (first, count) => run_many(first.unwrap_or(0), count.unwrap_or(COUNT)),
    }
}

fn parse(arguments: &[String]) -> Option<(Option<u64>, Option<u64>)> {
    let (mut seed, mut count) = (None, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--count" {
            count = Some(rest.next()?.parse().ok()?);
        } else {
            seed = Some(argument.parse().ok()?);
        }
    }
    Some((seed, count))
}

fn run_one(seed: u64) -> ExitCode {
    let mut simulation = Simulation::new(seed, true);
    let result = catch_unwind(AssertUnwindSafe(|| simulation.run()));
    let (trace, is_good) = match &result {
        Ok(report) => (report.trace.as_slice(), true),
        Err(_) => (simulation.trace(), false),
    };
    trace.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}: {}", if is_good { "good" } else { "FAILED" });
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_many(first: u64, count: u64) -> ExitCode {
    let began = Instant::now();
    let (mut steps, mut losses, mut stolen, mut stale) = (0, 0, 0, 0);
    let mut finished = [0; Status::COUNT];
    for seed in first..first + count {
        let mut simulation = Simulation::new(seed, false);
        let Ok(report) = catch_unwind(AssertUnwindSafe(|| simulation.run())) else {
            eprintln!("seed {seed} failed; its trace: ./dev sim {seed}");
            return ExitCode::FAILURE;
        };
        steps += report.steps;
        losses += report.losses;
        stolen += report.stolen;
        stale += report.stale;
        finished.iter_mut().zip(report.finished).for_each(|(sum, count)| *sum += count);
    }
    let tasks: u64 = finished.iter().sum();
    println!("{count} seeds from {first}: {tasks} tasks, {steps} steps, {:.1?}", began.elapsed());
    println!("{losses} workers lost, {stolen} tasks stolen, {stale} stale answers dropped");
    println!(
        "succeeded, failed, cancelled, timed out, dependency failed, lost, refused: {finished:?}"
    );
    ExitCode::SUCCESS
}
