#!/usr/bin/env bash
## sim [SEED] [--count N]       an engine, and a client with its nodes, in seeded simulation; a failure prints its seed
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

need_rust
# What the Rust tests are built from, so that nothing is compiled twice; its debug assertions are checks too.
cargo build --quiet --locked --workspace --tests --bin sim
exec "${CARGO_TARGET_DIR:-target}/debug/sim" "$@"
