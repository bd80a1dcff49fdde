# Python environments with the engine and its benchmark suite: .venv for the developer's interpreter, .venvs/NAME for others.
# Sourced from the repository's root.
# shellcheck shell=bash
set -euo pipefail

# Compiled Python is kept: the tests start thousands of interpreters.
unset PYTHONDONTWRITEBYTECODE

venv=.venv
# How the engine is built: `debug`, as the tests of the crates, whose assertions are checks too, in a third of the time; or
# `release`, as users have it.
engine=${GRISTMILL_ENGINE:-debug}
case $engine in debug | release) ;; *)
  echo "GRISTMILL_ENGINE=$engine: the engine is built as debug or release" >&2
  exit 2
  ;;
esac
# The versions of Python that the engine supports.
supported=(3.11 3.12 3.13 3.14)

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

die() {
  printf '%s\n' "$*" >&2
  exit 1
}

need_rust() {
  command -v cargo >/dev/null ||
    die "cargo is missing: install Rust 1.89 or newer with rustup (rustup.rs), or your system's rustc and cargo"
  command -v cc >/dev/null ||
    die "a C linker is missing: install gcc (Debian, Ubuntu: apt-get install gcc; Fedora: dnf install gcc)"
}

need_nightly() {
  need_rust
  cargo +nightly --version >/dev/null 2>&1 ||
    die "the nightly compiler is missing: rustup toolchain install nightly --profile minimal"
}

# Prints the target that the compiler builds for on this machine.
host() { rustc -vV | sed -n 's/^host: //p'; }

# version_of PYTHON: prints 3.11, say.
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

# Prints the interpreter of version $1, or nothing.
find_python() {
  local candidate
  for candidate in "$(command -v "python$1" || true)" "$HOME"/.pyenv/versions/"$1".*/bin/"python$1" "$(command -v python3 || true)"; do
    if [ -n "$candidate" ] && "$candidate" -c 'import venv' 2>/dev/null && [ "$(version_of "$candidate")" = "$1" ]; then
      echo "$candidate"
      return
    fi
  done
}

# Prints the interpreter for .venv: $GRISTMILL_PYTHON, else python3 if supported, else the oldest supported one found.
main_python() {
  if [ -n "${GRISTMILL_PYTHON:-}" ]; then
    echo "$GRISTMILL_PYTHON"
    return
  fi
  local version python
  version=$(version_of python3 2>/dev/null || true)
  if [[ " ${supported[*]} " == *" $version "* ]]; then
    command -v python3
    return
  fi
  for version in "${supported[@]}"; do
    python=$(find_python "$version")
    if [ -n "$python" ]; then
      echo "$python"
      return
    fi
  done
  die "no Python of ${supported[*]} was found: install one with its venv module (Debian, Ubuntu: apt-get install python3 python3-venv)"
}

# pip_install FOLDER PIP ARGS: installs packages into the environment.
pip_install() { "$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"; }

# make_environment FOLDER PYTHON REQUIREMENTS: creates the environment and installs the pinned list, once per change of it.
make_environment() {
  if [ ! -x "$1/bin/python" ]; then
    say "making $1"
    "$2" -m venv "$1" || die "the venv module is missing: Debian, Ubuntu: apt-get install python3-venv"
  fi
  local installed
  installed=$1/$(basename "$3")
  if ! cmp -s "$3" "$installed"; then
    say "installing $3 into $1"
    pip_install "$1" -r "$3"
    cp "$3" "$installed"
  fi
}

# build FOLDER: compiles the engine for the environment's interpreter and installs it there, editable. Does nothing if no
# source is newer than the last build.
build() {
  local options=(--locked --quiet)
  [ "$engine" = debug ] || options+=(--release)
  if [ -z "$(find crates Cargo.* pyproject.toml -newer "$1/built" -print -quit 2>&1)" ] &&
    "$1/bin/python" -c 'import sys, gristmill._native as engine; sys.exit(engine.build_info()["profile"] != sys.argv[1])' "$engine"; then
    return
  fi
  touch "$1/building"
  VIRTUAL_ENV="$PWD/$1" "$1/bin/python" -m maturin develop "${options[@]}"
  mv "$1/building" "$1/built"
}

# install_bench FOLDER: installs the benchmark suite into the environment, editable. Does nothing if its metadata is as it was.
install_bench() {
  local project=packages/gristmill-bench
  cmp -s "$project/pyproject.toml" "$1/gristmill-bench.toml" && return
  pip_install "$1" --no-deps --no-build-isolation --editable "$project"
  cp "$project/pyproject.toml" "$1/gristmill-bench.toml"
}

# Makes .venv with the developer's tools.
make_tools() { make_environment "$venv" "$(main_python)" requirements/dev.txt; }

# Makes .venv with the tools, the engine and the benchmark suite.
set_up() {
  need_rust
  make_tools
  build "$venv"
  install_bench "$venv"
}

# make_layer NAME: makes .venvs/NAME on top of .venv. It has the packages of .venv, and what is installed into it is not in
# .venv. From then on, the functions of this file use it.
make_layer() {
  local layer=.venvs/$1 script copy
  if [ ! -x "$layer/bin/python" ]; then
    say "making $layer"
    python -m venv --without-pip "$layer"
    "$layer/bin/python" - "$PWD/$(packages_of "$venv")" "$(packages_of "$layer")/base.pth" <<<'
import pathlib, sys
pathlib.Path(sys.argv[2]).write_text(f"import site; site.addsitedir({sys.argv[1]!r})\n")'
  fi
  # Programs of packages, such as Parsl's interchange, are looked for beside the interpreter.
  for script in "$venv"/bin/*; do
    copy=$layer/bin/$(basename "$script")
    if [ ! -e "$copy" ] && grep -qIF "$PWD/$venv/bin/python" "$script"; then
      sed "s|$PWD/$venv/bin/python|$PWD/$layer/bin/python|" "$script" >"$copy"
      chmod +x "$copy"
    fi
  done
  venv=$layer
}

# packages_of ENVIRONMENT: prints the folder of its packages.
packages_of() { echo "$1/lib/python$(version_of "$1/bin/python")/site-packages"; }

# Installs the molecular screen of examples/, editable, with the pinned versions of what it requires; once per
# change of these.
install_screen() {
  local screen=examples/molecular_screen installed=$venv/molecular_screen.txt
  if ! cat "$screen"/{requirements.txt,pyproject.toml} | cmp -s - "$installed"; then
    say "installing $screen into $venv"
    pip_install "$venv" --no-deps -r "$screen/requirements.txt" -e "$screen"
    cat "$screen"/{requirements.txt,pyproject.toml} >"$installed"
  fi
}

# make_other_environments PYTHON: makes .venvs/VERSION with the engine and the benchmark suite for each supported version
# that is found, but PYTHON's; the array `made` has their versions.
made=()
make_other_environments() {
  local version interpreter
  for version in "${supported[@]}"; do
    [ "$version" != "$(version_of "$1")" ] || continue
    interpreter=$(find_python "$version")
    if [ -z "$interpreter" ]; then
      say "skipped: Python $version is not on this machine"
      continue
    fi
    make_environment ".venvs/$version" "$interpreter" requirements/test.txt
    build ".venvs/$version"
    install_bench ".venvs/$version"
    made+=("$version")
  done
}

# python ARGS: runs the interpreter of .venv.
python() { "$venv/bin/python" "$@"; }
