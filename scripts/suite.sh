#!/usr/bin/env bash
## suite [PYTEST ARGS]          install peers and applications' libraries, then the tests of gristmill bench and of the screen
# Three files at a time: most of these tests wait for programs.
cd "$(dirname "$0")/.."
source scripts/lib/tests.sh
source scripts/lib/peers.sh

set_up
install_suite_libraries
python_tests tests/bench tests/profile tests/screen -n 3 --dist worksteal "$@"
