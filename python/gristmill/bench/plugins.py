"""The plug-ins of the suite: each is a typed configuration, found by its kind and name.

Ours are found as anybody's are: by the entry points that a distribution declares, in groups named
``gristmill.bench.app``, ``gristmill.bench.executor`` and so on, under the name that configurations and the command
line use.
"""

from __future__ import annotations

import inspect
import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from gristmill.bench.errors import BenchError

Kind = Literal["app", "executor", "filter", "transformer", "records"]
#: In the order in which configurations name them.
KINDS: tuple[Kind, ...] = ("app", "executor", "filter", "transformer", "records")


def _absolute(path: Path) -> Path:
    try:
        # It is written into the configuration of a run.
        str(path).encode()
        return path.absolute()
    except UnicodeEncodeError as error:
        raise ValueError(f"{path!r} is not UTF-8") from error
    except FileNotFoundError as error:
        raise ValueError("the working directory is gone") from error


#: A path that means the same in the folder of a run, and when that is run again from elsewhere.
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
#: For fields that have a choice called "none", which on the command line is the word for nothing.
NONE_IS_A_CHOICE = BeforeValidator(lambda value: "none" if value is None else value)


class Plugin(BaseModel):
    """What can be chosen by name: its fields are its configuration, and say what values they take."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ClassVar[Kind]
    #: Distributions that have to be installed.
    needs: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def missing(cls) -> str | None:
        """Why it cannot be used on this machine; ``None``: it can."""
        absent = [name for name in cls.needs if not _is_installed(name)]
        return f"pip install {' '.join(absent)}" if absent else None


def names(kind: Kind) -> list[str]:
    """The names of all plug-ins of a kind, in order."""
    return sorted(_points(kind))


def find(kind: Kind, name: str) -> type[Plugin]:
    """The plug-in of that name; ``BenchError``: there is none, it is not one, or it cannot be loaded."""
    points = _points(kind).get(name, [])
    if not points:
        known = ", ".join(names(kind))
        raise BenchError(f"there is no {kind} {name!r}; there are: {known}")
    if len(points) > 1:
        sources = " and ".join(map(_source, points))
        raise BenchError(f"{sources} both are {kind} {name!r}: uninstall one of them")
    (point,) = points
    try:
        found = point.load()
    except Exception as error:
        raise BenchError(
            f"{kind} {name!r} cannot be loaded from {_source(point)}: {type(error).__name__}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Plugin) and found.kind == kind):
        raise BenchError(f"{kind} {name!r}, from {_source(point)}, is no plug-in of that kind")
    if inspect.isabstract(found):
        lacking = ", ".join(sorted(found.__abstractmethods__))
        raise BenchError(f"{kind} {name!r}, from {_source(point)}, lacks {lacking}")
    return found


def make(kind: Kind, name: str, fields: dict[str, Any]) -> Plugin:
    """The plug-in of that name with a configuration; ``BenchError`` names each field that is wrong, and how."""
    plugin = find(kind, name)
    reason = plugin.missing()
    if reason is not None:
        raise BenchError(f"{kind} {name!r} is not available here: {reason}")
    try:
        return plugin.model_validate(fields)
    except ValidationError as error:
        wrong = "; ".join(
            f"{kind}.{'.'.join(map(str, one['loc'])) or name}: {one['msg']}"
            for one in error.errors(include_url=False)
        )
        known = ", ".join(plugin.model_fields)
        raise BenchError(f"{wrong} ({kind} {name!r} has: {known or 'nothing to set'})") from error


def _points(kind: Kind) -> dict[str, list[EntryPoint]]:
    """All of a kind, by name: one, unless distributions have different ones of a name."""
    found: dict[str, list[EntryPoint]] = {}
    for point in _declared(kind, _installed()):
        same = found.setdefault(point.name, [])
        if all(one.value != point.value for one in same):
            same.append(point)
    return found


@lru_cache(maxsize=len(KINDS))
def _declared(kind: Kind, _of: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """What all distributions declare: to read that takes 16 ms where 140 are installed."""
    return tuple(entry_points(group=f"gristmill.bench.{kind}"))


def _installed() -> tuple[tuple[str, int], ...]:
    """Where distributions are, and when one was last installed or removed there."""
    return tuple((folder, _changed_ns(folder)) for folder in sys.path)


def _changed_ns(folder: str) -> int:
    try:
        return os.stat(folder or os.curdir).st_mtime_ns
    except OSError:
        return 0


def _source(point: EntryPoint) -> str:
    owner = point.dist.name if point.dist is not None else "?"
    return f"{point.value} of {owner}"


def _is_installed(name: str) -> bool:
    """Whether a distribution is there: a module of its name may be somebody else's."""
    try:
        return bool(distribution(name))
    except PackageNotFoundError:
        return False
