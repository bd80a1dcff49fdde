"""Pictures as small SVG files: what matplotlib writes, without what no viewer shows."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Facts that matplotlib writes about the picture; without all of them there is no metadata.
_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_HEAD = re.compile(r"\A<\?xml[^>]*>\s*<!DOCTYPE[^>]*>\s*")
_PART = re.compile(r"<[^>]*>|[^<]+")
#: The names of groups, to which nothing refers.
_GROUP_NAME = re.compile(r'^<g id="[^"]*"')
#: A number with more than two decimals.
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_SPACE = re.compile(r"\s+")


def save(figure: Any, path: Path) -> None:
    """Writes a figure of matplotlib as SVG."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=_METADATA)
    path.write_text(smaller(written.getvalue()), encoding="utf-8")


def smaller(svg: str) -> str:
    """Returns the same picture with coordinates of two decimals, and without the groups that only have a name."""
    lines = "".join(_parts(_HEAD.sub("", svg))).splitlines()
    return "".join(f"{line}\n" for raw in lines if (line := raw.strip()))


def _parts(svg: str) -> Iterator[str]:
    """Yields tags and the text between them."""
    #: For each open group, whether it is kept.
    groups: list[bool] = []
    for found in _PART.finditer(svg):
        part = found[0]
        if not part.startswith("<"):
            yield part
            continue
        tag = _smaller_tag(part)
        if tag.startswith("<g>") or tag.startswith("<g "):
            groups.append(tag != "<g>")
            if not groups[-1]:
                continue
        elif tag == "</g>" and not groups.pop():
            continue
        yield tag


def _smaller_tag(tag: str) -> str:
    text = _SPACE.sub(" ", _GROUP_NAME.sub("<g", tag))
    return _LONG_NUMBER.sub(_rounded, text).replace(' "', '"')


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
