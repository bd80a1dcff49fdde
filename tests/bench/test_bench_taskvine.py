"""TaskVine: one thread drives its manager. Where it is installed, its workers run the suite's applications."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from pydantic import ValidationError

from gristmill._cli import main
from gristmill_bench import Engine
from gristmill_bench.errors import BenchError
from gristmill_bench.executors import taskvine
from gristmill_bench.executors.taskvine import TaskVine
from gristmill_bench.executors.vine import Held

#: A library is set up in each worker, and again in the worker that replaces a dead one.
WAYS = ["tasks", "fork", "direct"]


def half(number: int) -> float:
    return 1 / number


def tools(log: str, factor: int) -> dict[str, int]:
    """Sets up the tools, and appends a line to the log."""
    with open(log, "a") as lines:
        print(os.getpid(), file=lines)
    return {"factor": factor}


def scaled(held: dict[str, int], number: int) -> int:
    return held["factor"] * number


def broken() -> None:
    raise OSError("no such model")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def never_end() -> None:
    while True:
        signal.pause()


class Task:
    """A task, or a call of a library, that runs when its manager waits."""

    result = "success"
    exit_code = 0

    def __init__(self, function: Any, *args: Any) -> None:
        self.id = 0
        self._call = function, args
        self.retries: int | None = None

    def set_retries(self, retries: int) -> None:
        self.retries = retries

    @property
    def output(self) -> Any:
        function, args = self._call
        return function(*args)


class Vine:
    """A stand-in for the parts of TaskVine's manager and factory that are used, as its sources have them."""

    def __init__(self, **chosen: Any) -> None:
        self.chosen = chosen
        self.owner = threading.get_ident()
        self.tasks: list[Task] = []
        self.libraries: dict[str, Any] = {}
        self.count = 0
        self.is_broken = False
        self.is_slow = False
        self.stats = types.SimpleNamespace(workers_connected=0)
        os.environ["TCP_LOW_PORT"] = os.environ["TCP_HIGH_PORT"] = "9123"
        made.append(self)

    def __enter__(self) -> Vine:
        return self

    def __exit__(self, *_error: object) -> None:
        self.chosen["freed"] = True

    def submit(self, task: Task) -> None:
        assert threading.get_ident() == self.owner, "a manager belongs to one thread"
        self.count += 1
        task.id = self.count
        self.tasks.append(task)

    def wait(self, seconds: int) -> Task | None:
        assert threading.get_ident() == self.owner, "a manager belongs to one thread"
        if self.is_broken:
            raise OSError("its port is gone")
        self.stats.workers_connected += 1
        return self.tasks.pop() if self.tasks and not self.is_slow else None

    def create_library_from_functions(self, name: str, *functions: Any, **chosen: Any) -> Any:
        context = chosen["library_context_info"]
        if context is not None:
            set_up, args, kwargs = context
            set_up(*args, **kwargs)
        self.libraries[name] = {one.__name__: one for one in functions}
        return types.SimpleNamespace(set_cores=id, set_function_slots=id)

    def workers_shutdown(self, count: int) -> None:
        assert not self.chosen["stopped"], "no later call would start the workers' end"
        assert count == 0

    def install_library(self, library: Any) -> None:
        assert threading.get_ident() == self.owner, "a manager belongs to one thread"


class Factory:
    min_workers = max_workers = 0

    def __init__(self, manager: Vine, **chosen: Any) -> None:
        assert not {"TCP_LOW_PORT", "TCP_HIGH_PORT"} & set(os.environ), "for its workers"
        self._manager = manager
        manager.chosen["factory"] = self

    def __enter__(self) -> None:
        self._manager.chosen["stopped"] = False
        self._manager.chosen["workers"] = (self.min_workers, self.max_workers)

    def __exit__(self, *_error: object) -> None:
        self._manager.chosen["stopped"] = True


def function_call(library: str, name: str, *args: Any) -> Task:
    return Task(made[-1].libraries[library][name], *args)


