#!/usr/bin/env bash
## lint                         formats, clippy, ruff, types, layers of Python, shell scripts, the stub, whether mutations apply
# Every linter runs, so that one run shows all that is to be mended.
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

failed=()
check() { "$@" || failed+=("$*"); }

set_up
say "lints"
export PYO3_PYTHON="$PWD/$venv/bin/python"
check cargo fmt --check
check cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
check cargo clippy --quiet --locked -p gristmill-native --no-default-features -- -D warnings
check "$venv/bin/python" -m ruff check --quiet .
check "$venv/bin/python" -m ruff format --check --quiet .
check "$venv/bin/python" -m mypy --no-error-summary
check "$venv/bin/python" -m mypy.stubtest --concise gristmill._native
check "$venv/bin/lint-imports" --no-logo --no-cache
check "$venv/bin/shellcheck" --external-sources dev scripts/*.sh scripts/lib/*.sh .ci/packages .ci/run fuzz/run crates/sim/mutants
for mutation in crates/sim/mutations/*.patch; do check git apply --check "$mutation"; done
[ ${#failed[@]} -eq 0 ] || die "$(printf 'these lints failed:\n'; printf '  %s\n' "${failed[@]}")"
