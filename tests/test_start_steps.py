"""Steps that run in a worker before its first task: an error names the module, is final where it would recur, and a
hang ends.
"""

from __future__ import annotations

import importlib
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill import (
    Context,
    ContextCalls,
    ContextError,
    ContextWorkers,
    Executor,
    StartError,
    TaskTimeoutError,
    WorkerLostError,
    on,
)
from gristmill._context.declare import with_reuse

import calls
from stage import Gate

pytestmark = pytest.mark.long

MakeExecutor = Callable[..., Executor]
MakeModule = Callable[[str, str], str]
Way = Callable[[MakeExecutor, str, str], Any]

#: Behaviours of an import, with the text of the error.
ENDS = {
    "raises": ("raise OSError(116, 'Stale file handle')", "Stale file handle"),
    "killed": ("import os\nos.kill(os.getpid(), 9)", "killed|signal 9"),
    "leaves": ("import os\nos._exit(3)", "code 3"),
    "hangs": (
        "import _thread\nlock = _thread.allocate_lock()\nlock.acquire()\nlock.acquire()",
        "in time",
    ),
}
#: Time limit of a step in these tests, seconds: only a hang exceeds it.
LIMIT_S = 1.0
#: Process starts in a row that end by themselves, or are killed, before the executor gives up.
ROUNDS = 5


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeModule:
    """Makes modules that only workers import. Each module notes its tries, and another module imports it."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, text: str) -> str:
        note = f"with open({str(tmp_path / 'tries')!r}, 'a') as tries:\n    tries.write('x')\n"
        (tmp_path / f"{name}_inner.py").write_text(note + textwrap.dedent(text))
        (tmp_path / f"{name}.py").write_text(f"import {name}_inner\n")
        importlib.invalidate_caches()
        return name

    return make


def tries(folder: Path) -> int:
    """Returns how often the modules were imported."""
    return len((folder / "tries").read_text())


def by_preload(make_executor: MakeExecutor, name: str, start: str, **options: Any) -> Any:
    return make_executor(
        1, **{"preload": [name], "start": start, "start_timeout": LIMIT_S, **options}
    )


def by_initializer(make_executor: MakeExecutor, name: str, start: str, **options: Any) -> Any:
    options = {"start": start, "start_timeout": LIMIT_S, **options}
    return make_executor(1, importlib.import_module, (name,), **options)


def by_setup(make_executor: MakeExecutor, name: str, start: str, **options: Any) -> Any:
    context = Context(
        importlib.import_module,
        name,
        name="model",
        workers=ContextWorkers(fork=start == "fork", timeout=LIMIT_S),
    )
    return make_executor(1, **options).options(context=context)


def by_preload_of_context(
    make_executor: MakeExecutor, name: str, start: str, **options: Any
) -> Any:
    context = Context(
        dict,
        name="model",
        workers=ContextWorkers(preload=[name], fork=start == "fork", timeout=LIMIT_S),
    )
    return make_executor(1, **options).options(context=context)


WAYS = [by_preload, by_initializer, by_setup, by_preload_of_context]


def failure(way: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Returns the text of the error that a task gets."""
    kind = ContextError if way in (by_setup, by_preload_of_context) else StartError
    with pytest.raises(kind) as caught:
        way(*arguments, **options).submit(calls.nothing).result()
    return str(caught.value)


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ENDS)
def test_a_failed_import_before_the_first_task_is_named(
    make_executor: MakeExecutor,
    module: MakeModule,
    tmp_path: Path,
    end: str,
    way: Callable[..., Any],
    start: str,
) -> None:
    text, said = ENDS[end]
    name = module(f"{end}_{way.__name__}_{start}", text)
    told = failure(way, make_executor, name, start)
    assert any(word in told for word in said.split("|")), told
    assert f"whose last import was {name}_inner" in told
    assert f"importing module {name}, " in told or f"by way of {name}" in told
    is_final = end in ("raises", "hangs") or (
        end == "leaves" and start == "fork" and way != by_initializer
    )
    assert tries(tmp_path) == (1 if is_final else ROUNDS)
    if end == "hangs":
        assert f"{name}_inner.py" in told, "it says where it was"


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ["raises", "killed", "hangs"])
def test_a_failed_import_before_the_first_task_on_a_node_is_named(
    make_executor: MakeExecutor, module: MakeModule, end: str, way: Callable[..., Any], start: str
) -> None:
    text, said = ENDS[end]
    name = module(f"{end}_{way.__name__}_{start}_there", text)
    told = failure(way, make_executor, name, start, nodes=on.local(1, 1))
    assert any(word in told for word in said.split("|")), told
    assert f"whose last import was {name}_inner" in told


