#!/usr/bin/env bash
## sim [SEED] [--count N]       an engine, and a client with its nodes, in seeded simulation; a failure prints its seed
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

need_rust
cargo run --quiet --locked --release -p gristmill-sim -- "$@"
