#!/usr/bin/env bash
## valgrind                     the tests of shared memory under valgrind (Debian, Ubuntu: apt-get install valgrind)
cd "$(dirname "$0")/.."
source scripts/lib/tests.sh

need_rust
export PROPTEST_CASES=10
memory_tests --config "target.$(host).runner='valgrind -q --error-exitcode=9'" -- --test-threads 1
