"""Distributions whose code stays in its source folder, and those that do not come from a package index."""

from __future__ import annotations

import ast
import os
import urllib.parse

from gristmill._context import recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gristmill._context.distributions import Distribution


def areas(files: recorded.Recorded) -> Iterator[str]:
    """Yields the folders and files outside of its own folder that a distribution makes importable."""
    for name in files.lines(".pth"):
        for line in _text(os.path.join(files.root, name)).split("\n"):
            line = line.strip()
            if os.path.isabs(line) and not is_in(line, files.root):
                yield os.path.normpath(line)
    for name in files.lines("_finder.py"):
        if os.path.basename(name).startswith("__editable__"):
            yield from _mapped(_text(os.path.join(files.root, name)))


def is_in(file: str, area: str) -> bool:
    """Returns whether a file is the area itself or is in it."""
    return file in (area, area + ".py") or file.startswith(area + os.sep)


def egg_links(folder: str) -> Iterator[str]:
    """Yields the folders that ``.egg-link`` files of old tools point to, each with an ``egg-info``."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        if name.endswith(".egg-link"):
            yield os.path.normpath(_text(os.path.join(folder, name)).partition("\n")[0].strip())


def tell_origin(one: Distribution) -> None:
    """Fills in the origin of a distribution and whether it is editable."""
    recorded_url = recorded.parse(
        recorded.read(os.path.join(one.metadata or "", "direct_url.json"))
    )
    url, versioned = recorded_url.get("url"), recorded_url.get("vcs_info")
    if isinstance(url, str):
        commit = versioned.get("commit_id") if isinstance(versioned, dict) else None
        one.origin = _without_password(url) + (f"@{commit}" if commit else "")
    facts = recorded_url.get("dir_info")
    if isinstance(facts, dict) and facts.get("editable") is True:
        one.is_editable = True


def _without_password(url: str) -> str:
    """Returns a URL without user name and password."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _mapped(source: str) -> Iterator[str]:
    """Yields the paths in the mapping of setuptools' finder for an editable installation."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for statement in tree.body:
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == "MAPPING":
            assert isinstance(statement, ast.AnnAssign), "it has a target"
            if isinstance(statement.value, ast.Dict):
                for value in statement.value.values:
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        yield value.value


def _text(path: str) -> str:
    return (recorded.read(path) or b"").decode("utf-8", "replace")
