"""The plug-ins of the suite: each is a typed configuration, found by its kind and name.

Built-in plug-ins are found like those of any distribution: by entry points in groups named ``gristmill_bench.app``,
``gristmill_bench.executor`` and so on, under the name that configurations and the command line use.
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

from gristmill_bench.errors import BenchError

Kind = Literal["app", "executor", "filter", "transformer", "records"]
#: The kinds in the order in which configurations name them.
KINDS: tuple[Kind, ...] = ("app", "executor", "filter", "transformer", "records")


def _absolute(path: Path) -> Path:
    try:
        # The path is written into the configuration of a run as UTF-8.
        str(path).encode()
        return path.absolute()
    except UnicodeEncodeError as error:
        raise ValueError(f"{path!r} is not UTF-8") from error
    except FileNotFoundError as error:
        raise ValueError("the working directory is gone") from error


#: A path with the same meaning in the folder of a run, and when the configuration is run again from elsewhere.
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
#: A validator for fields with a choice called "none", which on the command line stands for no value.
NONE_IS_A_CHOICE = BeforeValidator(lambda value: "none" if value is None else value)


class Plugin(BaseModel):
    """A choice that is made by name: its fields are its configuration, with the values that each accepts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ClassVar[Kind]
    #: Distributions that have to be installed.
    needs: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def missing(cls) -> str | None:
        """Returns why the plug-in cannot be used on this machine, or ``None`` if it can."""
        absent = [name for name in cls.needs if not _is_installed(name)]
        return f"pip install {' '.join(absent)}" if absent else None


def names(kind: Kind) -> list[str]:
    """Returns the names of all plug-ins of a kind, sorted."""
    return sorted(_points(kind))


def find(kind: Kind, name: str) -> type[Plugin]:
    """Returns the plug-in class of that name; raises ``BenchError`` if it is missing, invalid, or cannot be loaded."""
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
    """Returns the plug-in of that name with its fields set; raises ``BenchError`` with each wrong field and why."""
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
    """Returns the entry points of a kind by name: one a name, unless distributions declare different ones."""
    found: dict[str, list[EntryPoint]] = {}
    for point in _declared(kind, _installed()):
        same = found.setdefault(point.name, [])
        if all(one.value != point.value for one in same):
            same.append(point)
    return found


@lru_cache(maxsize=len(KINDS))
def _declared(kind: Kind, _of: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """Returns the entry points that all distributions declare: reading them takes 16 ms where 140 are installed."""
    return tuple(entry_points(group=f"gristmill_bench.{kind}"))


def _installed() -> tuple[tuple[str, int], ...]:
    """Returns each folder of ``sys.path`` with the time when a distribution was last installed or removed there."""
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
    """Returns whether a distribution is installed. A module of the same name may belong to another distribution."""
    try:
        return bool(distribution(name))
    except PackageNotFoundError:
        return False
