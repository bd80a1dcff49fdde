#!/usr/bin/env bash
## chaos [local|nodes] [--tasks N] [--seed S]  a kill campaign: processes die and stop beside many small tasks
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

set_up
# The tests' own modules: tasks that workers import, and agents behind a relay.
PYTHONPATH="$PWD/tests:$PWD/tests/nodes" python -m chaos "$@"
