"""The interface of every engine to the rows: start, submit, result, close.

The executors of `gristmill_bench` open the engines; this module adds what else a row needs. `submit` and `result` are
attributes that hold the engine's own callables: a Python method around them would cost as much as one of our tasks, and
a future of the suite even more.
"""

import importlib.metadata
import importlib.util
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from benches.machine import ROOT
from gristmill_bench.executors.bare import Bare

Function = Callable[..., Any]


class Engine(ABC):
    """One engine with a given number of workers, one process or thread each."""

    #: The name on the command line and in the raw series.
    key: ClassVar[str]
    #: The name in the printed table.
    name: ClassVar[str]
    #: The importable module and the package it comes from; None for the standard library.
    module: ClassVar[str]
    distribution: ClassVar[str | None] = None
    #: True if a future may be an argument of another task.
    accepts_futures: ClassVar[bool] = False
    #: The share of a row's stated size that this engine runs in acceptable time.
    size_share: ClassVar[float] = 0.01
    #: The statements from a bare interpreter, `noop` imported, to the first result on two workers.
    opening: ClassVar[str]
    #: The chunk sizes worth trying for `map`; empty if the engine has none to choose.
    chunks: ClassVar[tuple[int, ...]] = ()

    #: The open engine, without the suite's wrappers.
    bare: Bare
    submit: Callable[..., Any]
    result: Callable[[Any], Any]

    def __init__(self, workers: int) -> None:
        self.workers = workers

    @abstractmethod
    def open(self) -> Bare:
        """Opens the engine with its workers."""

    def start(self) -> None:
        """Starts the workers; returns when tasks can be submitted."""
        share_paths()
        self.bare = self.open()
        self.submit, self.result = self.bare.submit, self.bare.result

    def close(self) -> None:
        """Stops every process and thread of the engine."""
        self.bare.close()

    @property
    def executor(self) -> Any:
        """The executor itself, if the engine is one of `concurrent.futures`."""
        return getattr(self.bare, "executor", None)

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        """Waits for all results in the engine's fastest way."""
        return self.bare.collect(futures)

    def map(self, function: Function, items: range, chunk: int | None) -> list[Any]:
        """Maps in chunks of `chunk` items; None is the engine's default."""
        return self.bare.map(function, items, chunk)

    @classmethod
    def version(cls) -> str | None:
        """Returns the installed version, or None if the engine is not installed."""
        if cls.distribution is None:
            return "python " + sys.version.split()[0]
        if importlib.util.find_spec(cls.module) is None:
            return None
        try:
            return importlib.metadata.version(cls.distribution)
        except importlib.metadata.PackageNotFoundError:
            return None

    def reopen(self) -> None:
        """Replaces a broken engine as its user must: by a new one."""
        self.close()
        self.start()


def share_paths() -> None:
    """Makes `benches` and the commands beside Python available to processes that are not forked."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
    commands = [os.path.dirname(sys.executable), *os.environ.get("PATH", "").split(os.pathsep)]
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys(commands))
