#!/usr/bin/env bash
## loom [CARGO ARGS]            the model checker on the ring, the bell and the hand-over; fails if no model ran
cd "$(dirname "$0")/.."
source scripts/lib/tests.sh

need_rust
# Most of a run is building: optimization across crates costs more than it gains.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
export RUSTFLAGS="--cfg gristmill_loom" LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}" CARGO_TARGET_DIR=target/loom
must_test cargo test --locked --release -p gristmill-shm -p gristmill-lead --test loom "$@"
