"""Another application, with failures injected into some of its tasks (TaPS, sections III-E and IV-G)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

from pydantic import Field, model_validator

from gristmill_bench import apart
from gristmill_bench.apps.base import App
from gristmill_bench.engine import Engine
from gristmill_bench.errors import BenchError
from gristmill_bench.faults.injector import FAILURES, Injector, Plan, kinds_of
from gristmill_bench.faults.kinds import HARMFUL, FailureKind, Scene
from gristmill_bench.faults.watched import executions
from gristmill_bench.plugins import make

#: Name of this plug-in, which cannot be its own base.
_NAME = "failures"


class Tally(NamedTuple):
    """Outcome of an application, and counts of its tasks."""

    #: Result of the application, if it returned one.
    result: Any
    #: Exception that the application raised otherwise.
    error: BaseException | None
    #: Tasks that were made to fail, and those of them that still returned a result.
    injected: int
    recovered: int
    #: Tasks that were not made to fail, and those of them that returned no result.
    others: int
    lost: int
    #: Times that tasks began.
    executions: int


class Failures(App):
    """Any application, some of whose tasks fail: they raise, never end, or kill the processes that run them."""

    run_timeout: ClassVar[float | None] = 600.0

    base: str
    #: Fields of the base application.
    config: dict[str, Any] = Field(default_factory=dict)
    type: FailureKind | Literal["random"] = "failure"
    #: Share of the tasks that fail.
    rate: Annotated[float, Field(gt=0, le=1)] = 0.1
    seed: int = 1
    #: Executions of such a task that fail.
    attempts: Annotated[int, Field(ge=1)] | Literal["all"] = 1
    #: Limit in seconds that the executor gets for each task, for failures in which a task never ends.
    timeout_s: Annotated[float, Field(gt=0)] = 2.0
    #: Bytes that a task may have when it fills memory.
    memory_size: Annotated[int, Field(ge=1 << 20)] = 256 << 20

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Fills in all fields of the base application, so that the written configuration is complete."""
        base, config = fields.get("base"), fields.get("config", {})
        if not isinstance(base, str) or not isinstance(config, dict):
            return fields
        if base == _NAME:
            raise ValueError("the base has to be another application")
        try:
            app = make("app", base, config)
        except BenchError as error:
            raise ValueError(f"base: {error}") from error
        return fields | {"config": app.model_dump(mode="json", exclude_none=True)}

    def is_harmful(self) -> bool:
        """Returns whether the failures or the base application kill other processes."""
        return not HARMFUL.isdisjoint(kinds_of(self.type)) or self._base().is_harmful()

    def task_timeout(self) -> float | None:
        """Returns ``timeout_s`` if tasks never end, and the limit of the base application otherwise."""
        return self.timeout_s if "timeout" in kinds_of(self.type) else self._base().task_timeout()

    def _base(self) -> App:
        return cast(App, make("app", self.base, self.config))

    def prepare(self, folder: Path) -> App:
        """Returns the base application with its inputs prepared."""
        base = self._base()
        base.inputs(folder)
        return base

    def run(self, engine: Engine, folder: Path) -> Tally:
        """Runs the base until it ends, waits for all of its tasks, and probes whether the executor still works."""
        base: App = self.inputs(folder)
        scene = Scene(
            program=os.getpid(),
            may_die=_is_run(),
            memory_size=self.memory_size,
            fence=apart.fence() if self.is_harmful() else None,
        )
        attempts = None if self.attempts == "all" else self.attempts
        plan = Plan(kinds_of(self.type), self.rate, self.seed, attempts)
        injector = Injector(engine, plan, scene, folder)
        result = error = None
        try:
            result = base.run(Engine(injector, workers=engine.workers), folder)
        except FAILURES as raised:
            error = raised
        injector.wait()
        if error is not None and set(injector.notes.outcomes.values()) <= {"result"}:
            # No task has failed: the application itself cannot run.
            raise error
        injector.notes.course(error, _probe(engine))
        return _tally(injector, result, error, folder)

    def check(self, result: Tally) -> str:
        """Describes the outcome of the tasks; checks the base application's result if there is one."""
        says = (
            "it raised " + type(result.error).__name__
            if result.error is not None
            else self._base().check(result.result)
        )
        return (
            f"{self.base}: {says}; {self.type} in {result.injected} of {result.injected + result.others} tasks, "
            f"{result.recovered} recovered; {result.lost} others lost"
        )

    def figures(self, result: Tally) -> dict[str, float]:
        """Returns the numbers of injected, recovered and lost tasks, and the times that tasks began."""
        return {
            "injected_tasks": result.injected,
            "recovered_tasks": result.recovered,
            "lost_tasks": result.lost,
            "begun_tasks": result.executions,
        }


def _is_run() -> bool:
    """Returns whether this process is the process of a run, which does nothing else."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == "gristmill_bench.child"


def _probe(engine: Engine) -> BaseException | None:
    """Submits one more task and returns its exception, or ``None`` if it succeeds."""
    try:
        engine.submit(os.getpid).result()
    except FAILURES as error:
        return error
    return None


def _tally(injector: Injector, result: Any, error: BaseException | None, folder: Path) -> Tally:
    outcomes = injector.notes.outcomes
    injected = injector.injected
    failed = {number for number, outcome in outcomes.items() if outcome != "result"}
    return Tally(
        result=result,
        error=error,
        injected=len(injected),
        recovered=len(injected - failed),
        others=len(outcomes.keys() - injected),
        lost=len(failed - injected),
        executions=sum(executions(folder).values()),
    )
