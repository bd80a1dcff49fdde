#!/usr/bin/env bash
## thorough [PYTEST ARGS]       all Python tests on every version found, more seeds, new random examples
cd "$(dirname "$0")/.."
source scripts/lib/tests.sh

set_up
unset PROPTEST_RNG_SEED
export GRISTMILL_FAULT_SEEDS="${GRISTMILL_FAULT_SEEDS:-10}"
PROPTEST_CASES=5000 rust_tests
begin_other_versions "" --hypothesis-profile deep "$@"
with_all python_tests --hypothesis-profile deep "$@"
