"""An executor at the top of a module: the tasks that use it run on the executor that runs them, not on one of their own."""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

import pytest

import gristmill

#: The parents of the workers of all tasks of a small tree. The workers of one engine have one parent.
TREE = """
import os

import gristmill


def parents(depth):
    if not depth:
        return {os.getppid()}
    halves = [get().submit(parents, depth - 1) for _ in range(2)]
    return {os.getppid()}.union(*(half.result() for half in halves))


def get():
    return executor
"""

Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Returns a function that writes and imports a module; its executors are shut down at the end."""
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded: list[ModuleType] = []
    numbers = itertools.count()

    def load(*texts: str) -> ModuleType:
        name = f"pooled{next(numbers)}"
        text = "".join(textwrap.dedent(one) for one in texts)
        (tmp_path / f"{name}.py").write_text(text.replace("NAME", repr(name)))
        loaded.append(importlib.import_module(name))
        return loaded[-1]

    yield load
    for module in loaded:
        module.get().shutdown()
        del sys.modules[module.__name__]


@pytest.mark.parametrize(
    "options",
    [
        "2",
        "2, start='spawn'",
        "2, preload=[NAME]",
        "1, nodes=gristmill.on.local(1)",
    ],
)
def test_tasks_of_an_executor_at_the_top_of_a_module_start_no_other(
    load: Load, options: str
) -> None:
    pooled = load(TREE, f"executor = gristmill.Executor({options})\n")
    assert len(pooled.executor.submit(pooled.parents, 3).result()) == 1


@pytest.mark.parametrize(
    "made",
    [
        # An executor that is made when it is first needed.
        """
        import functools

        @functools.cache
        def get():
            return gristmill.Executor(2)
        """,
        # A subclass, made by a function.
        """
        class Own(gristmill.Executor):
            def __init__(self, size):
                super().__init__(size)
                self.size = size

        def make():
            return Own(2)

        executor = make()
        """,
        # The second of two that one line makes.
        """
        executors = [gristmill.Executor(2) for _ in range(2)]
        executor = executors[1]
        """,
        # In the body of a class.
        """
        class Pool:
            executor = gristmill.Executor(2)

        def get():
            return Pool.executor
        """,
        "executor = gristmill.Lease(max_workers=2)\n",
    ],
    ids=["cached", "subclass", "loop", "class", "lease"],
)
def test_the_executor_is_found_however_the_module_makes_it(load: Load, made: str) -> None:
    pooled = load(TREE, made)
    assert len(pooled.get().submit(pooled.parents, 3).result()) == 1


USES = """
import gristmill

executor = gristmill.Executor(2)


def get():
    return executor


def double(number):
    return 2 * number


def use():
    with executor:
        futures = executor.submit_many(double, range(3))
    found = [future.result() for future in futures]
    found += executor.map(double, range(3, 5))
    found.append(executor.options(retries=1).submit(double, 5).result())
    return found, isinstance(executor, gristmill.Executor)


def refused():
    import threading

    caught = []

    def run():
        try:
            executor.submit(double, 1)
        except RuntimeError as error:
            caught.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return caught
"""


def test_the_executor_of_a_module_has_its_methods_in_tasks(load: Load) -> None:
    pooled = load(USES)
    for _ in range(2):
        assert pooled.executor.submit(pooled.use).result() == ([0, 2, 4, 6, 8, 10], True)
    assert pooled.double(4) == 8


def site_in(spec: ModuleSpec) -> object:
    """Runs the body of a module as its import does; returns the creation site of its executor."""
    module = module_from_spec(spec)
    spec._initializing = True  # type: ignore[attr-defined]
    exec("import gristmill\nexecutor = gristmill.Executor(2)\n", module.__dict__)
    module.executor.shutdown()
    return module.executor._site


def test_a_module_that_is_imported_anew_makes_the_same_executor() -> None:
    def spec() -> ModuleSpec:
        return ModuleSpec("pooled", None)

    first = spec()
    place, site = id(first), site_in(first)
    del first
    # The specification of the next import can be at the same address.
    specs = [spec() for _ in range(10_000)]
    found = [one for one in specs if id(one) == place] or specs[:1]
    assert [site_in(one) for one in found] == [site]


def test_another_thread_of_a_task_is_told_that_it_cannot_use_it(load: Load) -> None:
    pooled = load(USES)
    (text,) = pooled.executor.submit(pooled.refused).result()
    assert "stands for the executor that runs the tasks of this worker" in text


def test_the_lease_of_a_module_is_not_given_back_by_a_task(load: Load) -> None:
    pooled = load(LEASED)
    executor = pooled.executor
    assert executor.submit(pooled.use).result() == 9
    assert executor.submit(pooled.double, 2).result() == 4
    for name in ("stats", "nodes", "explain", "ends_in", "extend", "use"):
        assert executor.submit(pooled.refused, name).result().startswith(f"{name} is for the")
    assert executor.use().workers_s > 0


LEASED = """
import gristmill

