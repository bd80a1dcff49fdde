#!/usr/bin/env bash
## wheels [VERSION...]         wheels for each Python found (or each VERSION, as 3.11), sdists, and gristmill-bench, and check them
# Zig links against glibc 2.28, which every cluster has whose system is from 2018 or later. A wheel takes two minutes.
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

need_rust
command -v objcopy >/dev/null || die "objcopy is missing: install binutils (Debian, Ubuntu: apt-get install binutils)"
make_environment .venvs/release "$(main_python)" requirements/release.txt
tools=$PWD/.venvs/release/bin

[ $# -gt 0 ] || set -- "${supported[@]}"
interpreters=()
for version in "$@"; do
  interpreter=$(find_python "$version")
  if [ -n "$interpreter" ]; then
    interpreters+=("$interpreter")
  else
    say "skipped: Python $version is not on this machine"
  fi
done
[ ${#interpreters[@]} -gt 0 ] || die "none of Python $* was found"

rm -rf dist
say "building"
# The paths of this machine stay out of the module.
export RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=registry --remap-path-prefix=$PWD=."
PATH=$tools:$PATH "$tools/maturin" build --quiet --release --locked --zig --compatibility manylinux_2_28 \
  --out dist/whole --interpreter "${interpreters[@]}"
unset RUSTFLAGS
"$tools/python" scripts/separate_debug.py dist/whole/*.whl --into dist
rm -r dist/whole
"$tools/maturin" sdist --out dist
(cd packages/gristmill-bench && "$tools/hatchling" build --directory ../../dist)
"$tools/python" -m pip download --quiet --disable-pip-version-check --only-binary :all: --dest target/wheelhouse \
  cloudpickle packaging threadpoolctl "maturin>=1.9,<2" msgspec pydantic tomli-w

say "checking"
for wheel in dist/gristmill-*.whl; do "$tools/auditwheel" show "$wheel"; done
GRISTMILL_INTERPRETERS=$(IFS=:; echo "${interpreters[*]}") "$tools/python" -m pytest -q -o testpaths=tests/wheels \
  --confcutdir tests/wheels
(cd dist && sha256sum -- *.* debug/* >SHA256SUMS)
du -b dist/* dist/debug/*
