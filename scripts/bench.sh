#!/usr/bin/env bash
## bench [--peers] [ROWS]       the measured table, --peers installs and measures those too; or: bench reproduce FIGURE; or:
##                              bench --compare COMMIT ROWS: whether a row is worse at HEAD than at COMMIT
cd "$(dirname "$0")/.."
source scripts/lib/peers.sh

engine=release
set_up
if [ "${1:-}" = --peers ]; then
  shift
  install_peers -r requirements/contexts.txt
  install_suite_libraries
fi
if [ "${1:-}" = --compare ]; then
  shift
  python -m benches.compare "$@"
elif [ "${1:-}" = reproduce ]; then
  "$venv/bin/gristmill" bench reproduce --folder docs/results "${@:2}"
else
  python -m benches "$@"
fi
