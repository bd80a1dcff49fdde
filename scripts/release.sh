#!/usr/bin/env bash
## release VERSION             set the version, build and check the wheels, then commit and tag; pushing the tag publishes
# Needs a clean tree on main. If a step fails, `git restore .` undoes what was changed.
cd "$(dirname "$0")/.."
source scripts/lib/environments.sh

[ $# -eq 1 ] || die "usage: ./dev release VERSION, as 1.2.3"
version=$1
[ "$(git rev-parse --abbrev-ref HEAD)" = main ] || die "a release is made on the branch main"
[ -z "$(git status --porcelain)" ] || die "the tree has changes that are not committed: git status"
! git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null || die "the tag v$version is there already"

make_tools
python scripts/set_version.py "$version"
cargo metadata --quiet --locked --format-version 1 >/dev/null
cargo metadata --quiet --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
scripts/wheels.sh
git commit --quiet --all --message "release: $version"
python scripts/set_version.py "$version" --notes | git tag --annotate "v$version" --cleanup=whitespace --file -
say "v$version is tagged, and dist/ has its files: git push --follow-tags publishes it"