executor = gristmill.Lease(max_workers=2)


def get():
    return executor


def double(number):
    return 2 * number


def refused(name):
    try:
        return str(getattr(executor, name)(1))
    except RuntimeError as error:
        return str(error)


def use():
    executor.wait(5)
    with executor:
        found = executor.submit(double, 4).result()
    executor.release()
    return found + executor.submit(abs, -1).result()
"""


def test_a_module_that_is_run_by_its_name_starts_one_engine(tmp_path: Path) -> None:
    package = tmp_path / "jobs"
    package.mkdir()
    (package / "__init__.py").touch()
    main = """
    if __name__ == "__main__":
        from jobs import stage

        print(len(executor.submit(stage.run).result()))
        executor.shutdown()
    """
    (package / "pool.py").write_text(
        TREE + "executor = gristmill.Executor(2)\n" + textwrap.dedent(main)
    )
    # The worker imports the module that the program runs, under its own name.
    (package / "stage.py").write_text(
        "def run():\n    from jobs import pool\n\n    return pool.parents(2)\n"
    )
    command = [sys.executable, "-W", "error", "-m", "jobs.pool"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def refused_engine() -> tuple[str, int]:
    """Makes an executor in a task where warnings are errors; then uses it, and another."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gristmill.Executor(1) as executor:
            try:
                executor.submit(abs, -1)
            except RuntimeWarning as warning:
                said = str(warning)
            return said, executor.submit(abs, -2).result()


def test_a_warning_that_is_an_error_is_raised_once_and_breaks_nothing() -> None:
    with gristmill.Executor(1) as executor:
        said, found = executor.submit(refused_engine).result()
        assert executor.submit(abs, -3).result() == 3
    assert found == 2
    assert "an executor made in a task" in said


def own_engine() -> tuple[int, list[str], list[int]]:
    """Makes two executors in a task; returns the size of one by default, the warnings, and the results."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = []
        for number in (1, 2):
            with gristmill.Executor() as executor:
                found.append(executor.submit(abs, -number).result())
        return executor._max_workers, [str(one.message) for one in caught], found


def test_an_executor_that_a_task_makes_warns_once_and_has_the_cores_of_the_task() -> None:
    with gristmill.Executor(2, threads_per_worker=1) as executor:
        size, (text,), found = executor.submit(own_engine).result()
    assert (size, found) == (1, [1, 2])
    assert f"an executor made in a task, at {__file__}:" in text
    assert "current_executor" in text


#: A module whose kernel a program loads, and whose app imports the module in a worker.
KERNEL = """
from gristmill import parsl

executor = parsl.HighThroughputExecutor(label="own")
kernel = parsl.load(parsl.Config(executors=[executor]))


@parsl.python_app
def process():
    import os

    return os.getpid()


@parsl.python_app
def nested(name):
    import importlib
    import os
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = importlib.import_module(name)
        found = module.process().result()
    return os.getpid(), found, module.executor.max_workers, [str(one.message) for one in caught]
"""


def test_a_kernel_at_the_top_of_a_module_warns_in_a_worker_that_imports_it(tmp_path: Path) -> None:
    (tmp_path / "topped.py").write_text(KERNEL)
    program = "import topped\nprint(topped.nested('topped').result())\n"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outer, inner, workers, warned = eval(done.stdout)
    assert outer != inner, "a kernel of its own"
    assert workers == 1, "the share of its worker"
    (text,) = warned
    assert f"an executor made in a task, at {tmp_path / 'topped.py'}:5, starts 1 worker" in text
