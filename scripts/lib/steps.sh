# Steps of a long check. Each is timed, none stops the others, and `finish` lists what failed, with the command that repeats it.
# Steps that pass on a clean commit are recorded for `./dev full`. Sourced, from the repository's root.
# shellcheck shell=bash
set -euo pipefail

# Everything is built once.
export CARGO_INCREMENTAL=0
# Where run_pytest.py writes the tests that failed and those that were flaky, each with its command.
GRISTMILL_OUTCOMES=$(mktemp -d)
export GRISTMILL_OUTCOMES
touch "$GRISTMILL_OUTCOMES"/{flaky,failed}
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$GRISTMILL_OUTCOMES"' EXIT

# How `./dev test` is run.
test_arguments=(--gate)
# Set by a script that does not repeat a step that passed on this commit.
skip_passed=
failed_steps=()

# The steps of the gate: what every commit of the main branch passes.
gate_steps() {
  step .ci/packages
  step ./dev test "${test_arguments[@]}"
  step ./dev parsl
  # It waits for Slurm's walltimes most of the time.
  begin ./dev e2e
  step ./dev slow
  step ./dev loom
  step ./dev sim --count 2000
  step ./dev docs
  await
}

# Prints the file that lists the steps that passed on this commit; nothing where files differ from it.
record() {
  local commit
  commit=$(git rev-parse HEAD)
  [ -z "$(git status --porcelain)" ] || return 0
  echo "${XDG_CACHE_HOME:-$HOME/.cache}/gristmill/passed/$commit"
}

# passed_before COMMAND...: succeeds if the step is not to be repeated.
passed_before() {
  local file
  file=$(record)
  [ -n "$skip_passed" ] && [ -n "$file" ] && grep -qxF "$*" "$file" 2>/dev/null || return 1
  echo "== $*: passed before on this commit" >&2
}

# step COMMAND...: runs it without standard input, and prints how long it took.
step() {
  passed_before "$@" && return
  local status=0 began=$SECONDS flaky file
  flaky=$(count_of flaky) file=$(record)
  "$@" </dev/null || status=$?
  conclude "$status" "$began" "$flaky" "$file" "$@"
}

# begin COMMAND...: begins a step that runs beside the next ones; `await` prints its output and how long it took.
begun=()
begin() {
  begun=()
  passed_before "$@" && return
  begun=("$SECONDS" "$(count_of flaky)" "$(record)" "$@")
  "$@" </dev/null >"$GRISTMILL_OUTCOMES/log" 2>&1 &
  begun_process=$!
}

await() {
  [ ${#begun[@]} -gt 0 ] || return 0
  local status=0
  wait "$begun_process" || status=$?
  cat "$GRISTMILL_OUTCOMES/log"
  conclude "$status" "${begun[@]}"
}

# conclude STATUS BEGAN FLAKY FILE COMMAND...: prints how long a step took; records that it passed, in the file, if the commit is
# still the same, no more tests were flaky than before, and all files are the commit's.
conclude() {
  local status=$1 began=$2 flaky=$3 file=$4 verdict=""
  shift 4
  [ "$status" = 0 ] || verdict=", FAILED"
  echo "== $*: $((SECONDS - began)) s$verdict" >&2
  if [ -n "$verdict" ]; then
    failed_steps+=("$*")
  elif [ -n "$file" ] && [ "$(record)" = "$file" ] && [ "$(count_of flaky)" = "$flaky" ]; then
    mkdir -p "$(dirname "$file")" && echo "$*" >>"$file"
  fi
}

# count_of KIND: prints how many tests the file of outcomes has.
count_of() { wc -l <"$GRISTMILL_OUTCOMES/$1"; }

# Prints the total and what failed; ends the script.
finish() {
  echo "== all: $SECONDS s" >&2
  if [ "$(count_of flaky)" -gt 0 ]; then
    printf '\nFlaky, passed when run once more:\n' >&2
    sed 's/^/  /' "$GRISTMILL_OUTCOMES/flaky" >&2
  fi
  [ ${#failed_steps[@]} -gt 0 ] || exit 0
  printf '\nFailed steps, each repeated alone by its command:\n' >&2
  printf '  %s\n' "${failed_steps[@]}" >&2
  if [ "$(count_of failed)" -gt 0 ]; then
    printf 'Failed Python tests:\n' >&2
    sed 's/^/  /' "$GRISTMILL_OUTCOMES/failed" >&2
  fi
  exit 1
}
