"""What Parsl's own executors say of their blocks and nodes: messages in a queue between processes."""

from __future__ import annotations

import datetime
import importlib
import logging
import threading
from typing import TYPE_CHECKING, Any

from gristmill.parsl.monitoring.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_log = logging.getLogger("parsl.gristmill.monitoring")

#: The columns that a message has to have, by table.
_FIELDS = {"node": COLUMNS["node"][1:], "block": COLUMNS["block"]}


class Intake:
    """Takes the messages of an executor in this process, in the place of a queue, and gives them on as rows.

    :param add: called with a table's name and a row.
    """

    def __init__(self, add: Callable[[str, dict[str, Any]], None]) -> None:
        self._add = add

    def put(self, message: tuple[Any, Any]) -> None:
        """Takes one."""
        for table, row in _rows(*message):
            self._add(table, row)


class Blocks:
    """Takes the messages of executors, and gives them on as rows.

    :param add: called with a table's name and a row, in a thread of its own.
    """

    def __init__(self, add: Callable[[str, dict[str, Any]], None]) -> None:
        self._add = add
        #: For executors, and the processes that they start.
        self.messages: Any = importlib.import_module("parsl.multiprocessing").SpawnQueue()
        self._thread = threading.Thread(target=self._take, name="gristmill-blocks", daemon=True)
        self._thread.start()

    def _take(self) -> None:
        while (message := self.messages.get()) is not None:
            try:
                for table, row in _rows(*message):
                    self._add(table, row)
            except Exception:
                _log.exception("a message of an executor could not be recorded: %r", message)

    def close(self) -> None:
        """Takes what was sent and no more."""
        self.messages.put(None)
        self._thread.join()
        self.messages.close()
        self.messages.join_thread()


def _rows(kind: Any, content: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if kind.name == "NODE_INFO":
        yield "node", _row("node", content)
    elif kind.name == "BLOCK_INFO":
        for one in content:
            yield "block", _row("block", one)


def _row(table: str, message: dict[str, Any]) -> dict[str, Any]:
    """Raises ``KeyError`` where a column is missing."""
    return {column: _value(message[column]) for column in _FIELDS[table]}


def _value(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "microseconds")
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)
