"""Requirements of distributions, from their metadata."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import pathlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packaging.requirements import Requirement

    from gristmill._context.distributions import Distribution, Installed

#: Conda packages of the interpreter itself, which exists on the node already.
_INTERPRETER = frozenset({"python", "python_abi", "pypy", "cpython"})


@dataclasses.dataclass
class Needed:
    """One distribution of the result."""

    distribution: Distribution
    #: True if the program, or code that it runs, imports the distribution.
    is_imported: bool = False
    #: Names of the distributions that require it.
    required_by: list[str] = dataclasses.field(default_factory=list)
    #: Extras of the distribution that are required.
    extras: set[str] = dataclasses.field(default_factory=set)


def closure(
    installed: Installed, first: Iterable[Distribution]
) -> tuple[dict[str, Needed], list[str]]:
    """Returns some distributions and all that they require, by key; and notes about broken requirements.

    A requirement that is not installed only adds a note, because the program runs here without it.
    """
    needed = {one.key: Needed(one, is_imported=True) for one in first}
    waiting = list(needed)
    notes: list[str] = []
    while waiting:
        whole = needed[waiting.pop()]
        requirements = _of_conda if whole.distribution.conda is not None else _of_metadata
        for name, extras, wrong in requirements(installed, whole):
            found = installed.get(name) or installed.get_conda(name)
            if found is None or wrong:
                notes.append(f"{whole.distribution.name} requires {wrong or name}")
            if found is None or found.key == whole.distribution.key:
                continue
            is_new = found.key not in needed
            other = needed.setdefault(found.key, Needed(found))
            if whole.distribution.name not in other.required_by:
                other.required_by.append(whole.distribution.name)
            if is_new or not extras <= other.extras:
                other.extras |= extras
                waiting.append(found.key)
    return needed, list(dict.fromkeys(notes))


def _of_metadata(installed: Installed, whole: Needed) -> Iterator[tuple[str, set[str], str]]:
    """Yields each requirement that applies here: its name, its extras, and its fault if any."""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in requirements_of(whole.distribution):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            yield text, set(), f"{text!r}, which is not a valid requirement"
            continue
        if _holds(requirement, whole.extras):
            found = installed.get(requirement.name) or installed.get_conda(requirement.name)
            yield requirement.name, requirement.extras, _wrong(requirement, found)


def requirements_of(one: Distribution) -> list[str]:
    """Returns the requirements of a distribution as its author wrote them."""
    if one.metadata is not None and one.metadata.endswith(".egg-info"):
        if not os.path.isdir(one.metadata):
            return one.headers("requires-dist")
        return importlib.metadata.PathDistribution(pathlib.Path(one.metadata)).requires or []
    return one.headers("requires-dist")


def _holds(requirement: Requirement, extras: set[str]) -> bool:
    """Returns whether the marker of a requirement, if any, holds for this interpreter and the required extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ["", *extras])


def _wrong(requirement: Requirement, found: Distribution | None) -> str:
    from packaging.version import InvalidVersion

    asked = f"{requirement.name}{requirement.specifier}"
    if found is None:
        return f"{asked}, which is not installed"
    try:
        fits = requirement.specifier.contains(found.version, prereleases=True)
    except InvalidVersion:
        fits = True
    return "" if fits else f"{asked}, and {found.version} is installed"


def _of_conda(installed: Installed, whole: Needed) -> Iterator[tuple[str, set[str], str]]:
    """Yields each dependency of a conda package.

    The interpreter's packages and conda's virtual packages (``__glibc`` and the like) are left out.
    """
    record = whole.distribution.conda or {}
    for text in record.get("depends", ()):
        name = str(text).split()[0]
        if name in _INTERPRETER or name.startswith("__"):
            continue
        is_there = installed.get_conda(name) is not None
        yield name, set(), "" if is_there else f"{text}, which is not installed"
