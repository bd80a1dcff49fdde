"""Comparison of the distributions that a program needs with the distributions of a node."""

from __future__ import annotations

import dataclasses

from gristmill._context.distributions import normalized

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gristmill._context.environment import Interpreter


@dataclasses.dataclass(frozen=True)
class Difference:
    """Distributions that a node has, lacks, or has in another version."""

    #: Names of distributions that the node lacks.
    missing: tuple[str, ...]
    #: Name, needed version and version on the node.
    other: tuple[tuple[str, str, str], ...]
    #: Names of distributions that the node has in the needed version.
    same: tuple[str, ...]
    #: Reasons why compiled modules from this machine do not work on the node, one per line.
    interpreter: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Returns whether the node differs in anything that is needed."""
        return bool(self.missing or self.other or self.interpreter)


def difference(
    wanted: Iterable[tuple[str, str]],
    there: Iterable[tuple[str, str]],
    interpreters: tuple[Interpreter, Interpreter] | None = None,
) -> Difference:
    """Compares needed names and versions with those of a node; ``interpreters`` are the local one and the node's."""
    has = {normalized(name): version for name, version in there}
    missing, other, same = [], [], []
    for name, version in sorted(set(wanted)):
        found = has.get(normalized(name))
        if found is None:
            missing.append(name)
        elif is_same_version(version, found):
            same.append(name)
        else:
            other.append((name, version, found))
    why = unlike(*interpreters) if interpreters is not None else ()
    return Difference(tuple(missing), tuple(other), tuple(same), tuple(why))


def is_same_version(one: str, other: str) -> bool:
    """Returns whether two versions are equal: ``1.0`` and ``1.0.0`` are, ``2.1+cu118`` and ``2.1`` are not."""
    from packaging.version import InvalidVersion, Version

    try:
        return one == other or Version(one) == Version(other)
    except InvalidVersion:
        return False


def unlike(here: Interpreter, there: Interpreter) -> list[str]:
    """Returns the reasons why modules compiled for one interpreter do not work in the other, one per line."""
    found = [
        f"{what} is {ours} here and {theirs} there"
        for what, ours, theirs in (
            ("Python", _minor(here), _minor(there)),
            ("the ABI", here.abi, there.abi),
            ("the platform", here.platform, there.platform),
        )
        if ours != theirs
    ]
    if _is_older(there.libc, here.libc):
        found.append(f"the C library is {here.libc} here and only {there.libc} there")
    return found


def _minor(one: Interpreter) -> str:
    return f"{one.implementation} {'.'.join(one.version.split('.')[:2])}"


def _is_older(libc: str | None, than: str | None) -> bool:
    """Returns whether a C library is too old for programs built with ``than``: newer ones run older programs."""
    if libc is None or than is None or libc == than:
        return False
    (name, _, version), (other_name, _, other) = libc.partition(" "), than.partition(" ")
    return name != other_name or _numbers(version) < _numbers(other)


def _numbers(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]
