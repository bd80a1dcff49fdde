"""Modules that a worker loads for a task count as part of it: for its end, time and budgets. The error names the
module.
"""

from __future__ import annotations

import importlib
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gristmill
from gristmill import Executor, TaskTimeoutError, WorkerLostError, on

import calls
from stage import Gate

MakeExecutor = Callable[..., Executor]
MakeModule = Callable[..., ModuleType]

IN_A_WORKER = "import os, time\nif 'GRISTMILL_WORKER' in os.environ:\n"
KILLS = IN_A_WORKER + "    os.kill(os.getpid(), 9)\n"
LEAVES = IN_A_WORKER + "    os._exit(3)\n"
HANGS = IN_A_WORKER + "    time.sleep(600)\n"
HANGS_DEAF = (
    IN_A_WORKER
    + """
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass
"""
)
CALL = "def call(*args):\n    return args\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeModule]:
    """Makes modules and imports them here; workers import them again."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def make(name: str, text: str, **words: object) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text).format(folder=tmp_path, **words))
        made.append(name)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make
    for name in made:
        sys.modules.pop(name, None)


def tried(folder: Path, times: int) -> str:
    """Returns the text of a module that fails ``times`` times in workers, and notes each try in a file."""
    return (
        IN_A_WORKER
        + f"""
    with open({str(folder / "tries")!r}, "a+") as tries:
        tries.write("x")
        tries.seek(0)
        if len(tries.read()) <= {times}:
            raise OSError(116, "Stale file handle")
"""
        + CALL
    )


class Argument:
    """An argument that imports a module when it is unpickled."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self.name,)


@pytest.mark.parametrize(("text", "said"), [(KILLS, "signal 9"), (LEAVES, "code 3")])
def test_an_import_that_ends_the_worker_costs_its_task_and_names_the_module(
    make_executor: MakeExecutor, module: MakeModule, text: str, said: str
) -> None:
    deadly = module("deadly_import", text + CALL)
    executor = make_executor(1)
    with pytest.raises(WorkerLostError, match=said) as caught:
        executor.submit(deadly.call, 1).result()
    assert "while importing module deadly_import to load deadly_import.call" in str(caught.value)
    assert executor.stats().workers_lost == 1
    assert executor.submit(calls.same, 1).result() == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [(KILLS, WorkerLostError), (HANGS, TaskTimeoutError), (HANGS_DEAF, TaskTimeoutError)],
)
def test_an_import_that_ends_or_hangs_on_a_node_costs_its_task_and_names_the_module(
    make_executor: MakeExecutor, module: MakeModule, text: str, kind: type[Exception]
) -> None:
    deadly = module("deadly_there", text + CALL)
    executor = make_executor(1, nodes=on.local(1, 1))
    assert executor.submit(calls.same, 1).result() == 1
    timeout = 0.3 if kind is TaskTimeoutError else None
    with pytest.raises(kind, match="while importing module deadly_there to load deadly_there"):
        executor.options(timeout=timeout, grace=0.3).submit(deadly.call, 1).result()
    assert executor.submit(calls.same, 2).result() == 2


def test_the_module_that_is_imported_by_another_is_named(
    make_executor: MakeExecutor, module: MakeModule
) -> None:
    module("deadly_inner", KILLS)
    outer = module("harmless_outer", "import deadly_inner\n" + CALL)
    with pytest.raises(WorkerLostError, match="importing module harmless_outer") as caught:
        make_executor(1).submit(outer.call).result()
    assert "whose last import was deadly_inner" in str(caught.value)


def test_a_function_by_value_that_imports_a_deadly_module(
    make_executor: MakeExecutor, module: MakeModule
) -> None:
    deadly = module("deadly_global", KILLS + CALL)
    with pytest.raises(
        WorkerLostError, match="importing module deadly_global to load a function sent"
    ):
        make_executor(1).submit(lambda: deadly.call()).result()


def test_an_argument_that_imports_a_deadly_module(
    make_executor: MakeExecutor, module: MakeModule
) -> None:
    module("deadly_argument", KILLS)
    executor = make_executor(1)
    with pytest.raises(
        WorkerLostError, match="importing module deadly_argument to read an argument"
    ):
        executor.submit(calls.same, Argument("deadly_argument")).result()
    assert executor.submit(calls.same, [1]).result() == [1]


def test_deaths_while_loading_are_charged_to_loss_retries(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path
) -> None:
    text = tried(tmp_path, 1).replace('raise OSError(116, "Stale file handle")', "os._exit(3)")
    once = module("deadly_once", text)
    executor = make_executor(1)
    assert executor.options(loss_retries=1).submit(once.call, 1).result() == (1,)
    assert len((tmp_path / "tries").read_text()) == 2


