#!/usr/bin/env bash
## miri                         the wire format's tests under Miri, where nightly Rust has it
cd "$(dirname "$0")/.."
source scripts/lib/tests.sh

if ! cargo +nightly miri --version &>/dev/null; then
  say "skipped: rustup component add miri --toolchain nightly"
  exit
fi
export MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=10
must_test cargo +nightly miri test --locked -p gristmill-wire --lib
