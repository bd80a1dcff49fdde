"""What a program, or some functions, need on another node: everything that was found, each with its reason.

Source: Phung and others, "Accelerating Function-Centric Applications by Discovering, Distributing, and Retaining
Reusable Context in Workflow Systems", HPDC 2024, section 3.2; here without conda and without source, too.
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
    """Everything that was found."""

    environment: environment.Environment
    #: Every module that is imported, by name.
    modules: list[Module]
    #: Every distribution that is needed, those that others require included, by key.
    distributions: dict[str, Needed]
    #: The user's own code, which is installed nowhere.
    files: list[UserFile]
    #: Functions and classes that go by value, if objects were looked at.
    by_value: list[str]
    #: Data that was read, in an observed run; ``None`` if there was none.
    observed: Observed | None
    #: What is needed and was not found.
    missing: list[Missing]
    #: What could not be told, and what is not as it should be.
    notes: list[str]

    @property
    def totals(self) -> tuple[int, int]:
        """How many files all distributions have together, and their size in bytes."""
        each = [needed.distribution.totals for needed in self.distributions.values()]
        return sum(count for count, _ in each), sum(size for _, size in each)

    def to_json(self) -> dict[str, Any]:
        """As data."""
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
    """Discovers what a program needs, or one of its functions.

    Raises ``OSError`` if it cannot be read, ``SyntaxError`` if it is no Python, and ``LookupError`` if it has no such
    function.
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
    """Discovers what functions of this process need: those of a context, and its setup."""
    reached = objects.of_objects(functions)
    resolver = Resolver(sys.path)
    resolver.add(reached.scan)
    return _finished(resolver, observed, reached.by_value)


def of_caller(setup: Any, preload: Iterable[str] = ()) -> Discovery:
    """Discovers what a setup needs, and the program of this process: its file, or what a notebook has defined."""
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
        resolver.add_one(imports.Import(name, "it is to be preloaded"))
    return _finished(resolver, None, reached.by_value)


def _finished(resolver: Resolver, observed: Observed | None, by_value: Sequence[str]) -> Discovery:
    if observed is not None:
        _add_observed(resolver, observed)
    needed: dict[str, Needed] = {}
    notes: list[str] = []
    if resolver.distributions:
        needed, notes = requirements.closure(resolver.installed, resolver.distributions.values())
    if observed is not None and observed.status != 0:
        how = f"status {observed.status}" if observed.status > 0 else f"signal {-observed.status}"
        notes.append(f"the observed run ended with {how}: what would have followed was not seen")
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
    """Adds what was imported and comes from where nothing else that is known to be needed does."""
    required: dict[str, Needed] = {}
    if resolver.distributions:
        required, _ = requirements.closure(resolver.installed, resolver.distributions.values())
    for name in observed.modules:
        place = resolver.finder.find(name)
        if place is None or place.module != name or not place.files or name in resolver.modules:
            continue  # nowhere, or built in, or known
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
