"""What is to be run: from TOML and the command line, complete, and written down so that it can be run again."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, cast

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gristmill._profile import permission
from gristmill.bench.apps.base import App
from gristmill.bench.errors import BenchError
from gristmill.bench.executors.base import ExecutorPlugin
from gristmill.bench.filters import FilterPlugin
from gristmill.bench.plugins import KINDS, AbsolutePath, Kind, Plugin, make
from gristmill.bench.records.base import RecordsPlugin
from gristmill.bench.transformers.base import TransformerPlugin

#: What is run if nothing else is asked for.
_DEFAULTS: dict[Kind, str] = {"executor": "gristmill", "records": "json-lines"}
#: What those of each kind are.
_BASES: dict[Kind, type[Plugin]] = {
    "app": App,
    "executor": ExecutorPlugin,
    "filter": FilterPlugin,
    "transformer": TransformerPlugin,
    "records": RecordsPlugin,
}
#: The name of what is left out.
NONE = "none"
#: Seconds of a run: three weeks, and within what the kernel takes as a time to wait.
_TIMEOUT_MAX = 2e6


class RunOptions(BaseModel):
    """How it is run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Where the folder of the run is made.
    folder: AbsolutePath = Field(Path("runs"), validate_default=True)
    #: Set for the process of the run and its workers, besides what they have.
    environment: dict[str, str] = {}
    #: Seconds after which the run is ended, with every process that it has started.
    timeout: Annotated[float, Field(gt=0, le=_TIMEOUT_MAX)] | None = None
    #: Whether it is run in namespaces of its own: Linux gives those to users. Applications that kill ask for it.
    apart: bool = False
    #: Tasks that do nothing and are run before, for the workers to be there.
    warmup: Annotated[int, Field(ge=0)] = 0
    #: Whether Python's collector of garbage is at work in the program. Workers have theirs.
    collector: bool = True
    #: Whether it is noted when tasks cross the borders between components of the executor.
    tags: bool = False
    #: Whether it is looked at by ``gristmill profile``, which leaves a folder ``profile`` in that of the run.
    profile: bool = False

    @field_validator("environment")
    @classmethod
    def _can_be_variables(cls, environment: dict[str, str]) -> dict[str, str]:
        for name, value in environment.items():
            if not name or "=" in name or "\0" in name + value:
                raise ValueError(f"no variable can be {name!r} with the value {value!r}")
            # It is written into the configuration of the run.
            (name + value).encode()
        return environment

    @field_validator("profile")
    @classmethod
    def _can_be_looked_at(cls, profile: bool) -> bool:
        if profile:
            try:
                permission.sampler()
            except permission.CannotProfile as error:
                raise ValueError(str(error)) from error
        return profile


class Benchmark:
    """One run of an application on an executor."""

    def __init__(self, plugins: dict[Kind, tuple[str, Plugin]], run: RunOptions) -> None:
        self.run = run
        self._plugins = plugins

    def name(self, kind: Kind) -> str:
        """What was chosen of a kind."""
        return self._plugins[kind][0] if kind in self._plugins else NONE

    @property
    def app(self) -> App:
        """What is run."""
        return cast(App, self._chosen("app"))

    @property
    def executor(self) -> ExecutorPlugin:
        """On what."""
        return cast(ExecutorPlugin, self._chosen("executor"))

    @property
    def filter(self) -> FilterPlugin | None:
        """Which objects are transformed; all of them if there is none."""
        return cast(FilterPlugin | None, self._chosen("filter"))

    @property
    def transformer(self) -> TransformerPlugin | None:
        """Where these are put."""
        return cast(TransformerPlugin | None, self._chosen("transformer"))

    @property
    def records(self) -> RecordsPlugin | None:
        """What is noted of tasks."""
        return cast(RecordsPlugin | None, self._chosen("records"))

    def _chosen(self, kind: Kind) -> Plugin | None:
        return self._plugins[kind][1] if kind in self._plugins else None

    def to_toml(self) -> str:
        """All of it as TOML: what was left to defaults too."""
        tables: dict[str, Any] = {}
        for kind in KINDS:
            if kind in self._plugins:
                name, plugin = self._plugins[kind]
                tables[kind] = {"name": name} | plugin.model_dump(mode="json", exclude_none=True)
            elif kind in _DEFAULTS:
                tables[kind] = {"name": NONE}
        tables["run"] = self.run.model_dump(mode="json", exclude_none=True)
        return tomli_w.dumps(tables)


def resolve(tables: dict[str, dict[str, Any]]) -> Benchmark:
    """The benchmark that tables describe; ``BenchError`` says what is wrong with them."""
    unknown = sorted(set(tables) - {*KINDS, "run"})
    if unknown:
        raise BenchError(
            f"there is nothing called {', '.join(unknown)}; there are: {', '.join(KINDS)}, run"
        )
    if (loose := _loose(tables)) is not None:
        raise BenchError(f"{loose} is no table of fields")
    plugins: dict[Kind, tuple[str, Plugin]] = {}
    for kind in KINDS:
        fields = dict(tables.get(kind, {}))
        name = fields.pop("name", _DEFAULTS.get(kind, NONE))
        if name != NONE:
            plugins[kind] = (name, make(kind, name, fields))
            if not isinstance(plugins[kind][1], _BASES[kind]):
                raise BenchError(f"{kind} {name!r} is no {_BASES[kind].__name__}")
        elif fields:
            raise BenchError(f"{kind}.{next(iter(fields))} is set, and no {kind} is named")
    if "app" not in plugins:
        raise BenchError("no application is named: --app NAME")
    if "filter" in plugins and "transformer" not in plugins:
        raise BenchError("a filter picks what is transformed, and no transformer is named")
    try:
        return Benchmark(plugins, RunOptions.model_validate(tables.get("run", {})))
    except ValidationError as error:
        wrong = "; ".join(
            f"run.{'.'.join(map(str, one['loc']))}: {one['msg']}"
            for one in error.errors(include_url=False)
        )
        raise BenchError(wrong) from error


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The tables of a file of TOML."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BenchError(f"{path} is no TOML: {error}") from error
    if (loose := _loose(tables)) is not None:
        raise BenchError(f"{path}: {loose} is no table of fields")
    return tables


def _loose(tables: dict[str, Any]) -> str | None:
    """What stands where a table should, if something does."""
    return next((name for name, table in tables.items() if not isinstance(table, dict)), None)


def merge(*parts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Several of them in one: what comes later counts. Another plug-in takes nothing over from the one before."""
    whole: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, table in part.items():
            before = whole.get(name, {})
            whole[name] = (
                dict(table) if _is_another("name", before, table) else _over(before, table)
            )
    return whole


def executor_fields(tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What tables set for all executors, whichever one they name."""
    return {field: value for field, value in tables.get("executor", {}).items() if field != "name"}


def _over(before: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """A table with another one over it, and tables within them likewise."""
    if _is_another("base", before, table):
        before = {name: value for name, value in before.items() if name != "config"}
    both = before | table
    for name in before.keys() & table.keys():
        if isinstance(before[name], dict) and isinstance(table[name], dict):
            both[name] = _over(before[name], table[name])
    return both


def _is_another(field: str, before: dict[str, Any], table: dict[str, Any]) -> bool:
    """Whether a table names another plug-in than the one before."""
    return field in table and table[field] != before.get(field, table[field])
