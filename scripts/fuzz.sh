#!/usr/bin/env bash
## fuzz [TARGET] [--seconds N]  hostile bytes for each decoder, or one of them, 10 s each; needs nightly Rust
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

need_nightly
fuzz/run "$@"
