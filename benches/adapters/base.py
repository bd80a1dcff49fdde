"""What every engine looks like to the rows: start, submit, result, close.

Peers are opened by the executors of `gristmill.bench`; what is here is what a row needs besides. `submit` and `result`
are attributes that hold the engine's own callables wherever they fit: a Python method around them would cost as much as
a task of ours, and a future of the suite's more.
"""

import importlib.metadata
import importlib.util
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from operator import methodcaller
from typing import Any, ClassVar

from benches.machine import ROOT
from benches.model import Unavailable

Function = Callable[..., Any]


class Engine(ABC):
    """One engine with a given number of workers, one process or thread each."""

    #: Name on the command line and in the raw series.
    key: ClassVar[str]
    #: Name in the printed table.
    name: ClassVar[str]
    #: Importable module and the package it comes from; None is the standard library.
    module: ClassVar[str]
    distribution: ClassVar[str | None] = None
    #: Whether a future may be an argument of another task.
    accepts_futures: ClassVar[bool] = False
    #: Share of a row's stated size that this engine runs in bearable time.
    size_share: ClassVar[float] = 0.01
    #: Statements from a bare interpreter, `noop` imported, to the first result on two workers.
    opening: ClassVar[str]
    #: Sizes of a chunk worth trying for `map`; empty where the engine has none to choose.
    chunks: ClassVar[tuple[int, ...]] = ()

    submit: Callable[..., Any]
    result: Callable[[Any], Any]

    def __init__(self, workers: int) -> None:
        self.workers = workers

    @abstractmethod
    def start(self) -> None:
        """Starts the workers; returns when tasks can be submitted."""

    @abstractmethod
    def close(self) -> None:
        """Stops every process and thread of the engine."""

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        """Waits for all results the way this engine does it best."""
        result = self.result
        return [result(future) for future in futures]

    def map(self, function: Function, items: range, chunk: int | None) -> list[Any]:
        """Maps in chunks of `chunk` items; None is the engine's default."""
        raise Unavailable(f"{self.name} has no map")

    @classmethod
    def version(cls) -> str | None:
        """Returns the installed version, or None where the engine is not installed."""
        if cls.distribution is None:
            return "python " + sys.version.split()[0]
        if importlib.util.find_spec(cls.module) is None:
            return None
        try:
            return importlib.metadata.version(cls.distribution)
        except importlib.metadata.PackageNotFoundError:
            return None

    def reopen(self) -> None:
        """Brings a broken engine back as its user must: a new one."""
        self.close()
        self.start()


class ExecutorEngine(Engine):
    """An engine that is a `concurrent.futures.Executor`."""

    executor: Executor

    @abstractmethod
    def open(self) -> Executor:
        """Makes the executor."""

    def start(self) -> None:
        self.executor = self.open()
        self.submit = self.executor.submit
        self.result = methodcaller("result")

    def close(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        return [future.result() for future in futures]

    def map(self, function: Function, items: range, chunk: int | None) -> list[Any]:
        if chunk is None:
            return list(self.executor.map(function, items))
        return list(self.executor.map(function, items, chunksize=chunk))


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Makes a folder for an engine's logs and sockets; short, as socket paths are limited."""
    return tempfile.TemporaryDirectory(prefix="gb-", ignore_cleanup_errors=True)


def suite(module: str) -> Any:
    """Loads executors of the suite when one is started: a build that is older than the suite is measured without it."""
    return importlib.import_module(f"gristmill.bench.executors.{module}")


def share_paths() -> None:
    """Lets processes that are started afresh find `benches` and the commands beside Python."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
    commands = [os.path.dirname(sys.executable), *os.environ.get("PATH", "").split(os.pathsep)]
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys(commands))