made: list[Vine] = []


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Puts a stand-in in the place of TaskVine; returns its module."""
    vine = types.ModuleType("ndcctools.taskvine")
    for name, one in [
        ("Manager", Vine),
        ("Factory", Factory),
        ("PythonTask", Task),
        ("FunctionCall", function_call),
    ]:
        setattr(vine, name, one)
    monkeypatch.setitem(sys.modules, "ndcctools", types.ModuleType("ndcctools"))
    monkeypatch.setitem(sys.modules, "ndcctools.taskvine", vine)
    # The executor changes these variables.
    for variable in ("PATH", "TCP_LOW_PORT", "TCP_HIGH_PORT"):
        monkeypatch.setenv(variable, os.environ.get(variable, ""))
    return vine


@pytest.mark.parametrize("calls", WAYS)
def test_one_thread_drives_it_and_its_futures_are_as_others(
    calls: Any, stand_in: types.ModuleType
) -> None:
    backend = TaskVine(workers=3, calls=calls).open()
    one = backend.submit(half, 2)
    told: SimpleQueue[Any] = SimpleQueue()
    backend.submit(half, one).add_done_callback(told.put)
    failed = backend.submit(half, 0)
    assert told.get(timeout=30).result() == 2
    assert isinstance(failed.exception(30), ZeroDivisionError)
    backend.shutdown()
    chosen = made[-1].chosen
    assert chosen["workers"] == (3, 3)
    assert chosen["factory"].cores == 1
    assert chosen["stopped"]
    assert chosen["freed"]
    assert not Path(chosen["run_info_path"]).exists(), "its logs"


def test_what_breaks_fails_all_tasks_and_those_that_come_later(stand_in: types.ModuleType) -> None:
    backend = TaskVine().open()
    made[-1].is_broken = True
    for _ in range(2):
        assert isinstance(backend.submit(half, 1).exception(30), OSError)
    backend.shutdown()
    assert made[-1].chosen["stopped"]


def test_what_has_not_ended_when_a_run_has_failed_is_cancelled(stand_in: types.ModuleType) -> None:
    backend = TaskVine().open()
    made[-1].is_slow = True
    one = backend.submit(half, 1)
    other = backend.submit(half, one)
    backend.shutdown()
    assert isinstance(one.exception(30), CancelledError)
    assert isinstance(other.exception(30), CancelledError)


def test_without_its_factory_it_fails_at_once(stand_in: types.ModuleType) -> None:
    def refuse(**_chosen: Any) -> None:
        raise OSError("Command not found: vine_worker")

    stand_in.Factory = refuse  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="vine_worker"):
        TaskVine().open()


def test_it_is_opened_when_its_workers_are_there(
    stand_in: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    TaskVine(workers=3).open().shutdown()
    assert made[-1].stats.workers_connected >= 3
    monkeypatch.setattr(taskvine, "_START_MAX_S", -1)
    with pytest.raises(BenchError, match="0 of 3 workers"):
        TaskVine(workers=3).open()
    assert made[-1].chosen["stopped"]


def test_a_library_that_cannot_be_made_fails_at_once_and_leaves_no_workers(
    stand_in: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_functions: Any, **_chosen: Any) -> None:
        raise ModuleNotFoundError("No module named 'conda_pack'")

    monkeypatch.setattr(Vine, "create_library_from_functions", refuse)
    with pytest.raises(ModuleNotFoundError, match="conda_pack"):
        TaskVine(calls="direct").open()
    assert made[-1].chosen["stopped"]


def test_what_a_task_gives_that_did_not_end_well_says_how_it_ended(
    stand_in: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Task, "result", "max retries")
    monkeypatch.setattr(Task, "exit_code", 137)
    monkeypatch.setattr(Task, "output", ValueError("no result"))
    backend = TaskVine(loss_retries=2).open()
    with pytest.raises(RuntimeError, match="max retries, exit code 137"):
        backend.submit(half, 1).result(30)
    backend.shutdown()


def test_a_result_that_cannot_be_read_fails_its_task_alone(stand_in: types.ModuleType) -> None:
    class Unread(Task):
        @property
        def output(self) -> Any:
            raise UnboundLocalError("as of a file that is gone")

    backend = TaskVine().open()
    stand_in.PythonTask = Unread  # type: ignore[attr-defined]
    assert isinstance(backend.submit(half, 1).exception(30), UnboundLocalError)
    stand_in.PythonTask = Task  # type: ignore[attr-defined]
    assert backend.submit(half, 2).result(30) == 0.5
    backend.shutdown()


@pytest.mark.parametrize("calls", ["fork", "direct"])
def test_a_setup_that_raises_fails_the_calls_that_need_it(
    calls: Any, stand_in: types.ModuleType
) -> None:
    backend = TaskVine(calls=calls).open()
    inside = Engine(backend).within(broken)
    with pytest.raises(OSError, match="no such model"):
        inside.submit(scaled, 1).result(30)
    assert Engine(backend).submit(half, 2).result(30) == 0.5
    backend.shutdown()


def test_limits_of_calls_of_a_library_are_refused() -> None:
    with pytest.raises(ValidationError, match="calls, or task_timeout"):
        TaskVine(calls="direct", task_timeout=1)


def test_what_a_library_keeps_is_found_by_its_name() -> None:
    held = Held()
    held.keep(tools, (os.devnull, 3))
    function, args = held.__reduce__()
    assert function(*args)() == {"factor": 3}


@pytest.fixture(params=WAYS)
def real(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns the real TaskVine in a folder of its own, where it leaves its logs."""
    missing = TaskVine.missing()
    if missing is not None:
        pytest.skip(missing)
    monkeypatch.chdir(tmp_path)
    for variable in ("PATH", "TCP_LOW_PORT", "TCP_HIGH_PORT"):
        monkeypatch.setenv(variable, os.environ.get(variable, ""))
    # Its workers import functions that are sent by name.
    here = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", here.rstrip(os.pathsep))
    return TaskVine(calls=request.param)


