#!/usr/bin/env bash
## versions [PYTEST ARGS]       the Python tests that depend on the interpreter, on every other version found
cd "$(dirname "$0")/.."
source scripts/lib/tests.sh

set_up
begin_other_versions interpreter "$@"
with_all true
