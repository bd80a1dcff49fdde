#!/usr/bin/env bash
## parsl [PYTEST ARGS]          install Parsl, then the tests of Parsl programs
cd "$(dirname "$0")/.."
source scripts/lib/tests.sh

set_up
pip_install "$venv" "parsl[monitoring,visualization]" -c requirements/peers.txt
python_tests tests/parsl "$@"
