#!/usr/bin/env bash
## docs                         build the documentation, strictly
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

make_tools
NO_MKDOCS_2_WARNING=1 python -m mkdocs build --strict --quiet
say "site/index.html is built. With its search: python3 -m http.server --directory site"
