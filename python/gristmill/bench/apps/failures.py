"""Another application, some of whose tasks are made to fail (TaPS, sections III-E and IV-G)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

from pydantic import Field, model_validator

from gristmill.bench import apart
from gristmill.bench.apps.base import App
from gristmill.bench.engine import Engine
from gristmill.bench.errors import BenchError
from gristmill.bench.faults.injector import FAILURES, Injector, Plan, kinds_of
from gristmill.bench.faults.kinds import HARMFUL, FailureKind, Scene
from gristmill.bench.faults.watched import executions
from gristmill.bench.plugins import make

#: The name under which it is found: it is not its own base.
_NAME = "failures"


class Tally(NamedTuple):
    """What an application came to, and how many of its tasks did what."""

    #: The application's result, where it came to that.
    result: Any
    #: What it raised otherwise.
    error: BaseException | None
    #: Tasks that were to fail, and of these those of which a result came all the same.
    injected: int
    recovered: int
    #: Tasks that were not to fail, and of these those without their result.
    others: int
    lost: int
    #: How often tasks were begun.
    executions: int


class Failures(App):
    """Any application, whose tasks fail: raise, never end, or kill what they run on."""

    run_timeout: ClassVar[float | None] = 600.0

    base: str
    #: Fields of that application.
    config: dict[str, Any] = Field(default_factory=dict)
    type: FailureKind | Literal["random"] = "failure"
    #: The share of the tasks that fail.
    rate: Annotated[float, Field(gt=0, le=1)] = 0.1
    seed: int = 1
    #: How many executions of such a task fail.
    attempts: Annotated[int, Field(ge=1)] | Literal["all"] = 1
    #: Seconds that an executor is told to give each task, where a task never ends.
    timeout_s: Annotated[float, Field(gt=0)] = 2.0
    #: Bytes that a task takes until there is no more memory for it.
    memory_size: Annotated[int, Field(ge=1 << 20)] = 256 << 20

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """With all fields of the base, so that they are written down."""
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
        """Some kinds of failure kill others."""
        return not HARMFUL.isdisjoint(kinds_of(self.type)) or self._base().is_harmful()

    def task_timeout(self) -> float | None:
        """Set where tasks never end."""
        return self.timeout_s if "timeout" in kinds_of(self.type) else self._base().task_timeout()

    def _base(self) -> App:
        return cast(App, make("app", self.base, self.config))

    def prepare(self, folder: Path) -> App:
        """The base, with what it starts from."""
        base = self._base()
        base.inputs(folder)
        return base

    def run(self, engine: Engine, folder: Path) -> Tally:
        """Runs the base until it ends, waits for all of its tasks, and tries whether the executor still works."""
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
            # No task has failed: it is the application that cannot be run.
            raise error
        injector.notes.course(error, _probe(engine))
        return _tally(injector, result, error, folder)

    def check(self, result: Tally) -> str:
        """What has become of the tasks; if the base came to its result, that is right."""
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
        """How many tasks there were of each sort, and how often they were begun."""
        return {
            "injected_tasks": result.injected,
            "recovered_tasks": result.recovered,
            "lost_tasks": result.lost,
            "begun_tasks": result.executions,
        }


def _is_run() -> bool:
    """Whether this process is that of a run: it does nothing else."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == "gristmill.bench.child"


def _probe(engine: Engine) -> BaseException | None:
    """What becomes of one more task."""
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
