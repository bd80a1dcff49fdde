"""The surface fuzzer's batches of the Parsl front: kernels, apps, their futures, files, and configurations."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

from surface_errors import raise_odd

from surface_judge import RESULT_S, Trouble, judge
from surface_values import Dies, coroutine, fail, leave, same, stop
from surface_world import Kinds, World, options_of

#: Arguments of a call that have a meaning for the kernel.
SPECIAL = ["inputs", "outputs", "stdout", "stderr", "walltime", "parsl_resource_specification"]
#: Keys of a resource specification, known and unknown ones.
DEMANDS = ["priority", "walltime", "cores", "gpus", "memory", "context", "x"]


def line(command: Any = "true", *_more: Any, **_named: Any) -> Any:
    """Returns the command line of a bash app."""
    return command


def joined(*values: Any) -> Any:
    """Returns the values that a join app waits for."""
    return list(values)


def first(value: Any = None, *_more: Any) -> Any:
    """Returns one future, or another value, for a join app."""
    return value


class ParslWorld(World):
    """A kernel with an engine and threads, and the results of earlier calls of apps."""

    def __init__(self, seed: int) -> None:
        self.numbers = itertools.count()
        super().__init__(seed)
        parsl = self.gristmill.parsl
        functions = [same, same, fail, stop, coroutine, len]
        self.apps = [parsl.python_app(one, **self.binding()) for one in functions]
        self.apps += [parsl.python_app(same, cache=True, **self.binding())]
        self.apps += [parsl.python_app(same, **self.binding(["threads"]))]
        self.apps += [parsl.python_app(same, **self.binding("all"))]
        self.apps += [parsl.python_app(leave, **self.binding(["engine"]))]
        self.apps += [parsl.python_app(same, **self.binding(["none such"]))]
        self.odds = [
            parsl.python_app(raise_odd, **self.binding([label])) for label in ("engine", "threads")
        ]
        self.bash = parsl.bash_app(line, **self.binding())
        self.joins = [
            parsl.join_app(one, data_flow_kernel=self.executor, cache=cache)
            for one, cache in ((joined, False), (first, False), (first, True))
        ]

    def binding(self, executors: Any = ("engine",)) -> dict[str, Any]:
        """Returns the options that bind an app to the batch's kernel."""
        if executors == "all":
            return {"data_flow_kernel": self.executor}
        return {"data_flow_kernel": self.executor, "executors": list(executors)}

    def make_executor(self) -> Any:
        parsl = self.gristmill.parsl
        executors = [
            parsl.GristmillExecutor(label="engine", max_workers=2),
            parsl.ThreadPoolExecutor(label="threads"),
        ]
        draw, more = self.random.random(), {}
        if draw < 0.2:
            more = {"retries": 1, "retry_handler": lambda _error, _record: 1}
        elif draw < 0.4:
            more = {"retries": 1, "garbage_collect": False}
        elif draw < 0.5:
            more = {"task_limit": 20}
        return self.make_kernel(executors=executors, **more)

    def make_kernel(self, **terms: Any) -> Any:
        """Makes a kernel in a folder of its own, with threads if no executors are given."""
        parsl = self.gristmill.parsl
        terms = {
            "executors": [parsl.ThreadPoolExecutor(label="threads")],
            "run_dir": f"runs-{next(self.numbers)}",
            "initialize_logging": False,
        } | terms
        return parsl.DataFlowKernel(parsl.Config(**terms))

    # Calls

    def submit(self) -> None:
        app = self.pick(self.apps)
        values = [self.value() for _ in range(self.random.randrange(3))]
        named = {"name": self.value()} if self.random.random() < 0.2 else {}
        future = self.attempt(lambda: app(*values, **named))
        if future is not None:
            self.futures.append(future)

    def odd(self, seed: int) -> Any:
        return self.pick(self.odds)(seed)

    def start_bash(self) -> None:
        """Calls a bash app."""
        command = self.random.choice(("true", "exit 3", "kill -9 $$", "", None, 3, "a\0b", [1]))
        future = self.attempt(lambda: self.bash(command))
        if future is not None:
            self.futures.append(future)

    def start_join(self) -> None:
        """Calls a join app."""
        values = [self.value() for _ in range(self.random.randrange(3))]
        # The app does not see futures among its arguments: the kernel replaces them with their values.
        future = self.attempt(lambda: self.random.choice(self.joins)(*values))
        if future is not None:
            self.futures.append(future)

    def start_map(self) -> None:
        self.submit()

    def step(self) -> None:
        """Reads the state of the kernel, without waiting."""
        kernel = self.executor
        asked: list[Callable[[], Any]] = [
            lambda: len(kernel.tasks),
            lambda: list(kernel.tasks.values())[:3],
            lambda: kernel.task_count,
            lambda: kernel.task_state_counts,
            kernel.log_task_states,
            lambda: kernel.explain(self.pick(self.futures)),
            lambda: kernel.explain(3),
            lambda: repr(kernel.config) and None,
            lambda: kernel.submit(same, (), ["engine"], False, None, {}),
            lambda: kernel.submit(same, (self.value(),), "all", False, None, {}),
            lambda: kernel.labels(self.random.choice(("all", ["engine"], 3, None))),
        ]
        self.attempt(self.random.choice(asked))

    def look(self) -> None:
        future = self.pick(self.futures)
        if future is None:
            return
        asked: list[Callable[[], Any]] = [
            future.done,
            future.running,
            future.cancelled,
            future.cancel,
            lambda: future.cancel(False),
            future.task_status,
            lambda: future.tid,
            lambda: future.outputs,
            lambda: future.stdout,
            lambda: future.stderr,
            lambda: dict(future.task_record),
            lambda: repr(future) and None,
            lambda: future.result(0),
            lambda: future.exception(0),
            lambda: future.add_done_callback(self.callback()),
            lambda: setattr(future, "itself", (future, Dies(self))),
            lambda: hasattr(future, "__len__"),
            lambda: self.part(future),
        ]
        self.attempt(self.random.choice(asked))

    def part(self, future: Any) -> None:
        """Takes a part of a future's value; the type of the value decides what this raises."""
        part = (
            future[self.random.choice((0, "a", None))]
            if self.random.random() < 0.5
            else future.real
        )
        with contextlib.suppress(TimeoutError, CancelledError, Exception):
            part.result(0)

    def wait(self) -> None:
        future = self.pick(self.futures)
        if future is None:
            return
        began = time.monotonic()
        try:
            self.random.choice((future.result, future.exception))(RESULT_S)
        except TimeoutError:
            if time.monotonic() - began >= RESULT_S:
                raise Trouble(f"a task has not ended: {self.executor.explain(future)}") from None
        except (SystemExit, KeyboardInterrupt, StopIteration):
            pass
        except BaseException as error:
            judge(error, None)

    def special(self) -> None:
        """Passes a forbidden value for an argument that has a meaning for the kernel."""
        app = self.random.choice((self.bash, self.bash, self.pick(self.apps[:2]), self.apps[7]))
        self.give_special(app, self.random.choice(SPECIAL), self.option_value())

    def specification(self) -> None:
        """Passes a resource specification with a forbidden value."""
        app = self.pick([self.apps[0], self.apps[7]])
        self.give_demand(app, self.random.choice(DEMANDS), self.option_value())

    def trials(self) -> Iterator[tuple[str, Callable[[Any], Any]]]:
        """Goes through all options, special arguments and keys of resource specifications."""
        yield from super().trials()
        for app in (self.bash, self.apps[0], self.apps[7]):
            for option in SPECIAL:
                yield option, partial(self.give_special, app, option)
        for app in (self.apps[0], self.apps[7]):
            for key in DEMANDS:
                yield key, partial(self.give_demand, app, key)

    def give_special(self, app: Any, option: str, value: Any) -> None:
        """Passes a value for an argument of an app."""
        self.watch_special(lambda: app(**{option: value}), option)

    def give_demand(self, app: Any, key: str, value: Any) -> None:
        """Passes a value for a key of a resource specification."""
        self.watch_special(lambda: app(parsl_resource_specification={key: value}), key)

    def watch_special(self, call: Callable[[], Any], option: str) -> None:
        """Makes a call that may be refused at once or by its future; the error names the argument."""
        future = self.attempt(call, option)
        if future is None:
            return
        try:
            future.result(RESULT_S)
        except TimeoutError as error:
            if not isinstance(error, self.gristmill.GristmillError):
                raise Trouble(f"{option}: a task has not ended") from error
        except BaseException as error:
            judge(error, option)

    def files(self) -> None:
        """Calls apps with arbitrary values as files."""
        urls = (
            "x",
            "file:///tmp/none",
            "http://[",
            "zip:/tmp/a.zip/b",
            "nope://h/x",
            "",
            "a\0b",
            3,
            None,
        )
        url = self.random.choice(urls)
        file = self.attempt(lambda: self.gristmill.parsl.File(url))
        if file is None or str(url).startswith(("zip", "http")):
            return
        name = self.random.choice(("inputs", "outputs"))
        future = self.attempt(lambda: self.pick([self.bash, self.apps[0]])(**{name: [file]}))
        if future is not None:
            self.futures.append(future)

    def loads(self) -> None:
        """Loads and clears kernels, also in the wrong order."""
        parsl = self.gristmill.parsl
        made: list[Any] = []
        asked: list[Callable[[], Any]] = [
            lambda: made.append(parsl.load(self.small())),
            lambda: parsl.load(3),
            parsl.clear,
            lambda: parsl.dfk(),
            lambda: parsl.python_app(same)(1).result(RESULT_S),
            parsl.wait_for_current_tasks,
        ]
        for _ in range(4):
            self.attempt(self.random.choice(asked))
        for kernel in made:
            self.attempt(kernel.cleanup)
            self.attempt(kernel.cleanup)
            self.attempt(lambda kernel=kernel: kernel.submit(same, (), "all", False, None, {}))

    def small(self) -> Any:
        """Returns a configuration with threads only."""
        parsl = self.gristmill.parsl
        folder = f"runs-{next(self.numbers)}"
        threads = parsl.ThreadPoolExecutor(label="threads")
        return parsl.Config([threads], run_dir=folder, initialize_logging=False)

    def lives(self) -> None:
        """Ends a kernel that still has tasks."""
        kernel = self.make_kernel()
        apps = [
            self.gristmill.parsl.python_app(one, data_flow_kernel=kernel)
            for one in (same, fail, stop)
        ]
        futures = [self.attempt(lambda app=app: app(1)) for app in apps]
        if self.random.random() < 0.5:
            self.attempt(kernel.wait_for_current_tasks)
        self.attempt(kernel.cleanup)
        for future in futures:
            self.attempt(lambda future=future: future.result(RESULT_S))

    def kinds(self) -> Kinds:
        parsl = self.gristmill.parsl
        from gristmill.parsl._kernel.executors.substitutes import HighThroughputExecutor
        from gristmill.parsl.dataflow.memoization import BasicMemoizer

        decorators = ("python_app", "bash_app", "join_app")
        left_out = ("function", "data_flow_kernel")
        kinds: Kinds = {
            "Config": (self.short_kernel, options_of(parsl.Config)),
            "executor": (self.short_engine, options_of(parsl.GristmillExecutor)),
            "threads": (self.short_threads, options_of(parsl.ThreadPoolExecutor)),
            "memoizer": (self.short_memoizer, options_of(BasicMemoizer)),
            "hub": (
                lambda **terms: self.short_kernel(monitoring=parsl.MonitoringHub(**terms)),
                options_of(parsl.MonitoringHub, "hub_address", "hub_port_range", "hub_port"),
            ),
            "File": (lambda url: parsl.File(url), ["url"]),
        }
        for name in decorators:
            decorator = getattr(parsl, name)
            kinds[name] = (self.decorated(decorator), options_of(decorator, *left_out))
        kinds["processes"] = (self.short_processes, options_of(HighThroughputExecutor))
        return kinds

    def decorated(self, decorator: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that makes an app with an option and calls it once."""

        def call(**terms: Any) -> Any:
            app = decorator(same, data_flow_kernel=self.executor, **terms)
            future = app(1)
            # The label may be unknown, and the command line may be a number.
            with contextlib.suppress(self.gristmill.GristmillError, ValueError, TypeError):
                future.result(RESULT_S)

        return call

    def short_kernel(self, **terms: Any) -> None:
        """Makes a kernel that runs one task."""
        kernel = self.make_kernel(**terms)
        try:
            future = self.gristmill.parsl.python_app(same, data_flow_kernel=kernel)(1)
            with contextlib.suppress(self.gristmill.GristmillError):
                future.result(RESULT_S)
        finally:
            kernel.cleanup()

    def short_engine(self, **terms: Any) -> None:
        """Makes a kernel whose engine runs no task."""
        self.make_kernel(executors=[self.gristmill.parsl.GristmillExecutor(**terms)]).cleanup()

    def short_processes(self, **terms: Any) -> None:
        """Makes a kernel on the substitute for Parsl's executor of processes."""
        from gristmill.parsl._kernel.executors.substitutes import HighThroughputExecutor

        self.make_kernel(executors=[HighThroughputExecutor(**terms)]).cleanup()

    def short_threads(self, **terms: Any) -> None:
        """Makes a kernel on threads that runs one task."""
        self.short_kernel(executors=[self.gristmill.parsl.ThreadPoolExecutor(**terms)])

    def short_memoizer(self, **terms: Any) -> None:
        """Makes a kernel that remembers one task."""
        from gristmill.parsl.dataflow.memoization import BasicMemoizer

        if "checkpoint_period" in terms:
            terms["checkpoint_mode"] = "periodic"
        self.short_kernel(memoizer=BasicMemoizer(**terms))

    def end(self) -> None:
        self.is_over = True
        self.futures.clear()
        if self.apps[0](7).result(RESULT_S) != 7 or self.apps[7](8).result(RESULT_S) != 8:
            self.troubles.append(Trouble("the kernel has gone wrong"))
        self.executor.wait_for_current_tasks()
        counts = self.executor.task_state_counts
        left = sum(
            counts[state] for state in counts if state.name in ("pending", "launched", "joining")
        )
        if left:
            census, engine = self.executor._graph.census, self.executor.executors["engine"]
            parts = census.counts, census.engine_attempts, engine.stats()
            self.troubles.append(Trouble(f"tasks are counted that are not there: {parts}"))
        self.executor.cleanup()

    def calls(self) -> list[Callable[[], None]]:
        calls = [self.submit] * 6 + [self.start_bash] * 2 + [self.start_join] * 2 + [self.look] * 5
        calls += [self.wait] * 4 + [self.step] * 4 + [self.drop] * 4 + [self.options] * 5
        return [
            *calls,
            *[self.special] * 3,
            *[self.raises] * 2,
            self.specification,
            self.files,
            self.loads,
            self.lives,
        ]
