"""Discovery of what a program, or some functions, need on another node, with the reason for each item.

Source: Phung and others, "Accelerating Function-Centric Applications by Discovering, Distributing, and Retaining
Reusable Context in Workflow Systems", HPDC 2024, section 3.2. This implementation also works without conda and for
functions without source.
"""

from __future__ import annotations

import ast
import dataclasses
import os
import sys

from gristmill._context import environment, imports, objects, parts, requirements
from gristmill._context.resolving import LOCAL, Module, Resolver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from gristmill._context.observed import Observed
    from gristmill._context.requirements import Needed
    from gristmill._context.resolving import Missing, UserFile


@dataclasses.dataclass
class Discovery:
    """Result of a discovery."""

    environment: environment.Environment
    #: Every imported module, ordered by name.
    modules: list[Module]
    #: Every needed distribution by key, including those that other distributions require.
    distributions: dict[str, Needed]
    #: Code of the user, which belongs to no installed distribution.
    files: list[UserFile]
    #: Functions and classes that are sent by value, if the discovery started from objects.
    by_value: list[str]
    #: Modules and data files of an observed run; ``None`` if no run was observed.
    observed: Observed | None
    #: Needed items that were not found.
    missing: list[Missing]
    #: Remarks about items that could not be determined, or that are inconsistent.
    notes: list[str]

    @property
    def totals(self) -> tuple[int, int]:
        """Total number of files of all distributions, and their total size in bytes."""
        each = [needed.distribution.totals for needed in self.distributions.values()]
        return sum(count for count, _ in each), sum(size for _, size in each)

    def to_json(self) -> dict[str, Any]:
        """Returns the result as plain data for JSON."""
        count, size = self.totals
        observed = dataclasses.asdict(self.observed) if self.observed is not None else None
        if observed is not None:
            del observed["modules"]
        return {
            "environment": self.environment.to_json(),
            "modules": [dataclasses.asdict(module) for module in self.modules],
            "distributions": [_as_data(needed) for needed in self.distributions.values()],
            "files": [dataclasses.asdict(file) for file in self.files],
            "by_value": self.by_value,
            "observed": observed,
            "missing": [dataclasses.asdict(one) for one in self.missing],
            "notes": self.notes,
            "file_count": count,
            "size_bytes": size,
        }


def of_program(
    program: str, function: str | None = None, observed: Observed | None = None
) -> Discovery:
    """Discovers the needs of a program, or of one of its functions.

    Raises ``OSError`` if the program cannot be read, ``SyntaxError`` if it is not valid Python, and ``LookupError`` if
    it has no such function.
    """
    with open(program, "rb") as file:
        source = file.read()
    tree = ast.parse(source, program)
    statements = tree.body if function is None else parts.part_of(tree, function)
    first = [] if sys.flags.safe_path else sys.path[:1]
    folder = os.path.dirname(os.path.abspath(program))
    resolver = Resolver([folder, *(entry for entry in sys.path if entry not in first)])
    resolver.add_main(program, len(source))
    resolver.add(imports.of_statements(statements, os.path.basename(program)))
    return _finished(resolver, observed, [])


def of_functions(functions: Iterable[Any], observed: Observed | None = None) -> Discovery:
    """Discovers the needs of functions of this process: those of a context, and its setup."""
    reached = objects.of_objects(functions)
    resolver = Resolver(sys.path)
    resolver.add(reached.scan)
    return _finished(resolver, observed, reached.by_value)


def of_caller(setup: Any, preload: Iterable[str] = ()) -> Discovery:
    """Discovers the needs of a setup and of the program of this process: its file, or what a notebook has defined."""
    main = sys.modules["__main__"]
    program = getattr(main, "__file__", None)
    defined = [] if program else [one for one in vars(main).values() if callable(one)]
    reached = objects.of_objects([setup, *defined])
    resolver = Resolver(sys.path)
    resolver.add(reached.scan)
    if program and os.path.isfile(program):
        with open(program, "rb") as file:
            source = file.read()
        resolver.add_main(program, len(source))
        statements = ast.parse(source, program).body
        resolver.add(imports.of_statements(statements, os.path.basename(program)))
    for name in preload:
        resolver.add_one(imports.Import(name, "preload names it"))
    return _finished(resolver, None, reached.by_value)


def _finished(resolver: Resolver, observed: Observed | None, by_value: Sequence[str]) -> Discovery:
    if observed is not None:
        _add_observed(resolver, observed)
    needed: dict[str, Needed] = {}
    notes: list[str] = []
    if resolver.distributions:
        needed, notes = requirements.closure(resolver.installed, resolver.distributions.values())
    if observed is not None and observed.status != 0:
        how = f"status {observed.status}"
        if observed.status < 0:
            from gristmill import _native

            how = f"signal {-observed.status} ({_native.signal_name(-observed.status)})"
        notes.append(
            f"the observed run ended with {how}: what the program would have done after that was not observed"
        )
    return Discovery(
        environment=environment.here(),
        modules=sorted(resolver.modules.values(), key=lambda module: module.name),
        distributions=dict(sorted(needed.items())),
        files=list(resolver.files.values()),
        by_value=list(by_value),
        observed=observed,
        missing=resolver.missing,
        notes=[*resolver.notes, *notes],
    )


def _add_observed(resolver: Resolver, observed: Observed) -> None:
    """Adds observed modules that come from a file or a distribution that is not known to be needed yet."""
    required: dict[str, Needed] = {}
    if resolver.distributions:
        required, _ = requirements.closure(resolver.installed, resolver.distributions.values())
    for name in observed.modules:
        place = resolver.finder.find(name)
        if place is None or place.module != name or not place.files or name in resolver.modules:
            continue  # not found, built in, or already known
        module = resolver.module(name, place)
        keys = {one.key for one in resolver.owners(place)}
        is_new = module.kind == LOCAL and place.file not in resolver.files
        if is_new or not keys <= required.keys() | resolver.distributions.keys():
            resolver.add_one(imports.Import(name, "imported in the observed run"))


def _as_data(needed: Needed) -> dict[str, Any]:
    one = needed.distribution
    count, size = one.totals
    found: dict[str, Any] = {
        "name": one.name,
        "version": one.version,
        "installer": one.installer,
        "origin": one.origin,
        "is_editable": one.is_editable,
        "is_imported": needed.is_imported,
        "required_by": needed.required_by,
        "file_count": count,
        "size_bytes": size,
    }
    if one.conda is not None:
        found["conda"] = {
            key: one.conda.get(key) for key in ("name", "version", "build", "channel")
        }
    return found