@pytest.fixture
def backend(real: TaskVine) -> Iterator[Any]:
    opened = real.open()
    yield opened
    opened.shutdown()


@pytest.mark.slow
def test_it_runs_what_we_run(
    real: TaskVine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diamond = ["synthetic", "--app.structure", "diamond", "--app.tasks", "6"]
    for app in (["fib", "--app.n", "4"], diamond):
        words = ["bench", "run", "--executor", "taskvine", "--executor.calls", real.calls]
        assert main([*words, "--run.folder", str(tmp_path), "--app", *app]) == 0
        folder = Path(capsys.readouterr().out.splitlines()[-1])
        tasks = json.loads((folder / "summary.json").read_text())["tasks"]
        notes = [json.loads(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]
        assert len(notes) == tasks
        assert all(note["success"] for note in notes)


@pytest.mark.slow
def test_libraries_set_up_once_in_each_worker(real: TaskVine, backend: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    inside = Engine(backend).within(tools, str(log), 3)
    assert list(inside.map(scaled, range(6))) == [0, 3, 6, 9, 12, 15]
    setups = log.read_text().split()
    assert len(setups) == 6 if real.calls == "tasks" else len(setups) <= real.workers


@pytest.mark.slow
def test_a_call_that_kills_its_process_fails_and_others_go_on(real: TaskVine, backend: Any) -> None:
    if real.calls == "direct":
        pytest.skip("its library is what is killed, and TaskVine runs the call again without end")
    with pytest.raises(RuntimeError, match="TaskVine"):
        backend.submit(die).result(60)
    assert backend.submit(half, 2).result(60) == 0.5


@pytest.mark.slow
def test_a_task_is_ended_in_its_time(real: TaskVine) -> None:
    if real.calls != "tasks":
        pytest.skip("TaskVine ends tasks, and no calls of a library")
    backend = real.model_copy(update={"task_timeout": 1.0}).open()
    with pytest.raises(RuntimeError, match="max wall time"):
        backend.submit(never_end).result(60)
    backend.shutdown()
