//! Fuzz targets as plain functions of bytes.
//!
//! `fuzz/` gives each of them to libFuzzer, which needs a nightly compiler; `tests/replay.rs` runs them on the inputs of
//! `fuzz/seeds`, which the stable compiler can. A target panics on a finding and returns on all other bytes, refused or not.

#![forbid(unsafe_code)]

mod arrival;
mod blob;
mod frames;
mod image;
mod input;
mod journal;
mod keeper;
mod library;
mod peer;
mod ring;
mod segment;
mod siege;
mod task;
mod transport;

/// Fuzz target: the name, and the function of the bytes that the fuzzer chooses.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, by name. Each has a file in `fuzz/targets` and a folder in `fuzz/seeds`.
pub const TARGETS: [Target; 13] = [
    ("arrival", arrival::run),
    ("blob", blob::run),
    ("frames", frames::run),
    ("image", image::run),
    ("journal", journal::run),
    ("keeper", keeper::run),
    ("library", library::run),
    ("peer", peer::run),
    ("ring", ring::run),
    ("segment", segment::run),
    ("siege", siege::run),
    ("task", task::run),
    ("transport", transport::run),
];

/// Runs the target of this name on one input.
///
/// # Panics
/// The target found a fault, or there is no target of this name.
pub fn run(name: &str, bytes: &[u8]) {
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    let (_, target) = found.unwrap_or_else(|| panic!("there is no fuzz target {name}"));
    target(bytes);
}
