"""What all executors have: how many workers, and how they are opened."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar

from pydantic import Field

from gristmill.bench.interfaces import Backend
from gristmill.bench.plugins import Kind, Plugin

#: Worker processes, or threads.
Workers = Annotated[int, Field(ge=1, le=65_535)]


class ExecutorPlugin(Plugin):
    """An executor, not yet open."""

    kind: ClassVar[Kind] = "executor"

    workers: Workers = 2

    @abstractmethod
    def open(self) -> Backend:
        """Starts its workers, as far as it does before there are tasks."""
