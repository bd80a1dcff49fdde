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
trap 'rm -rf "$GRISTMILL_OUTCOMES"' EXIT

# Set by a script that does not repeat a step that passed on this commit.
skip_passed=
failed_steps=()

# The steps of the gate: what every commit of the main branch passes.
gate_steps() {
  step .ci/packages
  step ./dev test
  step ./dev parsl
  step ./dev slow
  step ./dev e2e
  step ./dev loom
  step ./dev sim --count 2000
  step ./dev docs
}

# Prints the file that lists the steps that passed on this commit; nothing where files differ from it.
record() {
  local commit
  commit=$(git rev-parse HEAD)
  [ -z "$(git status --porcelain)" ] || return 0
  echo "${XDG_CACHE_HOME:-$HOME/.cache}/gristmill/passed/$commit"
}

# step COMMAND...: runs it without standard input, and prints how long it took.
step() {
  local began=$SECONDS verdict="" flaky_before file
  file=$(record)
  if [ -n "$skip_passed" ] && [ -n "$file" ] && grep -qxF "$*" "$file" 2>/dev/null; then
    echo "== $*: passed before on this commit" >&2
    return
  fi
  flaky_before=$(count_of flaky)
  "$@" </dev/null || verdict=", FAILED"
  echo "== $*: $((SECONDS - began)) s$verdict" >&2
  if [ -n "$verdict" ]; then
    failed_steps+=("$*")
  elif [ -n "$file" ] && [ "$(record)" = "$file" ] && [ "$(count_of flaky)" = "$flaky_before" ]; then
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
