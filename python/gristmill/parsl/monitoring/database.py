"""A monitoring database in SQLite: rows are written in batches, each of which is there as a whole or not at all.

Readers never wait for the writer nor it for them (a write-ahead log). A program that is killed leaves a sound database
without its last batch.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.parsl.monitoring.schema import COLUMNS, definitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: A statement, and the values for each time that it is executed.
Rows = tuple[str, "Sequence[Sequence[Any]]"]

_SCHEME = "sqlite:///"
#: Milliseconds that SQLite itself waits for another program's transaction.
_BUSY_MS = 5_000


def path_of(url: str) -> Path:
    """The file that a database's URL names: ``sqlite:///`` and a path, absolute with a fourth stroke.

    Raises ``ConfigurationError`` for any other kind of database, and for SQLite's in memory, which nobody could read.
    """
    path = url.removeprefix(_SCHEME).partition("?")[0]
    if not url.startswith(_SCHEME) or path in ("", ":memory:"):
        from gristmill.parsl.errors import ConfigurationError

        raise ConfigurationError(
            f"monitoring writes SQLite files: logging_endpoint is sqlite:/// and a path, not {url!r}"
        )
    return Path(path)


class Database:
    """An open monitoring database; used by one thread at a time.

    :param path: the file; it and its tables are made if they are not there. Other runs may be in it.

    Raises ``sqlite3.Error`` for a file that is no database or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            self._write_ahead()
            self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            self._make_tables()
        except BaseException:
            self._connection.close()
            raise

    def _write_ahead(self) -> None:
        """Where that can be: not while somebody reads, nor on every file system. Then readers and writer wait."""
        with contextlib.suppress(sqlite3.OperationalError):
            (mode,) = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode == "wal":
                # A batch is lost with the machine's power and not with the program; the database is sound after both.
                self._connection.execute("PRAGMA synchronous = NORMAL")

    def _make_tables(self) -> None:
        found = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if {name for (name,) in found} >= COLUMNS.keys():
            return
        self._connection.execute("BEGIN IMMEDIATE")
        for statement in definitions():
            self._connection.execute(statement)
        self._connection.execute("COMMIT")

    def write(self, batch: Iterable[Rows]) -> None:
        """Writes a batch in one transaction.

        Raises ``sqlite3.OperationalError`` where that may succeed later, and nothing is written: the disk is full, or
        another program writes for long.
        """
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for statement, rows in batch:
                self._connection.executemany(statement, rows)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Makes it one file again, which can be copied and read from where nothing can be written."""
        try:
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError:
            # Somebody else has it open; what is written stays as it is.
            pass
        finally:
            self._connection.close()
