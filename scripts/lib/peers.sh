# The peers that the engine is measured against, and the libraries of the suite's applications, in .venvs/peers: some set
# variables of the environment when they are imported. Sourced from the repository's root.
# shellcheck shell=bash
source scripts/lib/environments.sh

# install_peers PIP ARGS: installs the peers, and what else the arguments name, into .venvs/peers, which is used from then on.
install_peers() {
  [ "$venv" = .venvs/peers ] || make_layer peers
  pip_install "$venv" -r requirements/peers.txt "$@"
}

# Installs the libraries that the applications of the suite use, beside the peers; the molecular screen is one of them. Data
# packages are taken without what they require, which the first list has already.
install_suite_libraries() {
  install_peers -r requirements/apps.txt
  pip_install "$venv" --no-deps -r requirements/apps-data.txt
  install_screen
}
