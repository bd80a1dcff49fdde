"""Installation of Gristmill's kernel in the place of Parsl's."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from gristmill.parsl._kernel.apps import PythonApp
from gristmill.parsl._kernel.config import check_choice
from gristmill.parsl._kernel.futures import AppFuture, DataFuture
from gristmill.parsl._kernel.kernel import DataFlowKernel
from gristmill.parsl._kernel.parsl_detection import is_parsl_installed, need
from gristmill.parsl._kernel.states import States
from gristmill.parsl._kernel.walltime import limited

#: The modules in which Parsl defines the replaced objects. Other modules of Parsl import the objects from there.
_REPLACED = {
    "parsl.dataflow.dflow": "DataFlowKernel",
    "parsl.dataflow.futures": "AppFuture",
    "parsl.app.futures": "DataFuture",
    "parsl.dataflow.states": "States",
    "parsl.app.python": "timeout",
}


def install(engine: bool = False, max_workers: int | None = None) -> None:
    """Makes ``parsl.load`` return Gristmill's kernel from now on. The program's imports from ``parsl`` stay valid.

    :param engine: whether tasks run on Gristmill's engine on this machine, instead of on the executors of the
        configuration.
    :param max_workers: the engine's worker processes; as many as there are CPUs if not given.

    Raises ``OptionalModuleMissing`` where Parsl is not installed. Call it before ``parsl.load``.
    """
    if not is_parsl_installed():
        need(
            "install() replaces the kernel of Parsl; programs with `import gristmill.parsl as parsl` do not need it"
        )
    importlib.import_module("parsl")
    originals = {
        (module, name): getattr(importlib.import_module(module), name)
        for module, name in _REPLACED.items()
    }
    ours = {
        "DataFlowKernel": _kernel_type(engine, max_workers),
        "AppFuture": AppFuture,
        "DataFuture": DataFuture,
        "States": States,
        # The engine enforces this limit itself: it can end a task that is in compiled code.
        "timeout": limited,
    }
    for (_, name), original in originals.items():
        _replace(original, name, ours[name])
    apps = importlib.import_module("parsl.app.python")
    _replace(apps.PythonApp, "PythonApp", _app_type(apps.PythonApp))


def _kernel_type(engine: bool, max_workers: int | None) -> type:
    """Returns a subclass of our kernel that passes Parsl's own type checks."""
    theirs = importlib.import_module("parsl.dataflow.dflow").DataFlowKernel
    if issubclass(theirs, DataFlowKernel):
        theirs = theirs.__mro__[2]

    def __init__(self: Any, config: Any) -> None:
        # Parsl's own configuration leaves it to the kernel.
        check_choice(config, "strategy")
        if engine:
            _run_on_engine(config, max_workers)
        DataFlowKernel.__init__(self, config)

    return type("DataFlowKernel", (DataFlowKernel, theirs), {"__init__": __init__})


def _app_type(theirs: Any) -> Any:
    """Returns a subclass of Parsl's Python apps whose plain calls go directly to the engine of our kernel.

    All other calls take Parsl's own path into the kernel. What they send to a worker needs nothing but Parsl there.
    """
    if issubclass(theirs, _PlainCalls):
        return theirs
    loader = importlib.import_module("parsl.dataflow.dflow").DataFlowKernelLoader

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = self.data_flow_kernel or loader.dfk()
        future = self.submit_plainly(kernel, args, kwargs)
        return theirs.__call__(self, *args, **kwargs) if future is None else future

    return type("PythonApp", (_PlainCalls, theirs), {"__call__": __call__})


class _PlainCalls:
    """The attributes of an app that the fast paths of ``fast_paths`` use."""

    func: Any
    kwargs: dict[str, Any]
    kept_way = None
    # Parsl's decorators accept no context. A call may name one in its resource specification.
    context = None
    has_inert_defaults = PythonApp.has_inert_defaults
    submit_plainly = PythonApp.submit_plainly

    @property
    def plain_function(self) -> Any:
        """The function itself: Parsl wraps it so that exceptions come back as values."""
        return self.func.__wrapped__


def _run_on_engine(config: Any, max_workers: int | None) -> None:
    from gristmill.parsl._kernel.executors.engine import GristmillExecutor

    config._executors = tuple(
        GristmillExecutor(label=executor.label, max_workers=max_workers)
        for executor in config.executors
    )


def _replace(original: object, name: str, ours: object) -> None:
    """Replaces the original in every module of Parsl that has it under this name."""
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == "parsl" and getattr(module, name, None) is original:
            setattr(module, name, ours)
