#!/usr/bin/env bash
## sim [SEED] [--count N]       an engine, and a client with its nodes, in seeded simulation; a failure prints its seed
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

need_rust
# Most of a run is building: optimization across crates costs more than it gains.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
cargo run --quiet --locked --release -p gristmill-sim -- "$@"
