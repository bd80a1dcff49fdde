#!/usr/bin/env bash
## run [--molecules N]          set up, then run the example program: a molecular screen
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

engine=release
set_up
install_screen
python -m molecular_screen "$@"
