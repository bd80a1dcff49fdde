"""The configuration of a run, from TOML and the command line, written out in full so that it can be run again."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, cast

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gristmill import instruments
from gristmill_bench.apps.base import App
from gristmill_bench.errors import BenchError
from gristmill_bench.executors.base import ExecutorPlugin
from gristmill_bench.filters import FilterPlugin
from gristmill_bench.plugins import KINDS, AbsolutePath, Kind, Plugin, make
from gristmill_bench.records.base import RecordsPlugin
from gristmill_bench.transformers.base import TransformerPlugin

#: Plug-ins that are used if no other is named.
_DEFAULTS: dict[Kind, str] = {"executor": "gristmill", "records": "json-lines"}
#: The base class of each kind of plug-in.
_BASES: dict[Kind, type[Plugin]] = {
    "app": App,
    "executor": ExecutorPlugin,
    "filter": FilterPlugin,
    "transformer": TransformerPlugin,
    "records": RecordsPlugin,
}
#: The name that stands for no plug-in.
NONE = "none"
#: The longest timeout in seconds: three weeks, which the kernel still accepts as a time to wait.
_TIMEOUT_MAX = 2e6


class RunOptions(BaseModel):
    """Options of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: The folder in which the folder of the run is made.
    folder: AbsolutePath = Field(Path("runs"), validate_default=True)
    #: Variables added to the environment of the run's process and its workers.
    environment: dict[str, str] = {}
    #: Seconds after which the run is ended, with every process that it has started.
    timeout: Annotated[float, Field(gt=0, le=_TIMEOUT_MAX)] | None = None
    #: True if it runs in namespaces of its own, which Linux gives to users. Applications that kill processes need this.
    apart: bool = False
    #: Tasks that do nothing and run first, so that the workers are ready.
    warmup: Annotated[int, Field(ge=0)] = 0
    #: True if Python's garbage collector runs in the program. It always runs in workers.
    collector: bool = True
    #: True if the times are recorded when tasks cross the borders between components of the executor.
    timings: bool = False
    #: True if ``gristmill profile`` observes the run and writes a folder ``profile`` into the folder of the run.
    profile: bool = False

    @field_validator("environment")
    @classmethod
    def _can_be_variables(cls, environment: dict[str, str]) -> dict[str, str]:
        for name, value in environment.items():
            if not name or "=" in name or "\0" in name + value:
                raise ValueError(f"no variable can be {name!r} with the value {value!r}")
            # The name and value are written into the configuration of the run as UTF-8.
            (name + value).encode()
        return environment

    @field_validator("profile")
    @classmethod
    def _can_be_looked_at(cls, profile: bool) -> bool:
        if profile:
            try:
                instruments.find_sampler()
            except instruments.CannotProfile as error:
                raise ValueError(str(error)) from error
        return profile


class Benchmark:
    """One run of an application on an executor."""

    def __init__(self, plugins: dict[Kind, tuple[str, Plugin]], run: RunOptions) -> None:
        self.run = run
        self._plugins = plugins

    def name(self, kind: Kind) -> str:
        """Returns the name of the chosen plug-in of a kind."""
        return self._plugins[kind][0] if kind in self._plugins else NONE

    @property
    def app(self) -> App:
        """The application that is run."""
        return cast(App, self._chosen("app"))

    @property
    def executor(self) -> ExecutorPlugin:
        """The executor that runs it."""
        return cast(ExecutorPlugin, self._chosen("executor"))

    @property
    def filter(self) -> FilterPlugin | None:
        """The filter that picks the objects to transform; ``None``: all objects are transformed."""
        return cast(FilterPlugin | None, self._chosen("filter"))

    @property
    def transformer(self) -> TransformerPlugin | None:
        """The transformer that stores the picked objects."""
        return cast(TransformerPlugin | None, self._chosen("transformer"))

    @property
    def records(self) -> RecordsPlugin | None:
        """The records that are kept of tasks."""
        return cast(RecordsPlugin | None, self._chosen("records"))

    def _chosen(self, kind: Kind) -> Plugin | None:
        return self._plugins[kind][1] if kind in self._plugins else None

    def to_toml(self) -> str:
        """Returns the whole configuration as TOML, with all defaults."""
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
    """Returns the benchmark that tables describe; raises ``BenchError`` with what is wrong with them."""
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
    """Returns the tables of a TOML file."""
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
    """Returns the name of the first value that is not a table, or ``None``."""
    return next((name for name, table in tables.items() if not isinstance(table, dict)), None)


def merge(*parts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns several configurations merged into one: later values win. A different plug-in inherits no fields."""
    whole: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, table in part.items():
            before = whole.get(name, {})
            whole[name] = (
                dict(table) if _is_another("name", before, table) else _over(before, table)
            )
    return whole


def executor_fields(tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns the fields that tables set for all executors, without the name of an executor."""
    return {field: value for field, value in tables.get("executor", {}).items() if field != "name"}


def _over(before: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """Returns a table with another one merged over it; nested tables are merged likewise."""
    if _is_another("base", before, table):
        before = {name: value for name, value in before.items() if name != "config"}
    both = before | table
    for name in before.keys() & table.keys():
        if isinstance(before[name], dict) and isinstance(table[name], dict):
            both[name] = _over(before[name], table[name])
    return both


def _is_another(field: str, before: dict[str, Any], table: dict[str, Any]) -> bool:
    """Returns whether a table names a different plug-in than the one before."""
    return field in table and table[field] != before.get(field, table[field])
