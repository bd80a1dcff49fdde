"""Prepares the tree for a release: the version in each file that has it, and the changelog's section for it."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
_CARGO = ("Cargo.toml", r'^\[workspace\.package\]\nversion = "([^"]+)"')
_BENCH = "packages/gristmill-bench/pyproject.toml"
#: Each place of the version: a file, and a pattern whose only group matches it. Cargo's lock files repeat it for each
#: crate of ours.
PLACES = (
    _CARGO,
    ("CITATION.cff", r"^version: (\S+)$"),
    ("python/gristmill/__init__.py", r'^__version__ = "([^"]+)"$'),
    (_BENCH, r'^version = "([^"]+)"$'),
    (_BENCH, r'^dependencies = \["gristmill==([^"]+)"'),
)
LOCKS = ("Cargo.lock", "fuzz/Cargo.lock")
UNRELEASED = "## Unreleased\n"


class NotReleasableError(Exception):
    """A tree, or a version, that is not fit for a release."""


def current(root: Path) -> str:
    """Returns the version of the tree."""
    name, pattern = _CARGO
    found = re.search(pattern, (root / name).read_text(), re.MULTILINE)
    if found is None:
        raise NotReleasableError("Cargo.toml has no version below [workspace.package]")
    return found[1]


def set_version(root: Path, version: str, date: datetime.date) -> None:
    """Writes the version everywhere, and puts unreleased entries of the changelog below a heading for it.

    Raises ``NotReleasableError``, and changes nothing, if the version is malformed or not later than the tree's, or if
    the changelog has nothing unreleased.
    """
    before = current(root)
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise NotReleasableError(f"{version} is no version: it has to be three numbers, as 1.2.3")
    if _numbers(version) <= _numbers(before):
        raise NotReleasableError(f"{version} is not later than {before}, the version now")
    texts: dict[str, str] = {}
    for name, pattern in PLACES:
        text = texts.get(name) or (root / name).read_text()
        texts[name] = _replaced(name, text, pattern, version)
    texts["CHANGELOG.md"] = _changelog(root, version, date)
    for lock in LOCKS:
        texts[lock] = _lock((root / lock).read_text(), before, version)
    for name, text in texts.items():
        (root / name).write_text(text)


def notes(root: Path, version: str) -> str:
    """Returns the changelog's section for a version, without its heading."""
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    for section in sections:
        heading, _, body = section.partition("\n")
        if heading.split(" ")[0] == version:
            return body.strip() + "\n"
    raise NotReleasableError(f"CHANGELOG.md has no section for {version}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def _replaced(name: str, text: str, pattern: str, version: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise NotReleasableError(f"{name} has no version where one was expected")
    return text[: found.start(1)] + version + text[found.end(1) :]


def _changelog(root: Path, version: str, date: datetime.date) -> str:
    text = (root / "CHANGELOG.md").read_text()
    before, heading, after = text.partition(UNRELEASED)
    if not heading or not re.match(r"\s*-", after):
        raise NotReleasableError("CHANGELOG.md has nothing below its heading Unreleased")
    return f"{before}{UNRELEASED}\n## {version} ({date.isoformat()})\n{after}"


def _lock(text: str, before: str, version: str) -> str:
    ours = rf'(\nname = "gristmill-[a-z-]+"\nversion = "){re.escape(before)}"'
    return re.sub(ours, rf'\g<1>{version}"', text)


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("version", help="the version, as 1.2.3")
    parser.add_argument(
        "--notes",
        action="store_true",
        help="only print the changelog of this version, which the tree must have",
    )
    arguments = parser.parse_args()
    try:
        if arguments.notes:
            if current(ROOT) != arguments.version:
                raise NotReleasableError(
                    f"the tree's version is {current(ROOT)}, not {arguments.version}"
                )
            print(notes(ROOT, arguments.version), end="")
        else:
            set_version(ROOT, arguments.version, datetime.datetime.now(datetime.UTC).date())
    except NotReleasableError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