@pytest.mark.parametrize("text", [HANGS, HANGS_DEAF])
def test_a_timeout_counts_while_the_function_is_imported(
    make_executor: MakeExecutor, module: MakeModule, text: str
) -> None:
    hanging = module("hanging_import", text + CALL)
    executor = make_executor(1)
    with pytest.raises(TaskTimeoutError, match="importing module hanging_import to load") as caught:
        executor.options(timeout=0.3, grace=0.3).submit(hanging.call).result()
    assert "ran longer than its timeout and was stopped while" in str(caught.value)
    assert executor.submit(calls.same, 1).result() == 1


def test_a_timeout_counts_while_an_argument_is_read(
    make_executor: MakeExecutor, module: MakeModule
) -> None:
    module("hanging_argument", HANGS)
    executor = make_executor(1)
    future = executor.options(timeout=0.3).submit(calls.same, Argument("hanging_argument"))
    with pytest.raises(
        TaskTimeoutError, match="importing module hanging_argument to read an argument"
    ):
        future.result()


def test_timeout_retries_load_the_function_again(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path
) -> None:
    text = tried(tmp_path, 1).replace('raise OSError(116, "Stale file handle")', "time.sleep(600)")
    once = module("hanging_once", text)
    executor = make_executor(1)
    assert executor.options(timeout=1, timeout_retries=1).submit(once.call, 1).result() == (1,)


def test_a_task_is_cancelled_while_its_function_is_imported(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path
) -> None:
    hanging = module("hanging_cancelled", HANGS + CALL)
    executor = make_executor(1)
    future = executor.submit(hanging.call)
    while "importing module hanging_cancelled to load" not in executor.explain(future):
        executor.stats()
    assert future.cancel(running=True)  # type: ignore[attr-defined]
    with pytest.raises(CancelledError):
        future.result()
    assert executor.submit(calls.same, 1).result() == 1


def test_a_failed_import_is_tried_again_by_the_next_attempt_and_task(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path
) -> None:
    flaky = module("flaky_import", tried(tmp_path, 3))
    executor = make_executor(1)
    with pytest.raises(OSError, match="Stale file handle") as caught:
        executor.submit(flaky.call).result()
    notes = caught.value.__notes__
    assert notes == ["raised while importing module flaky_import to load flaky_import.call"]
    assert executor.options(retries=3).submit(flaky.call, 1).result() == (1,)
    assert executor.submit(flaky.call, 2).result() == (2,)
    assert len((tmp_path / "tries").read_text()) == 4, "a function that is loaded stays so"


def test_a_module_that_appears_later_is_found(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path, gate: Gate
) -> None:
    late = module("late_module", CALL)
    source = tmp_path / "late_module.py"
    text = source.read_text()
    executor = make_executor(1)
    held = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    early = executor.submit(late.call)
    source.unlink()
    gate.open()
    with pytest.raises(ModuleNotFoundError, match="late_module"):
        early.result()
    held.result()
    source.write_text(text)
    assert executor.submit(late.call, 1).result() == (1,)


def test_a_failed_load_of_a_function_by_value_is_tried_again(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path
) -> None:
    flaky = module("flaky_global", tried(tmp_path, 1))

    def by_value(item: int) -> Any:
        return flaky.call(item)

    executor = make_executor(1)
    with pytest.raises(OSError, match="Stale file handle") as caught:
        executor.submit(by_value, 1).result()
    assert "importing module flaky_global to load a function" in caught.value.__notes__[0]
    assert executor.submit(by_value, 1).result() == (1,)


def test_of_a_batch_only_the_call_that_loads_is_charged(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path
) -> None:
    flaky = module("flaky_batch", tried(tmp_path, 1))
    executor = make_executor(1)
    futures = [executor.submit(flaky.call, number) for number in range(200)]
    failed = [number for number, one in enumerate(futures) if one.exception() is not None]
    assert len(failed) == 1
    results = executor.map(flaky.call, range(200))
    assert [one for (one,) in results] == list(range(200))


def test_a_death_while_a_map_loads_its_function_costs_one_call(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path
) -> None:
    text = tried(tmp_path, 1).replace('raise OSError(116, "Stale file handle")', "os._exit(3)")
    once = module("deadly_batch", text)
    executor = make_executor(1)
    assert list(executor.map(calls.same, range(2_000))) == list(range(2_000))
    with pytest.raises(WorkerLostError, match="importing module deadly_batch"):
        list(executor.map(once.call, range(500)))
    assert executor.stats().workers_lost == 1
    assert executor.submit(once.call, 1).result() == (1,)