@pytest.mark.parametrize(
    ("way", "start"), [(by_preload, "fork"), (by_preload, "spawn"), (by_initializer, "fork")]
)
def test_what_is_imported_is_told_while_it_lasts(
    make_executor: MakeExecutor,
    module: MakeModule,
    gate: Gate,
    way: Callable[..., Any],
    start: str,
) -> None:
    text = f"import os\nos.read(os.open({gate.path + '.leave'!r}, os.O_RDONLY), 1)"
    name = module(f"slow_{way.__name__}_{start}", text)
    executor = way(make_executor, name, start, start_timeout=None)
    future = executor.submit(calls.nothing)
    while f"whose last import was {name}_inner" not in (told := executor.explain(future)):
        executor.stats()
    assert "1 worker is being started, " in told
    gate.open()
    assert future.result() is None


def test_an_initializer_is_stopped_that_hangs_after_its_imports(
    make_executor: MakeExecutor, module: MakeModule
) -> None:
    name = module("harmless_start", "")

    def start(name: str) -> None:
        importlib.import_module(name)
        threading.Event().wait()

    executor = make_executor(1, start, (name,), start_timeout=LIMIT_S)
    told = r"(?s)not ready in time and was stopped while running the initializer, whose last import was .*in start"
    with pytest.raises(StartError, match=told):
        executor.submit(calls.nothing).result()


def test_the_initializer_has_its_own_limit_in_workers_of_a_context(
    make_executor: MakeExecutor, module: MakeModule
) -> None:
    name = module("hangs_beside_a_context", ENDS["hangs"][0])
    executor = by_initializer(make_executor, name, "fork")
    told = f'context "model" was not set up in time.* while running the initializer.*{name}'
    with pytest.raises(ContextError, match=told):
        executor.options(context=Context(dict, name="model")).submit(calls.nothing).result()


def test_a_child_of_an_initializer_does_not_take_back_what_its_parent_loads(
    make_executor: MakeExecutor, module: MakeModule
) -> None:
    name = module(
        "forks_then_dies",
        """
        import os
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            os.kill(os.getpid(), 9)
        import json.tool
        raise OSError("the child leaves")
        """,
    )
    for way in (by_initializer, by_preload, by_setup):
        told = failure(way, make_executor, name, "fork")
        assert f"whose last import was {name}_inner" in told


@pytest.mark.parametrize("way", ["fork", "disk"])
@pytest.mark.parametrize(
    ("end", "kind"), [("killed", WorkerLostError), ("hangs", TaskTimeoutError)]
)
def test_a_child_that_calls_names_what_it_imported_last(
    make_executor: MakeExecutor,
    module: MakeModule,
    way: str,
    end: str,
    kind: type[Exception],
) -> None:
    name = module(f"{end}_in_a_child_of_{way}", ENDS[end][0])
    context = Context(dict, name="model", calls=ContextCalls(mode="fork"))
    if way == "disk":
        context = with_reuse(Context(dict, name="model"), way)
    executor = make_executor(1)
    timeout = 3.0 if end == "hangs" else None
    future = executor.options(context=context, timeout=timeout).submit(
        importlib.import_module, name
    )
    with pytest.raises(kind, match=f"while running the call, whose last import was {name}_inner"):
        future.result()
    assert executor.options(context=context).submit(calls.same, 1).result() == 1


@pytest.mark.parametrize("end", ["killed", "hangs"])
def test_a_process_of_its_own_names_what_it_loads_for_the_call(
    make_executor: MakeExecutor, module: MakeModule, end: str
) -> None:
    name = module(f"{end}_in_an_argument", ENDS[end][0])
    context = with_reuse(Context(dict, name="model"), "disk")
    options = make_executor(1).options(context=context, timeout=3.0 if end == "hangs" else None)
    kind = WorkerLostError if end == "killed" else TaskTimeoutError
    told = f"while importing module {name}, whose last import was {name}_inner, to read an argument"
    with pytest.raises(kind, match=told):
        options.submit(calls.same, Twice(name)).result()


@pytest.mark.parametrize("end", ["killed", "hangs"])
def test_a_process_of_its_own_names_what_it_loads_for_the_setup(
    make_executor: MakeExecutor, module: MakeModule, end: str
) -> None:
    name = module(f"{end}_in_a_setup", ENDS[end][0])
    context = with_reuse(
        Context(
            importlib.import_module, name, name="model", workers=ContextWorkers(timeout=LIMIT_S)
        ),
        "disk",
    )
    with pytest.raises(ContextError, match=f"while running the setup.* was {name}_inner"):
        make_executor(1).options(context=context).submit(calls.nothing).result()


class Twice:
    """An object that becomes another object in a worker. The second unpickling, in the process of a call, imports a
    module.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return Imports, (self.name,)


class Imports:
    """An object that imports a module when it is unpickled."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self.name,)
