#!/usr/bin/env bash
## conform [NAME...] [--sample]  CPython's and other libraries' own tests on the engine; parsl [MODES]: Parsl's own
# NAME is a suite of conformance/, `all`, or `parsl [MODES]` with the modes upstream (Parsl itself), a (our executor), b, c, d
# (our kernel). --sample runs a few tests of each.
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

name=suites folder=conformance program=conformance/suites.py
if [ "${1:-}" = parsl ]; then
  shift
  name=parsl folder=conformance/parsl program=conformance/parsl/run.py
fi
engine=release
need_rust
make_environment ".venvs/$name" "$(main_python)" "$folder/requirements.txt"
build ".venvs/$name"
interpreter=.venvs/$name/bin/python
# Succeeds if these arguments name the tests of CPython, of which each interpreter has its own.
runs_cpython() {
  local one names=()
  for one in "$@"; do
    case $one in
      cpython | all) return ;;
      --sample) ;;
      *) names+=("$one") ;;
    esac
  done
  [ ${#names[@]} -eq 0 ]
}
if [ "$name" = suites ] && runs_cpython "$@"; then
  make_other_environments "$interpreter"
fi
"$interpreter" "$program" "$@"
