"""Remembering results: a call that was made before, in this run or an earlier one, is not made again.

``BasicMemoizer`` remembers in memory and, with a ``checkpoint_mode``, on disk. Only calls of apps with ``cache=True``
are remembered. A failure is remembered as long as the run lasts, and never written to disk. Which calls are the same:
see ``memo_key``; what is on disk, and what survives: see ``checkpoint``.
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

from gristmill._native import Future as NativeFuture
from gristmill.parsl.checkpoint import (
    FILE_NAME,
    MISSING,
    CheckpointWriter,
    KnownResults,
    get_all_checkpoints,
    pickle_entry,
)
from gristmill.parsl.checkpoint_timer import CheckpointTimer, parse_period
from gristmill.parsl.config import refuse
from gristmill.parsl.futures import AppFuture
from gristmill.parsl.memo_key import make_key
from gristmill.parsl.memoizer import CheckpointCommand, Memoizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence

    from gristmill.parsl.exits import CheckpointedFuture

    Task = MutableMapping[str, Any]
    Mode = Literal["task_exit", "periodic", "dfk_exit", "manual"]

__all__ = ["BasicMemoizer", "CheckpointCommand", "Memoizer"]

_log = logging.getLogger("parsl.gristmill.memoization")

_MODES = ("task_exit", "periodic", "dfk_exit", "manual")


class BasicMemoizer(Memoizer):
    """Remembers results by the content of function and arguments.

    :param checkpoint_files: checkpoints to load: folders or files. If not given, those of all earlier runs in the same
        folder if there is a ``checkpoint_mode``, else none.
    :param checkpoint_period: ``"HH:MM:SS"``, for ``"periodic"``.
    :param checkpoint_mode: when results are written to disk: each before anybody sees it (``"task_exit"``), every
        ``checkpoint_period`` (``"periodic"``), at the end (``"dfk_exit"``), or by ``checkpoint()`` (``"manual"``); all
        but the first also at the end. Never if not given.
    :param memoize: without it nothing is remembered.
    :param durable: each write waits for the disk, so that it survives a power loss and not only the process's death.
    :param code_in_key: whether an edited function is another one; without it only its name counts, as with Parsl.
    :param share_running: whether a call waits for the same call if that runs; without it both run, as with Parsl.

    Raises ``ConfigurationError`` for a mode or period that there is not.
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
    ) -> None:
        self.checkpoint_files = checkpoint_files
        self.checkpoint_period = checkpoint_period
        self.checkpoint_mode = checkpoint_mode
        self.memoize = memoize
        self.durable = durable
        self.code_in_key = code_in_key
        self.share_running = share_running
        self._check()
        #: Futures by keys: of tasks that ran, run, or were found in a checkpoint.
        self.memo_lookup_table: dict[str, Future[Any]] = {}
        #: Whoever holds it makes a call that nobody has made, and nobody else makes it meanwhile.
        self.claiming = threading.RLock()
        #: What ``checkpoint_queue`` is to write.
        self.checkpointable_tasks: list[CheckpointCommand] = []
        self.checkpointed_tasks = 0
        self._known: KnownResults | None = None
        self._written: set[str] = set()
        self._last_error = ""
        self._writer: CheckpointWriter | None = None
        self._timer: CheckpointTimer | None = None
        self._lock = threading.RLock()

    def _check(self) -> None:
        if self.checkpoint_mode is not None and self.checkpoint_mode not in _MODES:
            refuse(f"checkpoint_mode is one of {_MODES}, not {self.checkpoint_mode!r}")
        if self.checkpoint_mode == "periodic":
            parse_period(self.checkpoint_period)
        if isinstance(self.checkpoint_files, (str, bytes)):
            refuse("checkpoint_files is a list of paths, not one path")

    def start(self, *, run_dir: str, config_run_dir: str) -> None:
        """Loads the checkpoints. Raises ``BadCheckpoint`` where one is missing or is something else."""
        self.run_dir, self.config_run_dir = run_dir, config_run_dir
        if self.memoize:
            self._known = self._load()
        if self.checkpoint_mode is not None:
            self._writer = CheckpointWriter(run_dir, self.durable)
        if self.checkpoint_mode == "periodic":
            seconds = parse_period(self.checkpoint_period)
            self._timer = CheckpointTimer(self.checkpoint_queue, seconds)

    def _load(self) -> KnownResults | None:
        known, files = KnownResults(), self.checkpoint_files
        if files is None and self.checkpoint_mode is not None:
            # A run may have been killed between making the folder and making the file.
            folders = get_all_checkpoints(self.config_run_dir)
            files = [one for one in folders if os.path.exists(os.path.join(one, FILE_NAME))]
        for file in files or ():
            known.load(file)
        return known if len(known) else None

    def check_memo(self, task: Task) -> Future[Any] | None:
        """Gives the future of the same call if it was made; sets ``task["hashsum"]``. Raises ``MemoKeyError``."""
        if not self.memoize or not task["memoize"]:
            task["hashsum"] = None
            return None
        task["hashsum"] = hashsum = self.make_hash(task)
        table, own = self.memo_lookup_table, task["app_fu"]
        found = table.get(hashsum)
        if found is None and self._known is not None:
            found = self._find_known(self._known, hashsum, task)
        if found is None and self.share_running:
            # Of two threads at this place one wins.
            with self.claiming:
                found = table.setdefault(hashsum, own)
        if found is None or found is own:
            # Its own earlier attempt is no answer.
            return None
        if found.cancelled():
            table[hashsum] = own
            return None
        return found

    def recall(self, key: str) -> Any:
        """The result of the call with this key if it is there already, else ``MISSING``."""
        found: Any = self.memo_lookup_table.get(key)
        if found is None:
            return self._known.find(key) if self._known is not None else MISSING
        if isinstance(found, NativeFuture):
            return found.result() if found._look() == "succeeded" else MISSING
        # The two fields of every future of the graph: its methods would take its lock for what no longer changes.
        is_good = found._state == FINISHED and found._exception is None
        return found._result if is_good else MISSING

    def is_claimed(self, key: str) -> bool:
        """Whether somebody has made the call with this key; for those who hold ``claiming`` and make it if not."""
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
        """The key of a call. Raises ``MemoKeyError``."""
        return make_key(function, args, kwargs, ignore_for_cache, code_in_key=self.code_in_key)

    def make_hash(self, task: Task) -> str:
        """The key of a task's call."""
        return self.key_of(task["func"], task["args"], task["kwargs"], task["ignore_for_cache"])

    def _find_known(self, known: KnownResults, hashsum: str, task: Task) -> Future[Any] | None:
        value = known.find(hashsum)
        if value is MISSING and known.has_parsl_keys:
            value = known.find_by_parsl_key(_parsl_key(task))
        if value is MISSING:
            return None
        future: Future[Any] = Future()
        future.set_result(value)
        return self.memo_lookup_table.setdefault(hashsum, future)

    def update_memo_result(self, task: Task, r: Any) -> None:
        """Remembers a result, and writes it where it is to be written at once."""
        if self._remember(task) and self.checkpoint_mode is not None:
            self._update_checkpoint(CheckpointCommand(task, result=r))

    def update_memo_exception(self, task: Task, e: BaseException) -> None:
        """Remembers a failure for this run; a cancelled call is forgotten."""
        if isinstance(e, CancelledError):
            hashsum = task["hashsum"]
            if hashsum and self.memo_lookup_table.get(hashsum) is task["app_fu"]:
                del self.memo_lookup_table[hashsum]
        elif self._remember(task) and self.checkpoint_mode is not None:
            self._update_checkpoint(CheckpointCommand(task, exception=e))

    def _remember(self, task: Task) -> bool:
        """Whether this task is one to remember: it was asked for."""
        hashsum = task["hashsum"] if self.memoize else None
        if not isinstance(hashsum, str):
            return False
        if not task["from_memo"]:
            self.memo_lookup_table[hashsum] = task["app_fu"]
        return True

    def update_memo_results(self, ends: Sequence[tuple[CheckpointedFuture, Any]]) -> None:
        """Learns of calls that the engine ran: their futures, and their results, which nobody has seen yet."""
        if not ends:
            return
        if self.checkpoint_mode == "task_exit":
            with self._reporting(ends[0][0].tid):
                entries = (self._entry(one.hashsum, result, one) for one, result in ends)
                self._append(dict(filter(None, entries)))
            return
        commands = [
            CheckpointCommand({"id": one.tid, "hashsum": one.hashsum}, result=result)
            for one, result in ends
        ]
        with self._lock:
            self.checkpointable_tasks += commands

    def _update_checkpoint(self, command: CheckpointCommand) -> None:
        if self.checkpoint_mode != "task_exit":
            with self._lock:
                self.checkpointable_tasks.append(command)
            return
        with self._reporting(command.task_record["id"]):
            self.checkpoint_one(command)

    @contextmanager
    def _reporting(self, number: int) -> Iterator[None]:
        """What cannot be written fails no task: all that is lost is that its result need not be computed again."""
        try:
            yield
        except OSError as error:
            # Said once, not for every task.
            if str(error) != self._last_error:
                self._last_error = str(error)
                text = "the results of task %s and of those after it are lost to later runs"
                _log.exception(text, number)

    def checkpoint_one(self, cc: CheckpointCommand) -> None:
        """Writes one command. Raises ``OSError`` where the file cannot be written; then nothing was."""
        self._append(self._entries((cc,)))

    def checkpoint_queue(self) -> None:
        """Writes ``checkpointable_tasks`` and empties it. Raises ``OSError`` as ``checkpoint_one``; then all stay."""
        with self._lock:
            entries = self._entries(self.checkpointable_tasks)
            self._append(entries)
            self.checkpointable_tasks = []
        if entries:
            _log.info("Done checkpointing %s tasks", len(entries))
        else:
            _log.info("No tasks checkpointed in this pass.")

    def checkpoint(self) -> None:
        """Writes what was not written yet: for ``checkpoint_mode="manual"``. Raises ``OSError``."""
        self.checkpoint_queue()

    def _entries(self, commands: Iterable[CheckpointCommand]) -> dict[str, bytes]:
        """What is to be written, by its key: results only."""
        return dict(
            entry
            for one in commands
            if one.exception is None and (hashsum := one.task_record["hashsum"])
            if (entry := self._entry(hashsum, one.result, one.task_record)) is not None
        )

    def _entry(self, hashsum: str, result: Any, task: Any) -> tuple[str, bytes] | None:
        """What is to be written of a result: once a run, whether it was computed or found."""
        if hashsum in self._written:
            return None
        try:
            return hashsum, pickle_entry(hashsum, result)
        except Exception as error:
            number = task.tid if isinstance(task, AppFuture) else task["id"]
            text = "the result of task %s cannot be pickled: no checkpoint of it (%r)"
            _log.warning(text, number, error)
            return None

    def _append(self, entries: dict[str, bytes]) -> None:
        with self._lock:
            if self._writer is not None:
                self._writer.append_all(entries.items())
                self._written.update(entries)
                self.checkpointed_tasks += len(entries)

    def close(self) -> None:
        """Writes what was not written yet and lets the file go. Raises ``OSError`` where it cannot be written."""
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
    """The key that Parsl itself gives a task; none where it has none."""
    try:
        return str(importlib.import_module("parsl.dataflow.memoization").make_hash(task))
    except Exception:
        return ""
