# How the scripts run tests: some beside others, each run counted as failed if it fails or runs none. Sourced, from the
# repository's root.
# shellcheck shell=bash
source scripts/lib/environments.sh

# Random examples are the same at each run; thorough.sh draws others.
export PROPTEST_RNG_SEED=2026

# What failed: with_all reports it.
failed=()

# beside NAME COMMAND...: begins the command; with_all waits for it.
running=()
beside() {
  local name=$1
  shift
  "$@" >"$venv/log-$name" 2>&1 &
  running+=("$name $!")
}

# Runs the tests of the Rust crates beside others.
rust_tests() { beside Rust cargo test --quiet --locked --no-fail-fast --workspace; }

# python_tests [--strict] PYTEST ARGS: runs Python tests, two files at a time.
python_tests() {
  say "Python tests"
  run_pytest -n 2 --dist loadfile "$@"
}

# run_pytest [--strict] PYTEST ARGS: runs Python tests; without --strict, a flaky one or two are forgiven.
run_pytest() { python scripts/lib/run_pytest.py "$@"; }

# begin_other_versions MARK PYTEST ARGS: begins, beside others, the Python tests with the mark (all if it is empty) on each
# supported version of Python but that of .venv.
begin_other_versions() {
  local mark=$1 version
  shift
  make_other_environments "$venv/bin/python"
  for version in "${made[@]}"; do
    beside "$version" ".venvs/$version/bin/python" -m pytest -q -p no:cacheprovider -m "$mark" "$@"
  done
}

# with_all COMMAND...: runs the command and waits for what runs beside it; fails if one of them does, or if something failed
# before.
with_all() {
  local one
  trap 'kill $(jobs -p) &>/dev/null || true' EXIT
  "$@" || failed+=("$1")
  for one in "${running[@]}"; do
    wait "${one#* }" || failed+=("${one% *}")
    say "${one% *} tests"
    cat "$venv/log-${one% *}"
  done
  [ ${#failed[@]} -eq 0 ] || die "these tests failed: ${failed[*]}"
}

# must_test COMMAND...: runs cargo; fails unless its output shows that a test ran.
must_test() {
  local log
  log=$(mktemp)
  "$@" 2>&1 | tee "$log"
  grep -Eq 'test result: ok\. [1-9][0-9]* passed' "$log" || die "no test ran: $*"
}

# memory_tests CARGO ARGS: runs the tests of shared memory.
memory_tests() {
  must_test cargo test --locked -pgristmill-{sync,shm,wire,keeper} --lib --test ring --test segment "$@"
}
