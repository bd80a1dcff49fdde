#!/usr/bin/env bash
## full                         every check: all tests, the gate's steps that have not passed on this commit, the slow tiers (an hour)
# Every step runs, whatever failed before it; no flaky test is forgiven.
cd "$(dirname "$0")/.."
source scripts/lib/steps.sh

export GRISTMILL_STRICT=1
# As users have it; the gate tests it with its assertions.
export GRISTMILL_ENGINE=release
skip_passed=yes
test_arguments=()
gate_steps
# The engine without timings of tasks, as `python -m benches timings` builds it.
step cargo clippy --quiet --locked -p gristmill-native --no-default-features -- -D warnings
step ./dev versions
step ./dev fuzz --seconds 5
step ./dev asan
step ./dev valgrind
step ./dev miri
step ./dev chaos local --tasks 50000
step ./dev chaos nodes --tasks 10000
step ./dev suite
step ./dev e2e --peers tests/e2e/test_engines.py tests/e2e/test_placed.py
step ./dev conform --sample
# Wheels for one version are enough.
step ./dev wheels "$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
finish
