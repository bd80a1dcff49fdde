#!/usr/bin/env bash
## e2e [--peers] [PYTEST ARGS]  a cluster of namespaces: failing links, Slurm, MPI, peers; root or user namespaces
cd "$(dirname "$0")/.."
source scripts/lib/tests.sh
source scripts/lib/peers.sh

set_up
if [ "${1:-}" = --peers ]; then
  shift
  install_peers
fi
run_pytest -o testpaths=tests/e2e "$@"
