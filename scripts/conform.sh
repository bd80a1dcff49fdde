#!/usr/bin/env bash
## conform parsl [MODES]        Parsl's own tests, on upstream (Parsl itself), a (our executor), b, c, d (our kernel)
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

name=${1:-parsl}
[ $# -eq 0 ] || shift
need_rust
make_environment ".venvs/$name" "$(main_python)" "conformance/$name/requirements.txt"
build ".venvs/$name"
".venvs/$name/bin/python" "conformance/$name/run.py" "$@"
