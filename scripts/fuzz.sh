#!/usr/bin/env bash
## fuzz [TARGET] [--seconds N]  hostile bytes for each decoder, hostile calls of the Python surface; needs nightly Rust
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

need_nightly
set_up
fuzz/run "$@"
