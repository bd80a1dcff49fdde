"""Messages about the blocks and nodes of executors, as they are sent to monitoring."""

from __future__ import annotations

import datetime
import importlib
import logging
import threading
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.monitoring.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_log = logging.getLogger("parsl.gristmill.monitoring")

#: Messages that may wait to be recorded. A process that sends one more waits.
_WAITING_MAX = 10_000

#: The columns that a message must have, by table.
_FIELDS = {"node": COLUMNS["node"][1:], "block": COLUMNS["block"]}


class Intake:
    """A stand-in for a queue that receives an executor's messages in this process and passes them on as rows.

    :param add: called with the name of a table and a row.
    """

    def __init__(self, add: Callable[[str, dict[str, Any]], None]) -> None:
        self._add = add

    def put(self, message: tuple[Any, Any]) -> None:
        """Passes the rows of one message on."""
        for table, row in _rows(*message):
            self._add(table, row)


class Blocks:
    """A receiver of executors' messages through a queue between processes, which passes them on as rows.

    :param add: called with the name of a table and a row, in a thread of its own.
    """

    def __init__(self, add: Callable[[str, dict[str, Any]], None]) -> None:
        self._add = add
        #: The queue for executors, and the processes that they start.
        self.messages: Any = importlib.import_module("parsl.multiprocessing").SpawnQueue(
            _WAITING_MAX
        )
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
        """Handles the messages that were sent, and accepts no more."""
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
    """Returns the row of a message. Raises ``KeyError`` if a column is missing."""
    return {column: _value(message[column]) for column in _FIELDS[table]}


def _value(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "microseconds")
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)