def test_a_child_s_load_is_the_child_s(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path
) -> None:
    module("flaky_child", tried(tmp_path, 1))
    executor = make_executor(2)
    assert executor.submit(ends_of_children, "flaky_child").result() == ["OSError", "NoneType"]


def ends_of_children(name: str) -> list[str]:
    """Returns the types of the errors of children whose arguments import a module."""
    children = gristmill.current_executor()
    ends = [children.submit(calls.pid, Argument(name)).exception() for _ in range(2)]
    return [type(end).__name__ for end in ends]


def test_loading_does_not_count_as_the_function_s_own_time(
    make_executor: MakeExecutor, module: MakeModule
) -> None:
    slow = module("slow_import", IN_A_WORKER + "    time.sleep(0.5)\n" + CALL)
    future = make_executor(1).submit(slow.call)
    future.result()
    timings = future.timings()  # type: ignore[attr-defined]
    if timings.started is not None:
        assert timings.ended - timings.started < 250_000_000 < timings.started - timings.claimed


def test_an_edited_module_is_reloaded_within_the_task(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path
) -> None:
    first = module("edited_module", "def call():\n    return 1\n")
    executor = make_executor(1)
    assert executor.submit(first.call).result() == 1
    (tmp_path / "edited_module.py").write_text(KILLS + "def call():\n    return 1 + 1\n")
    importlib.reload(first)
    with pytest.raises(
        WorkerLostError, match="importing module edited_module to load edited_module"
    ):
        executor.submit(first.call).result()


def test_a_pickle_that_kills_its_reader_costs_its_own_task(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    held = Deadly()
    with pytest.raises(WorkerLostError, match="code 4"):
        executor.submit(calls.same, held).result()
    with pytest.raises(WorkerLostError, match="code 4"):
        executor.submit(lambda: held).result()
    assert executor.submit(calls.same, 1).result() == 1


class Deadly:
    """An object that ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:

        return os._exit, (4,)


#: The end of a module that behaves as an extension module whose import of another module is interrupted: it raises its
#: own error, and no later import in that process succeeds.
ONCE = (
    IN_A_WORKER
    + """
    import sys
    if hasattr(sys, "_begun_once"):
        raise ImportError("cannot be loaded more than once in a process")
    sys._begun_once = True
    if not os.path.exists({there!r}):
        open({there!r}, "w").close()
        try:
            time.sleep(600)
        except BaseException:
            raise ImportError("could not import another") from None
"""
)


def import_in_the_body(name: str) -> str:
    return importlib.import_module(name).__name__


@pytest.mark.parametrize("nodes", [None, 1])
def test_a_timeout_amid_an_import_is_a_timeout_and_costs_no_later_task(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path, nodes: int | None
) -> None:
    once = module("loaded_once", ONCE + CALL, there=str(tmp_path / "there"))
    executor = make_executor(1, nodes=nodes and on.local(nodes, 1))
    assert executor.submit(calls.same, 1).result() == 1
    with pytest.raises(TaskTimeoutError, match="while importing module loaded_once"):
        executor.options(timeout=1, grace=600).submit(once.call, 1).result()
    assert executor.submit(once.call, 2).result() == (2,)


@pytest.mark.parametrize("nodes", [None, 1])
def test_a_task_that_is_stopped_amid_an_import_costs_no_later_task(
    make_executor: MakeExecutor, module: MakeModule, tmp_path: Path, nodes: int | None
) -> None:
    there = tmp_path / "there"
    module("imported_once", ONCE, there=str(there))
    executor = make_executor(1, nodes=nodes and on.local(nodes, 1))
    stopped = executor.submit(import_in_the_body, "imported_once")
    later = [executor.submit(import_in_the_body, "imported_once") for _ in range(3)]
    while not there.exists():
        time.sleep(0.001)
    assert stopped.cancel(running=True, grace=600)
    with pytest.raises(CancelledError):
        stopped.result()
    assert [one.result() for one in later] == ["imported_once"] * 3


def test_an_import_error_that_a_task_answers_a_timeout_with_is_its_own(
    make_executor: MakeExecutor,
) -> None:
    executor = make_executor(1)
    # This module is loaded before the task.
    executor.submit(import_in_the_body, "os").result()
    with pytest.raises(ImportError, match="of the task"):
        executor.options(timeout=0.1, grace=600).submit(answer_with_an_import_error).result()


def answer_with_an_import_error() -> None:
    try:
        time.sleep(600)
    except BaseException:
        raise ImportError("of the task") from None
