"""The memory limit of remembered results: it counts their bytes and decides which of them go to disk.

Results below ``SMALL`` bytes count as a part of their entry in the memo table, and the number of entries has its own
limit. The sum of the other results is limited. Beyond the limit, the results that were used longest ago go to disk, or
are forgotten if there is no disk.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.checkpoint import pickle_entry
from gristmill.parsl._kernel.memo_files import ResultLost, SpillFile, StoredFuture
from gristmill.parsl._kernel.memo_sizes import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from gristmill.parsl._kernel.memoizer import CheckpointCommand

    #: The table of a memoizer: futures by the keys of calls.
    Table = MutableMapping[str, Future[Any]]

#: Results below this many bytes are a part of their entry: moved to disk, they would leave as much in memory.
SMALL = 512
#: Bytes of an entry: a key, a future, and their slots in tables.
ENTRY_SIZE = 512


class _Held:
    """A result in memory that is large enough to count."""

    __slots__ = ("command", "size", "stored")

    def __init__(self, size: int, stored: StoredFuture | None) -> None:
        self.size = size
        #: The location on disk, if the result is on disk as well.
        self.stored = stored
        #: A command that waits for the checkpoint and refers to the result, too.
        self.command: Any = None


class MemoMemory:
    """The results in a memo table that take memory, with the most recently used at the end.

    :param table: of the memoizer.
    :param limit: bytes of results that may be in memory.
    :param write_early: writes a waiting command to the checkpoint before its time, where neither memory nor the spill
        file has room for the result; returns its location.
    :param become_crowded: called once memory is half full. From then on, ``touch`` has to be called for each use, and a
        result may be on disk.
    """

    def __init__(
        self,
        table: Table,
        limit: int,
        write_early: Callable[[CheckpointCommand], StoredFuture | None],
        become_crowded: Callable[[], None],
    ) -> None:
        self._table = table
        #: Bytes of results that may be in memory.
        self.limit = limit
        self._write_early = write_early
        self._become_crowded = become_crowded
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._spill = SpillFile()
        self._lock = threading.RLock()
        #: Bytes of all results that are held.
        self.size = 0
        #: Keys that were used since the oldest entries were last checked; kept only while ``is_crowded``.
        self.used: set[str] = set()
        #: True while uses of results are recorded, to find the one that was used longest ago.
        self.is_crowded = False
        #: Maximum number of entries in the table.
        self.entries_max = max(limit // ENTRY_SIZE, 1)
        #: With more entries than this, the table is checked for entries to forget.
        self.look_at = self.entries_max // 2

    def hold(self, key: str, size: int, stored: StoredFuture | None = None) -> None:
        """Counts a result that is in the table now."""
        if size < SMALL:
            return
        with self._lock:
            before = self._held.pop(key, None)
            held = self._held[key] = _Held(size, stored)
            if before is not None:
                self.size -= before.size
                held.stored = stored or before.stored
                held.command = before.command
            self.size += size
            if self.size * 2 > self.limit:
                self._crowd()

    def share(self, size: int, count: int) -> None:
        """Lowers the limits by the bytes and entries of results from loaded checkpoints."""
        self.limit -= size
        self.entries_max -= count
        self.look_at = self.entries_max // 2

    def _crowd(self) -> None:
        if not self.is_crowded:
            self.is_crowded = True
            self._become_crowded()

    def hold_command(self, key: str, command: Any) -> None:
        """Records that a command waits for the checkpoint and refers to a result of the table."""
        held = self._held.get(key)
        if held is not None and held.stored is not None:
            command.let_go(held.stored)
        elif held is not None:
            held.command = command

    def note_stored(self, stored: StoredFuture) -> None:
        """Records that a result is in a checkpoint."""
        held = self._held.get(stored.key)
        if held is not None:
            held.stored, held.command = stored, None

    def wants_place(self, key: str) -> bool:
        """Returns whether the location of a result that is being written is needed later."""
        held = self._held.get(key)
        return held is not None and held.stored is None

    def touch(self, key: str) -> None:
        """Records that a result was used, while ``is_crowded``."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
        self.used.add(key)

    def _forget(self, key: str) -> None:
        with self._lock:
            held = self._held.pop(key, None)
            if held is not None:
                self.size -= held.size
        if held is not None and held.command is not None:
            self._evict(key, held)
        self._table.pop(key, None)

    def shrink(self) -> None:
        """Moves results to disk if they exceed the limit, until an eighth of the limit is free again.

        A future that has no result yet stays: its result is counted just before the future gets it.
        """
        if self.size <= self.limit:
            return
        early: list[tuple[str, _Held]] = []
        while True:
            with self._lock:
                if self.size <= self.limit - self.limit // 8 or not self._held:
                    break
                key, held = self._held.popitem(last=False)
                self.size -= held.size
            if not self._evict(key, held):
                early.append((key, held))
        with self._lock:
            for key, held in early:
                if key not in self._held:
                    self._held[key] = held
                    self.size += held.size

    def _evict(self, key: str, held: _Held) -> bool:
        """Replaces a result by its location on disk. Returns ``False`` if the future has no result yet."""
        found = self._table.get(key)
        if found is not None and not found.done():
            return False
        stored, command = held.stored, held.command
        if stored is None and found is not None:
            stored = self._store(key, found)
        if command is not None:
            if stored is None and command.exception is None:
                stored = self._write_early(command)
            command.let_go(stored)
        # The program, or another thread, may have replaced the future meanwhile.
        if found is not None and self._table.get(key) is found:
            if stored is None:
                self._table.pop(key, None)
            else:
                self._table[key] = stored
        return True

    def _store(self, key: str, found: Future[Any]) -> StoredFuture | None:
        """Writes the result of a final future to the spill file. Returns ``None`` if that is impossible."""
        if isinstance(found, StoredFuture):
            return found
        if found.cancelled() or found.exception(0) is not None:
            return None
        try:
            data = pickle_entry(key, found.result(0))
        except Exception:
            # The result cannot be pickled.
            return None
        offset = self._spill.append(data)
        return None if offset is None else StoredFuture(key, self._spill, offset, len(data))

    def bound_entries(self) -> list[str]:
        """Forgets the entries that were used longest ago if there are too many. Returns their keys.

        The caller makes sure that no other thread makes calls meanwhile.
        """
        count = len(self._table)
        if count > self.entries_max // 2:
            self._crowd()
            self.look_at = max(self.look_at, self.entries_max)
        if count <= self.look_at:
            return []
        forgotten = []
        for key in list(self._table)[: count - self.entries_max + self.entries_max // 8]:
            found = self._table.get(key)
            if found is None:
                continue
            if key in self.used or not found.done():
                # Moved to the end, like an entry that was made just now.
                self._table.pop(key, None)
                self._table[key] = found
                continue
            self._forget(key)
            forgotten.append(key)
        self.used.clear()
        # If all entries are of running calls, a check at each call would be most of the work.
        count = len(self._table)
        is_over = count > self.entries_max
        self.look_at = count + self.entries_max // 8 if is_over else self.entries_max
        return forgotten

    def load(self, key: str, stored: StoredFuture) -> Any:
        """Reads a result that is on disk and keeps it in memory, as the most recently used one.

        Raises ``ResultLost``, and the call is forgotten.
        """
        try:
            value = stored.load()
        except ResultLost:
            if self._table.get(key) is stored:
                self._table.pop(key, None)
            raise
        size = size_of(value)
        if size <= self.limit // 8 and self._table.get(key) is stored:
            future: Future[Any] = Future()
            future.set_result(value)
            self._table[key] = future
            self.hold(key, size, stored)
            self.shrink()
        return value
