#!/usr/bin/env bash
## help                         this list
# The list is made of the lines that begin with two number signs and a space in the other scripts.
set -euo pipefail
cd "$(dirname "$0")/.."

# The order in which a new developer needs them; what is not named here comes last.
first=(run test slow lint fix full versions thorough loom sim mutants chaos fuzz asan valgrind miri suite parsl conform e2e bench docs wheels release)
for name in "${first[@]}" $(basename -s .sh scripts/*.sh); do
  case " ${listed-} " in *" $name "*) continue ;; esac
  listed="${listed-} $name"
  sed -n -e 's/^##   /         /p' -e 's/^## \([^ ]\)/  .\/dev \1/p' "scripts/$name.sh"
done
