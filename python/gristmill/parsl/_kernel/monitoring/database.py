"""A monitoring database in SQLite: rows are written in batches, each as a whole or not at all.

Readers never wait for the writer, nor the writer for them (a write-ahead log). A killed program leaves a consistent
database without the last batch.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.monitoring.schema import COLUMNS, definitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: A statement, and the values for each of its executions.
Rows = tuple[str, "Sequence[Sequence[Any]]"]

_SCHEME = "sqlite:///"
#: Milliseconds that SQLite itself waits for another program's transaction when the database is opened.
_BUSY_OPENING_MS = 5_000
#: The same for each try to write a batch. It is short: threads may wait for the writer, which tries again by itself.
_BUSY_MS = 500


def path_of(url: str) -> Path:
    """Returns the file of a database URL: ``sqlite:///`` and a path, which is absolute after a fourth slash.

    Raises ``ConfigurationError`` for any other kind of database, and for an SQLite database in memory, which no other
    program could read.
    """
    path = url.removeprefix(_SCHEME).partition("?")[0]
    if not url.startswith(_SCHEME) or path in ("", ":memory:"):
        from gristmill.parsl._kernel.errors import ConfigurationError

        raise ConfigurationError(
            f"monitoring writes SQLite files: logging_endpoint is sqlite:/// and a path, not {url!r}"
        )
    return Path(path)


class Database:
    """An open monitoring database; used by one thread at a time.

    :param path: the file; it and its tables are made if they do not exist. It may contain other runs.

    Raises ``sqlite3.Error`` for a file that is no database or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            self._write_ahead()
            self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_OPENING_MS}")
            self._make_tables()
            self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        except BaseException:
            self._connection.close()
            raise

    def _write_ahead(self) -> None:
        """Turns the write-ahead log on, if that is possible.

        It fails while another connection reads, and on some file systems. Readers and the writer then wait for each
        other.
        """
        with contextlib.suppress(sqlite3.OperationalError):
            (mode,) = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode == "wal":
                # Losing power may lose a batch, a crash of the program does not. The database stays consistent after
                # both.
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

        Raises ``sqlite3.OperationalError``, and writes nothing, if a retry may succeed: the disk is full, or another
        program writes for long.
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
        """Closes the database as a single file, which can be copied, and read on a read-only file system."""
        try:
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError:
            # Another connection has it open. The data is complete all the same.
            pass
        finally:
            self._connection.close()
