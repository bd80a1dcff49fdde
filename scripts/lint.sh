#!/usr/bin/env bash
## lint                         formats, clippy, ruff, types, layers of Python, shell scripts, the stub, whether mutations apply
# Every linter runs, so that one run shows all that is to be mended.
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

failed=()
check() { "$@" || failed+=("$*"); }

# Fails, with the commands of the linters that found something.
report() { [ ${#failed[@]} -eq 0 ] || die "$(printf 'these lints failed:\n'; printf '  %s\n' "${failed[@]}")"; }

# They build in a folder of their own, so that the engine is built beside them.
rust_lints() (
  export PYO3_PYTHON="$PWD/$venv/bin/python" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/clippy" GRISTMILL_NO_KEEPER=1
  check cargo fmt --check
  check cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
  report
)

say "lints"
need_rust
make_tools
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
rust_lints >"$venv/log-lints" 2>&1 &
set_up
check "$venv/bin/python" -m ruff check --quiet .
check "$venv/bin/python" -m ruff format --check --quiet .
check "$venv/bin/python" -m mypy --no-error-summary
check "$venv/bin/python" -m mypy.stubtest --concise gristmill._native
check "$venv/bin/lint-imports" --no-logo --no-cache
check "$venv/bin/shellcheck" --external-sources dev scripts/*.sh scripts/lib/*.sh .ci/packages .ci/run fuzz/run crates/sim/mutants
for mutation in crates/sim/mutations/*.patch; do check git apply --check "$mutation"; done
wait "$!" || failed+=("those of Rust, above")
cat "$venv/log-lints"
report
