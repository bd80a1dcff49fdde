#!/usr/bin/env bash
## slow [PYTEST ARGS]           the slow Python tests: killed programs, lost nodes, large arguments, the screen
# The slow tests of gristmill bench need its libraries: suite.sh runs them.
cd "$(dirname "$0")/.."
source scripts/lib/tests.sh

set_up
python_tests -m slow --ignore tests/bench --ignore tests/profile "$@"
