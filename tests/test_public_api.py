"""The public surface is pinned: each change of it is a decision, and changes this file too."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import gristmill
from gristmill import BoundExecutor, Executor, Future, Lease

pytestmark = pytest.mark.interpreter

NAMES = [
    "BoundExecutor",
    "Context",
    "ContextCalls",
    "ContextError",
    "ContextReport",
    "ContextResources",
    "ContextWorkers",
    "DependencyError",
    "Executor",
    "ForkedProcessError",
    "Future",
    "GristmillError",
    "ImageError",
    "Lease",
    "LeaseExpiredError",
    "LeaseUse",
    "LimitReachedError",
    "Node",
    "RemoteError",
    "RemoteTraceback",
    "ResourceError",
    "ShutDownError",
    "StartError",
    "Stats",
    "TaskInterrupted",
    "TaskOptions",
    "TaskTimeoutError",
    "Timings",
    "UnpicklableError",
    "WorkerLostError",
    "__version__",
    "array",
    "build_info",
    "context_file",
    "current_executor",
    "freeze_support",
    "wait_any",
]

MAP = "(self, fn, /, *iterables, timeout=None, chunksize=1, buffersize=None, ordered=True, progress=False)"
OPTIONS = (
    "timeout=None, start_within=None, retries=0, loss_retries=0, timeout_retries=0, priority=0, grace=1.0, views=False, "
    "cores=1, gpus=0, memory=None, context=None"
)
SIGNATURES = {
    "Executor": "(max_workers=None, initializer=None, initargs=(), *, max_tasks_per_child=None, start='fork', "
    "preload=(), start_timeout=600.0, output=True, threads_per_worker=None, spin_seconds=None, task_limit=None, "
    "when_full='block', nodes=None, memory=None, gpus=None, blobs=None, context_memory=None)",
    "BoundExecutor.map": MAP,
    "BoundExecutor.submit": "(self, fn, /, *args, **kwargs)",
    "Executor.bind": "(self, options)",
    "Executor.explain": "(self, future)",
    "Executor.map": MAP,
    "Executor.nodes": "(self)",
    "Executor.options": f"(self, *, {OPTIONS})",
    "Executor.shutdown": "(self, wait=True, *, cancel_futures=False)",
    "Executor.stats": "(self)",
    "Executor.submit": "(self, fn, /, *args, **kwargs)",
    "Executor.submit_many": "(self, fn, /, *iterables)",
    "Future.add_done_callback": "(self, /, fn)",
    "Future.cancel": "(self, /, running=False, grace=1.0)",
    "Future.cancelled": "(self, /)",
    "Future.done": "(self, /)",
    "Future.exception": "(self, /, timeout=None)",
    "Future.result": "(self, /, timeout=None)",
    "Future.running": "(self, /)",
    "Future.timings": "(self, /)",
    "Lease": "(nodes=None, *, max_workers=None, memory=None, gpus=None, seconds=None, spin_seconds=None, **options)",
    "Lease.extend": "(self, seconds)",
    "Lease.release": "(self)",
    "Lease.shutdown": "(self, wait=True, *, cancel_futures=False)",
    "Lease.use": "(self)",
    "Lease.wait": "(self, timeout=None)",
    "TaskOptions": f"(*, {OPTIONS})",
    "build_info": "()",
    "freeze_support": "()",
    "wait_any": "(futures, timeout=None)",
}

NATIVE = {
    "In": "(dtype=None)",
    "InOut": "(dtype=None)",
    "Kept": "(data, name='')",
    "Library": "(path, *, companions=(), guards=False)",
    "Library.declare": "(self, name, parameters, result=None)",
    "Library.function": "(self, name, *, capacity=None, dtype=None, interface='buffers', kept=())",
    "Out": "(dtype)",
    "include": "()",
}

BASES = {
    "ContextError": "GristmillError",
    "DependencyError": "GristmillError",
    "ForkedProcessError": "GristmillError RuntimeError",
    "ImageError": "GristmillError",
    "LeaseExpiredError": "GristmillError",
    "LimitReachedError": "GristmillError",
    "RemoteError": "GristmillError",
    "RemoteTraceback": "Exception",
    "ResourceError": "GristmillError ValueError",
    "ShutDownError": "GristmillError RuntimeError",
    "StartError": "GristmillError BrokenExecutor",
    "TaskInterrupted": "BaseException",
    "TaskTimeoutError": "GristmillError TimeoutError",
    "UnpicklableError": "GristmillError PicklingError TypeError",
    "WorkerLostError": "GristmillError BrokenExecutor",
}


def _public(kind: type) -> list[str]:
    return sorted(name for name in vars(kind) if not name.startswith("_"))


def test_the_names() -> None:
    assert gristmill.__all__ == NAMES
    assert dir(gristmill) == NAMES
    assert gristmill.native.__all__ == [
        *("DeclaredFunction", "Function", "In", "InOut", "Kept", "Library", "LibraryError"),
        *("NativeError", "Out", "include"),
    ]
    with pytest.raises(AttributeError, match="nonsense"):
        gristmill.nonsense  # noqa: B018 - what is tested


@pytest.mark.parametrize("name", ["native", "on", "parsl"])
def test_public_modules_need_no_import_of_their_own(name: str) -> None:
    program = f"import gristmill; print(gristmill.{name}.__name__)"
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert printed.split() == [f"gristmill.{name}"]


@pytest.mark.parametrize("name", sorted({*NAMES} - {"__version__"}))
def test_every_name_comes_from_one_place(name: str) -> None:
    homes = [home for home, names in gristmill._HOMES.items() if name in names]
    assert len(homes) == 1
    assert getattr(gristmill, name) is getattr(importlib.import_module(homes[0]), name)


@pytest.mark.parametrize(("path", "expected"), SIGNATURES.items())
def test_the_signatures(path: str, expected: str) -> None:
    found: object = gristmill
    for part in path.split("."):
        found = getattr(found, part)
    signature = inspect.signature(found)  # type: ignore[arg-type]
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    assert str(signature.replace(parameters=bare, return_annotation=signature.empty)) == expected


@pytest.mark.parametrize(("path", "expected"), NATIVE.items())
def test_the_signatures_of_native(path: str, expected: str) -> None:
    found: object = gristmill.native
    for part in path.split("."):
        found = getattr(found, part)
    signature = inspect.signature(found)  # type: ignore[arg-type]
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    assert str(signature.replace(parameters=bare, return_annotation=signature.empty)) == expected


def test_tasks_have_the_same_calls() -> None:
    from gristmill import _nested

    for kind, nested in (
        (Executor, _nested.NestedExecutor),
        (BoundExecutor, _nested.NestedBoundExecutor),
    ):
        for name in ("map", "options", "bind"):
            if (ours := inspect.getattr_static(kind, name, None)) is not None and callable(ours):
                expected = inspect.signature(ours).replace(return_annotation=None)
                found = inspect.signature(getattr(nested, name)).replace(return_annotation=None)
                assert found == expected


def test_the_methods() -> None:
    known = sorted(path for path in SIGNATURES if "." in path)
    own = {
        "Executor": _public(Executor),
        "Future": _public(Future),
        "Lease": _public(Lease),
        "BoundExecutor": _public(BoundExecutor),
    }
    properties = ["BoundExecutor.options", "Lease.ends_in"]
    inherited = [
        f"{kind}.{name}" for kind in ("Executor", "BoundExecutor") for name in ("map", "submit")
    ]
    refused = ["Future.set_exception", "Future.set_result", "Future.set_running_or_notify_cancel"]
    found = [f"{kind}.{name}" for kind, names in own.items() for name in names]
    assert sorted({*found, *inherited} - {*refused, *properties}) == known


@pytest.mark.parametrize(("name", "bases"), BASES.items())
def test_the_errors(name: str, bases: str) -> None:
    # Where Parsl, or the standard library's pool of processes, has been imported, some exceptions have its class too.
    added = ("parsl", "concurrent.futures.process")
    bases_now = getattr(gristmill, name).__bases__
    found = [base for base in bases_now if not base.__module__.startswith(added)]
    assert [base.__name__ for base in found] == bases.split()


def test_futures_are_made_by_the_engine_only() -> None:
    with pytest.raises(TypeError):
        Future()
    with pytest.raises(TypeError):
        type("Mine", (Future,), {})


def _modules_after(text: str) -> set[str]:
    program = f"import sys; before = set(sys.modules)\n{text}\nprint(*set(sys.modules) - before)"
    return set(subprocess.check_output([sys.executable, "-c", program], text=True).split())


def test_the_import_is_light() -> None:
    found = _modules_after("import gristmill")
    heavy = {
        "concurrent.futures",
        "asyncio",
        "numpy",
        "cloudpickle",
        "pickle",
        "logging",
        "threading",
        "typing",
        "re",
    }
    assert found & heavy == set()
    assert {one for one in found if one.startswith("gristmill")} == {"gristmill"}


def test_the_import_leaves_the_finders_of_modules_alone() -> None:
    program = (
        "import sys; before = list(sys.meta_path)\nimport gristmill\nassert sys.meta_path == before"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_executor_needs_no_heavy_modules() -> None:
    found = _modules_after("import gristmill; gristmill.Executor")
    heavy = {"asyncio", "numpy", "threadpoolctl", "multiprocessing", "ssl", "socket", "hashlib"}
    heavy |= {"cloudpickle", "pickle", "typing", "inspect", "subprocess", "locale", "math"}
    assert found & heavy == set()


def test_a_node_agent_needs_nothing_of_the_other_commands() -> None:
    found = _modules_after(
        "from gristmill import _cli\ntry:\n    _cli.main(['node'])\nexcept SystemExit:\n    print()"
    )
    assert "gristmill._nodes.agent" in found
    others = {"gristmill._context", "gristmill._doctor", "gristmill._images", "gristmill._top"}
    heavy = {"asyncio", "numpy", "cloudpickle", "logging", "ctypes", "subprocess", "hashlib"}
    assert found & {*others, *heavy, "importlib.metadata"} == set()


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_worker_has_hardly_more_than_a_bare_interpreter(start: str) -> None:
    # The function is a builtin, so that none of these modules comes from the test.
    program = (
        f"import gristmill; executor = gristmill.Executor(1, start={start!r}); "
        "print(*executor.submit(eval, \"list(__import__('sys').modules)\").result()); "
        "executor.shutdown()"
    )
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    bare = subprocess.check_output(
        [sys.executable, "-c", "import sys; print(*sys.modules)"], text=True
    )
    found = set(printed.split()) - set(bare.split())
    heavy = {"concurrent.futures", "logging", "re", "typing", "enum", "pickle", "cloudpickle"}
    heavy |= {"functools", "collections", "socket", "select", "traceback", "hashlib", "threading"}
    heavy |= {"importlib", "types", "warnings"}
    assert found & heavy == set()


def test_the_import_works_where_the_engine_does_not() -> None:
    text = (
        "import sys; sys.platform = 'darwin'; sys.modules['gristmill._native'] = None\n"
        "from gristmill import *\n"
        "import gristmill\n"
        "try:\n    gristmill.Executor(1)\n"
        "except gristmill.StartError as error:\n    print(error)"
    )
    printed = subprocess.check_output([sys.executable, "-c", text], text=True)
    assert "Linux" in printed
    assert "darwin" in printed


def test_how_it_was_built() -> None:
    info = gristmill.build_info()
    assert info["profile"] in ("release", "debug")
    assert info["version"] == gristmill.__version__


def test_instruments_load_each_name_when_it_is_first_used() -> None:
    from gristmill import instruments

    assert dir(instruments) == sorted(instruments.__all__)
    for name in instruments.__all__:
        assert getattr(instruments, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        instruments.nonsense  # noqa: B018 - what is tested
    found = _modules_after("import gristmill.instruments")
    assert {one for one in found if one.startswith("gristmill")} == {
        "gristmill",
        "gristmill.instruments",
    }
