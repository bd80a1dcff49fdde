"""Remembered results: a call that was made before, in this run or an earlier one, is not made again.

``BasicMemoizer`` remembers in memory and, with a ``checkpoint_mode``, on disk. Only calls of apps with ``cache=True``
are remembered. A failure is remembered as long as the run lasts and memory has room for it, and never written to disk.
``memo_key`` defines which calls are the same, ``checkpoint`` the files on disk and what survives, ``memo_memory`` the
behaviour when memory is short.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import FINISHED
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from gristmill import _options
from gristmill._native import Future as NativeFuture
from gristmill._options import shown
from gristmill._resources import memory_size
from gristmill._resources import size as parse_size
from gristmill.parsl._kernel.checkpoint import (
    FILE_NAME,
    MISSING,
    CheckpointWriter,
    KnownResults,
    get_all_checkpoints,
    pickle_entry,
)
from gristmill.parsl._kernel.checkpoint_timer import CheckpointTimer, parse_period
from gristmill.parsl._kernel.config import refuse
from gristmill.parsl._kernel.memo_fetched import EngineCalls
from gristmill.parsl._kernel.memo_files import ResultLost, StoredFuture
from gristmill.parsl._kernel.memo_key import make_key
from gristmill.parsl._kernel.memo_memory import MemoMemory
from gristmill.parsl._kernel.memo_sizes import size_of, size_of_arguments
from gristmill.parsl._kernel.memoizer import CheckpointCommand, Memoizer
from gristmill.parsl._kernel.walltime import unlimited

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Container,
        Iterable,
        Iterator,
        Mapping,
        MutableMapping,
        Sequence,
    )

    from gristmill.parsl._kernel.exit_checkpoints import CheckpointedFuture

    Task = MutableMapping[str, Any]
    Mode = Literal["task_exit", "periodic", "dfk_exit", "manual"]

__all__ = ["BasicMemoizer", "CheckpointCommand", "Memoizer"]

_log = logging.getLogger("parsl.gristmill.memoization")

_MODES = ("task_exit", "periodic", "dfk_exit", "manual")
#: Bytes of entries that are written at once.
_BATCH_SIZE = 16 << 20


class BasicMemoizer(Memoizer):
    """A memoizer that identifies calls by the content of function and arguments.

    :param checkpoint_files: checkpoints to load: folders or files. If not given, those of all earlier runs in the same
        folder if there is a ``checkpoint_mode``, else none.
    :param checkpoint_period: ``"HH:MM:SS"``, for ``"periodic"``.
    :param checkpoint_mode: the time at which results are written to disk: each before the program can see it
        (``"task_exit"``), every ``checkpoint_period`` (``"periodic"``), at the end (``"dfk_exit"``), or by
        ``checkpoint()`` (``"manual"``). All but the first also write at the end. Never if not given.
    :param memoize: without it nothing is remembered.
    :param durable: each write waits for the disk, so that it survives a power loss and not only the death of the
        process.
    :param code_in_key: whether editing a function makes it a different one; without it only its name counts, as with
        Parsl.
    :param share_running: whether a call waits for a running call with the same key; without it both run, as with Parsl.
    :param memory: bytes of memory that remembered results may take, or a text such as ``"4GB"``, and as much again for
        the entries of calls. If not given, an eighth of the memory that this program may use. Beyond that, the results
        that were used longest ago are read from the checkpoint or from a file without a name.

    Raises ``ConfigurationError`` for an unknown mode, or an invalid period or size.
    """

    def __init__(
        self,
        *,
        checkpoint_files: Sequence[str | os.PathLike[str]] | None = None,
        checkpoint_period: str | None = None,
        checkpoint_mode: Mode | None = None,
        memoize: bool = True,
        durable: bool = False,
        code_in_key: bool = True,
        share_running: bool = True,
        memory: int | str | None = None,
    ) -> None:
        self.checkpoint_files = checkpoint_files
        self.checkpoint_period = checkpoint_period
        self.checkpoint_mode = checkpoint_mode
        self.memoize = memoize
        self.durable = durable
        self.code_in_key = code_in_key
        self.share_running = share_running
        self.memory = memory
        self._check()
        limit = memory_size() // 8 if memory is None else parse_size(memory)
        #: Futures by keys: of tasks that ran, that run, or that were found in a checkpoint.
        self.memo_lookup_table: dict[str, Future[Any]] = {}
        #: The lock that a thread holds while it makes a call that does not exist yet, so that no other thread makes it
        #: too.
        self.claiming = threading.RLock()
        #: Commands that the next ``checkpoint_queue`` writes.
        self.checkpointable_tasks: list[CheckpointCommand] = []
        self.checkpointed_tasks = 0
        self._limit = limit
        table = self.memo_lookup_table
        self._memory = MemoMemory(table, limit, self._write_early, self._become_crowded)
        #: Calls that the engine runs and that no checkpoint records.
        self.engine_calls = EngineCalls(table, self._memory, max(limit // 16, 1))
        self._known: KnownResults | None = None
        self._written: set[str] = set()
        #: Keys of earlier results that this run has used.
        self._carried: set[str] = set()
        #: Keys of earlier results that are in the table, and that this run's checkpoint does not have yet.
        self._untold: set[str] = set()
        self._last_error = ""
        self._writer: CheckpointWriter | None = None
        self._timer: CheckpointTimer | None = None
        self._lock = threading.RLock()

    def _check(self) -> None:
        mode = self.checkpoint_mode
        if mode is not None and not (isinstance(mode, str) and mode in _MODES):
            refuse(f"checkpoint_mode is one of {_MODES}, not {shown(mode)}")
        if self.checkpoint_mode == "periodic":
            parse_period(self.checkpoint_period)
        try:
            parse_size(1 if self.memory is None else self.memory)
        except (TypeError, ValueError) as error:
            refuse(str(error))
        files = self.checkpoint_files
        if files is not None and not (
            isinstance(files, (list, tuple))
            and all(isinstance(one, (str, os.PathLike)) for one in files)
        ):
            refuse(f"checkpoint_files is a list of paths, not {shown(files)}")
        for name in ("memoize", "durable", "code_in_key", "share_running"):
            setattr(self, name, _options.flag(name, getattr(self, name)))

    def start(self, *, run_dir: str, config_run_dir: str) -> None:
        """Loads the checkpoints. Raises ``BadCheckpoint`` if a file is missing or is no checkpoint."""
        self.run_dir, self.config_run_dir = run_dir, config_run_dir
        if self.memoize:
            self._known = self._load()
        if self.checkpoint_mode is not None:
            self._writer = CheckpointWriter(run_dir, self.durable)
        if self.checkpoint_mode == "periodic":
            seconds = parse_period(self.checkpoint_period)
            self._timer = CheckpointTimer(self.checkpoint_queue, seconds)

    def _load(self) -> KnownResults | None:
        # Half of each limit; the other half is for results of this run.
        known = KnownResults(self._limit // 2, self._memory.entries_max // 2)
        files = self.checkpoint_files
        if files is None and self.checkpoint_mode is not None:
            # A run may have been killed after it made the folder and before it made the file.
            folders = get_all_checkpoints(self.config_run_dir)
            files = [one for one in folders if os.path.exists(os.path.join(one, FILE_NAME))]
        for file in files or ():
            known.load(file)
        if not len(known):
            return None
        self._memory.share(known.size, len(known))
        return known

    def check_memo(self, task: Task) -> Future[Any] | None:
        """Returns the future of the same call if it was made, and sets ``task["hashsum"]``. Raises ``MemoKeyError``."""
        if not self.memoize or not task["memoize"]:
            task["hashsum"] = None
            return None
        task["hashsum"] = hashsum = self.make_hash(task)
        table, own = self.memo_lookup_table, task["app_fu"]
        found = self._find(hashsum)
        if found is None and self._known is not None:
            found = self._find_known(self._known, hashsum, task)
        if found is None and self.share_running:
            # If two threads get here at the same time, the lock lets one of them make the call.
            with self.claiming:
                found = self._find(hashsum)
                if found is None:
                    found = table[hashsum] = own
        if found is None or found is own:
            # The task's own earlier attempt is no answer.
            return None
        if found.cancelled():
            table[hashsum] = own
            return None
        return found

    def _find(self, key: str) -> Future[Any] | None:
        """Returns the table's future for this key, with its result in memory."""
        found = self.memo_lookup_table.get(key)
        if found is None:
            return None
        if self._memory.is_crowded:
            self._memory.touch(key)
        if isinstance(found, StoredFuture):
            value = self._read(key, found)
            if value is MISSING:
                return None
            found = Future()
            found.set_result(value)
        return found

    def _read(self, key: str, stored: StoredFuture) -> Any:
        """Reads the result of a table's future that is on disk. Returns ``MISSING`` if it is lost."""
        try:
            return self._memory.load(key, stored)
        except ResultLost as error:
            _log.warning("a remembered result is lost and its task runs again: %s", error)
            return MISSING

    def recall(self, key: str) -> Any:
        """Returns the result of the call with this key if it is there already, else ``MISSING``."""
        found: Any = self.memo_lookup_table.get(key)
        if found is None:
            return MISSING if self._known is None else self._recall_known(self._known, key)
        if isinstance(found, NativeFuture):
            return found.result() if found._look() == "succeeded" else MISSING
        # Reads the two fields directly: the methods of a graph's future would take a lock, and nothing changes any
        # more.
        is_good = found._state == FINISHED and found._exception is None
        try:
            return found._result if is_good else MISSING
        except ResultLost:
            # The result went to disk a moment ago, and is lost there.
            return MISSING

    def _recall_in_crowd(self, key: str) -> Any:
        """Replaces ``recall`` once memory is half full: results may then be on disk, and uses are recorded."""
        found = self.memo_lookup_table.get(key)
        if found is not None:
            self._memory.touch(key)
            if isinstance(found, StoredFuture):
                return self._read(key, found)
        return BasicMemoizer.recall(self, key)

    def _become_crowded(self) -> None:
        self.recall = self._recall_in_crowd  # type: ignore[method-assign]

    def _recall_known(self, known: KnownResults, key: str) -> Any:
        """Returns the result of an earlier run, and adds it to this run's checkpoint.

        A later run may load only the checkpoint of this run.
        """
        value = known.find(key)
        if value is MISSING or self.checkpoint_mode is None:
            return value
        with self._lock:
            is_new = key not in self._carried
            self._carried.add(key)
        if is_new:
            command = CheckpointCommand({"id": key, "hashsum": key}, result=value)
            if self.checkpoint_mode != "task_exit" and (stored := known.place_of(key)) is not None:
                command.let_go(stored)
            self._update_checkpoint(command)
        return value

    def bound_entries(self) -> None:
        """Forgets the calls that were used longest ago if there are too many entries."""
        if len(self.memo_lookup_table) <= self._memory.look_at:
            return
        # Does not wait for the lock, because this runs where tasks end: its owner may be waiting for tasks to end, to
        # get room among the outstanding tasks.
        if self.claiming.acquire(blocking=False):
            try:
                forgotten = self._memory.bound_entries()
            finally:
                self.claiming.release()
            self._written.difference_update(forgotten)
            self._carried.difference_update(forgotten)

    def is_claimed(self, key: str) -> bool:
        """Returns whether the call with this key was made. The caller holds ``claiming``, and makes the call if not."""
        found = self.memo_lookup_table.get(key)
        if found is None:
            return self._known is not None and self._known.has_parsl_keys
        return not found.cancelled()

    def key_of(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        ignore_for_cache: Sequence[str],
    ) -> str:
        """Returns the key of a call. Raises ``MemoKeyError``."""
        return make_key(function, args, kwargs, ignore_for_cache, code_in_key=self.code_in_key)

    def make_hash(self, task: Task) -> str:
        """Returns the key of a task's call."""
        limit = unlimited(task["func"])
        function = task["func"] if limit is None else limit[0]
        return self.key_of(function, task["args"], task["kwargs"], task["ignore_for_cache"])

    def _find_known(self, known: KnownResults, hashsum: str, task: Task) -> Future[Any] | None:
        value, place = known.find(hashsum), known.place_of(hashsum)
        if value is MISSING and known.has_parsl_keys:
            key = _parsl_key(task)
            value, place = known.find_by_parsl_key(key), known.place_by_parsl_key(key)
        if value is MISSING:
            return None
        future: Future[Any] = Future()
        future.set_result(value)
        found = self.memo_lookup_table.setdefault(hashsum, future)
        if found is future:
            self._memory.hold(hashsum, size_of(value), place)
            if self.checkpoint_mode is not None:
                self._untold.add(hashsum)
            self.shrink()
        return future if isinstance(found, StoredFuture) else found

    def update_memo_result(self, task: Task, r: Any) -> None:
        """Remembers a result, and writes it if the mode is ``"task_exit"``."""
        if not self._remember(task, r):
            return
        if self.checkpoint_mode is not None and self._is_news(task):
            command = CheckpointCommand(task, result=r)
            self._memory.hold_command(task["hashsum"], command)
            self._update_checkpoint(command)
        self.shrink()

    def _is_news(self, task: Task) -> bool:
        """Returns whether the checkpoint needs this result. A result of an earlier run is needed once."""
        hashsum = task["hashsum"]
        if not task["from_memo"] or hashsum not in self.memo_lookup_table:
            return True
        with self._lock:
            is_new = hashsum in self._untold
            self._untold.discard(hashsum)
        return is_new

    def update_memo_exception(self, task: Task, e: BaseException) -> None:
        """Remembers a failure for this run. A cancelled call is forgotten."""
        if isinstance(e, CancelledError):
            hashsum = task["hashsum"]
            if hashsum and self.memo_lookup_table.get(hashsum) is task["app_fu"]:
                del self.memo_lookup_table[hashsum]
        elif self._remember(task, e):
            if self.checkpoint_mode is not None:
                command = CheckpointCommand(task, exception=e)
                self._memory.hold_command(task["hashsum"], command)
                self._update_checkpoint(command)
            self.shrink()

    def _remember(self, task: Task, outcome: Any) -> bool:
        """Remembers the outcome of a task that asked for it. Returns whether the task did."""
        hashsum = task["hashsum"] if self.memoize else None
        if not isinstance(hashsum, str):
            return False
        if not task["from_memo"]:
            self.memo_lookup_table[hashsum] = task["app_fu"]
            arguments = task.get("args") or (), task.get("kwargs") or {}
            self._memory.hold(hashsum, size_of(outcome) + size_of_arguments(*arguments))
        return True

    def update_memo_results(self, ends: Sequence[tuple[CheckpointedFuture, Any]]) -> None:
        """Records the results of calls that the engine ran, before the program can see them."""
        if not ends:
            return
        for one, result in ends:
            self._memory.hold(one.hashsum, size_of(result))
        if self.checkpoint_mode == "task_exit":
            with self._reporting(ends[0][0].tid):
                self._append_all(
                    entry
                    for one, result in ends
                    if one.hashsum not in self._written
                    if (entry := self._pickled(one.hashsum, result, one.tid)) is not None
                )
            return
        commands = [
            CheckpointCommand({"id": one.tid, "hashsum": one.hashsum}, result=result)
            for one, result in ends
        ]
        with self._lock:
            self.checkpointable_tasks += commands
        for command in commands:
            self._memory.hold_command(command.task_record["hashsum"], command)
        self._bound_queue()

    def shrink(self) -> None:
        """Moves results to disk, and forgets calls, if they exceed the memory limits."""
        try:
            self._memory.shrink()
            self.bound_entries()
        except Exception:
            # Logged only: the task that has just ended is not affected.
            _log.exception("remembered results could not be sent to disk")

    def _update_checkpoint(self, command: CheckpointCommand) -> None:
        if self.checkpoint_mode != "task_exit":
            with self._lock:
                self.checkpointable_tasks.append(command)
            self._bound_queue()
            return
        with self._reporting(command.task_record["id"]):
            self.checkpoint_one(command)

    def _bound_queue(self) -> None:
        """Writes the queued commands early, if there are more of them than the limit on entries."""
        if len(self.checkpointable_tasks) > self._memory.entries_max:
            with self._reporting(self.checkpointable_tasks[0].task_record["id"]):
                self.checkpoint_queue()

    def _write_early(self, command: CheckpointCommand) -> StoredFuture | None:
        """Writes a queued command early, because neither memory nor the spill file has room for its result."""
        hashsum = command.task_record["hashsum"]
        entry = self._entry(hashsum, command)
        if entry is None:
            return None
        with self._reporting(command.task_record["id"]):
            for stored in self._append(dict([entry]), {hashsum}):
                return stored
        return None

    @contextmanager
    def _reporting(self, number: int) -> Iterator[None]:
        """Logs write errors of its body, which fail no task: only the saved computation in later runs is lost."""
        try:
            yield
        except OSError as error:
            # Logged once, not for every task.
            if str(error) != self._last_error:
                self._last_error = str(error)
                text = "the results of task %s and of those after it are lost to later runs"
                _log.exception(text, number)

    def checkpoint_one(self, cc: CheckpointCommand) -> None:
        """Writes one command. Raises ``OSError`` if the file cannot be written; then nothing was written."""
        self._append(self._entries((cc,)))

    def checkpoint_queue(self) -> None:
        """Writes ``checkpointable_tasks`` and empties it. Raises ``OSError``; then all commands stay queued."""
        with self._lock:
            before = self.checkpointed_tasks
            commands: list[CheckpointCommand] = []
            # Commands that a signal handler, or the pickling of a result, adds meanwhile are written the next time.
            commands, self.checkpointable_tasks = self.checkpointable_tasks, commands
            try:
                self._write_all(commands)
            except BaseException:
                self.checkpointable_tasks[:0] = commands
                raise
            count = self.checkpointed_tasks - before
        if count:
            _log.info("Done checkpointing %s tasks", count)
        else:
            _log.info("No tasks checkpointed in this pass.")

    def _write_all(self, commands: Iterable[CheckpointCommand]) -> None:
        self._append_all(pair for one in commands for pair in self._entries((one,)).items())

    def _append_all(self, pairs: Iterable[tuple[str, bytes]]) -> None:
        """Writes entries, of which only a bounded number of bytes are in memory at a time."""
        entries: dict[str, bytes] = {}
        size = 0
        for hashsum, entry in pairs:
            entries[hashsum] = entry
            size += len(entry)
            if size >= _BATCH_SIZE:
                self._append(entries)
                entries, size = {}, 0
        # Also called without entries, because the first append makes the file.
        self._append(entries)

    def checkpoint(self) -> None:
        """Writes the results that are not written yet, for ``checkpoint_mode="manual"``. Raises ``OSError``."""
        self.checkpoint_queue()

    def _entries(self, commands: Iterable[CheckpointCommand]) -> dict[str, bytes]:
        """Returns the entries to write for the commands, by key. Only results are written."""
        return dict(
            entry
            for one in commands
            if one.exception is None and (hashsum := one.task_record["hashsum"])
            if (entry := self._entry(hashsum, one)) is not None
        )

    def _entry(self, hashsum: str, command: CheckpointCommand) -> tuple[str, bytes] | None:
        """Returns the checkpoint entry for a command, or ``None`` if it is written already, or has no result."""
        if hashsum in self._written:
            return None
        stored = command.stored
        try:
            if stored is not None and stored.key == hashsum:
                return hashsum, stored.entry()
            result = command.result
        except ResultLost as error:
            _log.warning("the result of a task is lost: it is not in the checkpoint (%s)", error)
            return None
        return self._pickled(hashsum, result, command.task_record["id"])

    def _pickled(self, hashsum: str, result: Any, number: int) -> tuple[str, bytes] | None:
        try:
            return hashsum, pickle_entry(hashsum, result)
        except Exception as error:
            text = "the result of task %s cannot be pickled: it is not in the checkpoint (%r)"
            _log.warning(text, number, error)
            return None

    def _append(self, entries: dict[str, bytes], wanted: Container[str] = ()) -> list[StoredFuture]:
        """Writes entries. Returns the locations of the wanted ones, and passes those that the memory needs to it."""
        with self._lock:
            if self._writer is None:
                return []
            memory = self._memory
            places = self._writer.append_all(
                entries.items(), lambda key: key in wanted or memory.wants_place(key)
            )
            self._written.update(entries)
            self.checkpointed_tasks += len(entries)
        for stored in places:
            memory.note_stored(stored)
        return places

    def close(self) -> None:
        """Writes the results that are not written yet and closes the file. Raises ``OSError`` if that fails."""
        if self._timer is not None:
            self._timer.close()
        try:
            if self.checkpoint_mode is not None:
                self.checkpoint_queue()
        finally:
            if self._writer is not None:
                self._writer.close()
            self._writer = None


def _parsl_key(task: Task) -> str:
    """Returns the key that Parsl itself gives a task, or an empty string if Parsl cannot make one."""
    try:
        return str(importlib.import_module("parsl.dataflow.memoization").make_hash(task))
    except Exception:
        return ""
