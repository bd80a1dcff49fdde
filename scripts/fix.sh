#!/usr/bin/env bash
## fix                          mend what the linters can mend by themselves
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

make_tools
cargo fmt
python -m ruff check --fix .
python -m ruff format .
