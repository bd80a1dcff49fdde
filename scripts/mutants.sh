#!/usr/bin/env bash
## mutants [NAME...]            check that the simulation finds each mutation of crates/sim (a quarter of an hour)
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

need_rust
crates/sim/mutants "$@"
