#!/usr/bin/env bash
## asan                         the tests of shared memory under AddressSanitizer; needs nightly Rust
cd "$(dirname "$0")/.."
source scripts/lib/tests.sh

need_nightly
export RUSTUP_TOOLCHAIN=nightly RUSTFLAGS=-Zsanitizer=address
memory_tests --target "$(host)" --target-dir target/asan
