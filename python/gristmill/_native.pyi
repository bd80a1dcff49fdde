# The interface of the native part. The stubtest of mypy checks it against the compiled module.

import concurrent.futures
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Generic, Literal, NoReturn, Self, TypeVar, final, type_check_only

from typing_extensions import disjoint_base

from gristmill._completion import Event, Registry, Waiters
from gristmill._condition import Condition
from gristmill._executor import BoundExecutor, Executor
from gristmill._images.contents import Contents
from gristmill._timings import Timings

__all__ = [
    "BLOCK_MIN",
    "INTERRUPT_SIGNAL",
    "SETUP_ALARM",
    "SETUP_EXIT_CODE",
    "THREADED_EXIT_CODE",
    "AppFastPath",
    "ArenaMemory",
    "BoundEngine",
    "BroughtFile",
    "ContextUse",
    "Engine",
    "Fleet",
    "ForeignFutureError",
    "Future",
    "GuardedMemory",
    "Journal",
    "JournalEntries",
    "Ledger",
    "MapResults",
    "NestedContext",
    "NestedTerms",
    "SetupTimer",
    "Ticket",
    "Zygote",
    "abort_all",
    "await_stderr",
    "become_a_worker",
    "build_info",
    "call_native",
    "call_native_by_handle",
    "call_native_bytes",
    "call_payload",
    "content_digest",
    "cpu_count",
    "cpu_limits",
    "decode_payload",
    "encode_payload",
    "finish_all",
    "generation",
    "handled_signals",
    "hide_from_collector",
    "image_copy",
    "image_digest",
    "image_head",
    "image_pack",
    "image_unpack",
    "image_write_tar",
    "is_interrupted",
    "is_loading",
    "job_signals",
    "leave_signal_again",
    "leave_signals_to_program",
    "library_tables",
    "loading_begin",
    "loading_end",
    "loading_goes_on",
    "loading_interrupted",
    "make_app_future_type",
    "map_bytes_max",
    "memory_sizes",
    "modules_changed",
    "nested_cancel",
    "nested_check",
    "nested_define_context",
    "nested_exception",
    "nested_result",
    "nested_size",
    "nested_state",
    "nested_submit",
    "nested_wait",
    "nested_watch",
    "note_handled_signals",
    "note_stderr",
    "note_text",
    "notices_clone",
    "panic_on_purpose",
    "replay_costs",
    "replay_graph",
    "return_lent",
    "run_agent",
    "serve",
    "show_to_collector",
    "signal_name",
    "spill_place",
    "tell_left",
    "wait_any",
]

_R = TypeVar("_R")

BLOCK_MIN: Final[int]
INTERRUPT_SIGNAL: Final[int]
SETUP_ALARM: Final[int]
SETUP_EXIT_CODE: Final[int]
THREADED_EXIT_CODE: Final[int]

@final
class SetupTimer:
    def __new__(cls, seconds: float) -> SetupTimer: ...
    def stop(self) -> None: ...

@final
class Fleet:
    def __new__(cls, path: str | os.PathLike[str] | None = None) -> Fleet: ...
    def node_key(self) -> str: ...
    def write(self, client: str | os.PathLike[str], node: str | os.PathLike[str]) -> None: ...

def run_agent(
    key: str,
    *,
    join: Sequence[str],
    listen: str | None,
    name: str,
    workers: int,
    memory: int,
    gpus: int,
    cores: int,
    numa_nodes: Sequence[int],
    pins: Sequence[int],
    labels: str,
    patience_s: float | None,
    walltime_s: float | None,
    drain_s: float,
    program: dict[str, Any],
    opened: Callable[[str | None], object],
) -> tuple[str, str]: ...

@final
class Future(concurrent.futures.Future[_R]):
    """The outcome of one task, now or later.

    A ``concurrent.futures.Future`` that only an executor makes. A coroutine can await it. As an argument of another
    task, also inside lists, tuples and dicts, it makes that task wait and stands for the value.

    ```pycon
    >>> from gristmill import Executor
    >>> with Executor(2) as executor:
    ...     power = executor.submit(pow, 2, 10)
    ...     executor.submit(sum, [power, 1]).result()
    1025
    ```
    """

    def result(self, timeout: float | None = None) -> _R:
        """Returns the value of the task, or raises the exception of the task, ``CancelledError``, or ``TimeoutError``
        after ``timeout`` seconds.
        """

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the exception of the task, or ``None``; raises ``CancelledError``, or ``TimeoutError`` after
        ``timeout`` seconds.
        """

    def done(self) -> bool:
        """Returns whether the task has its final state."""

    def running(self) -> bool:
        """Returns whether a worker has the task: it may have started."""

    def cancelled(self) -> bool:
        """Returns whether the task was cancelled."""

    def cancel(self, running: bool = False, grace: float = 1.0) -> bool:
        """Cancels a task that has not started: True at once. With ``running``, a started one is interrupted
        (``TaskInterrupted`` is raised in it) and after ``grace`` seconds its worker is killed.

        Returns whether the task is cancelled, or about to be.
        """

    def add_done_callback(self, fn: Callable[[Future[_R]], object]) -> None:
        """Calls ``fn(future)`` when the task is final, from the dispatcher thread; at once if it is."""

    def _gather(self, sink: Callable[[list[int]], list[int]]) -> None: ...
    def timings(self) -> Timings:
        """Returns the times at which the task passed each stage, in nanoseconds after its submission: a
        ``gristmill.Timings``.
        """

    def set_running_or_notify_cancel(self) -> bool: ...
    def set_result(self, result: _R) -> None: ...
    def set_exception(self, exception: BaseException | None) -> None: ...
    def __await__(self) -> Generator[Any, None, _R]: ...
    def _current_state(self) -> str: ...
    def _look(self) -> Literal["waiting", "running", "succeeded", "failed", "cancelled"]: ...
    def _failed(self) -> bool: ...
    _task: Final[int]
    _condition: Condition  # type: ignore[assignment]
    _state: str
    _result: _R | None
    _exception: BaseException | None
    _waiters: Waiters  # type: ignore[assignment]

# The type that `make_app_future_type` makes, without the members of its mixin. Only there can a class derive from
# `Future`.
@type_check_only
class AppFuture(Future[_R]):  # type: ignore[misc]
    @property
    def _number(self) -> int: ...
    @property
    def _app(self) -> Any: ...
    @property
    def _arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None: ...
    @property
    def _is_fetched(self) -> bool: ...
    def _forget_arguments(self) -> None: ...

@disjoint_base
class Engine:
    _registry: Registry | None
    def __new__(cls, *_arguments: Any, **_named: Any) -> Engine: ...
    def submit(self, fn: Callable[..., _R], /, *args: Any, **kwargs: Any) -> Future[_R]:
        """Runs ``fn(*args, **kwargs)`` in a worker; returns its future.

        Futures among the arguments, also inside lists, tuples and dicts, are replaced by their values: the task starts
        when they are there. Raises ``ShutDownError`` after the shutdown, ``ForkedProcessError`` in a forked child, and
        ``LimitReachedError`` at the limit of an executor with ``when_full="raise"``.
        """

    def _stats(self) -> dict[str, int]: ...
    def _allocate(self, size: int) -> ArenaMemory: ...
    def _arena_use(self) -> tuple[int, int, int]: ...
    def _configure(
        self,
        *,
        workers: int,
        tasks_per_worker: int,
        spawn: bool,
        spin_us: float,
        task_limit: int,
        block_when_full: bool,
        has_nodes: bool = ...,
        memory: int = ...,
        gpus: int = ...,
        fanout: int = ...,
        topology: str = ...,
        context_memory: int = ...,
    ) -> None: ...
    def _define_context(
        self,
        name: str,
        setup: bytes,
        terms: tuple[int, bool, float | None, tuple[int, int, int]],
        files: Sequence[tuple[str, str]],
    ) -> ContextUse: ...
    def _has_started(self) -> bool: ...
    def _kick(self) -> None: ...
    def _open_connection_manager(
        self,
        fleet: Fleet,
        worker_environment: bytes,
        *,
        listen: str | None,
        dial: Sequence[str],
        name: str,
        directory: bytes,
        workers: int,
        tasks_per_worker: int,
        spawn: bool,
        memory: int,
        gpus: int,
        duration_s: float | None,
        blob_memory: int | None,
        blob_disk: int | None,
        context_memory: int | None,
        beat_s: float,
        expiry_s: float,
        exact: bool,
        nodes_max: int | None,
        on_event: Callable[[str, str], object],
    ) -> str | None: ...
    def _explain(
        self, future: concurrent.futures.Future[Any], failures: Sequence[tuple[str, str]]
    ) -> str: ...
    def _allocation(self) -> tuple[float, float]: ...
    def _expire(self, text: str) -> None: ...
    def _extend(self, seconds: float) -> None: ...
    def _give_up_nodes(self, reason: str) -> None: ...
    def _departures(self, known: int) -> tuple[int, list[tuple[str, str, bool]]]: ...
    def _is_broken(self) -> bool: ...
    def _node_failures(self) -> list[tuple[str, str]]: ...
    def _nodes(self) -> list[dict[str, Any]]: ...
    def _next_callbacks(self, seconds: float) -> list[int] | None: ...
    def _serve(
        self, event: Event, complete: Callable[[int], None], timeout: float | None
    ) -> bool: ...
    def _abort(self, reason: str, cancels: bool = False) -> None: ...
    def _shut_down(self, wait: bool, cancel_futures: bool) -> None: ...
    def _start_map(
        self,
        options: BoundExecutor | None,
        function: Callable[..., _R],
        items: Iterator[Any],
        unpacks: bool,
        window: int,
        is_bounded: bool,
        timeout: float | None,
        is_ordered: bool,
        ends: bool | None,
    ) -> MapResults[_R]: ...
    def _wait_all(self, timeout: float | None = None) -> bool: ...
    def _watch(self, future: Future[Any], callbacks: bool) -> bool: ...

@disjoint_base
class BoundEngine:
    def __new__(cls, engine: Engine, values: Any) -> Self: ...
    @property
    def executor(self) -> Executor:
        """The executor."""

    @property
    def _values(self) -> Any: ...
    def submit(self, fn: Callable[..., _R], /, *args: Any, **kwargs: Any) -> Future[_R]:
        """Runs ``fn(*args, **kwargs)`` in a worker; returns its future.

        Otherwise it works as the executor's.
        """

@final
class ContextUse:
    def report(self) -> dict[str, Any] | None: ...
    def release(self) -> None: ...

@final
class NestedContext:
    def report(self) -> None: ...
    def release(self) -> None: ...

@final
class NestedTerms:
    def __new__(cls, options: Any) -> NestedTerms: ...

@final
class AppFastPath:
    def __new__(
        cls,
        engine: Engine,
        options: Any,
        tells: bool = False,
    ) -> AppFastPath: ...
    def submit(
        self,
        app: object,
        function: Callable[..., _R],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any] | None,
        ledger: Ledger,
        /,
    ) -> AppFuture[_R]: ...

@final
class Ledger:
    def __new__(cls) -> Ledger: ...
    def next(self) -> int: ...
    @property
    def count(self) -> int: ...
    def living(self) -> list[AppFuture[Any]]: ...
    def watch_fetched(self, step: int, callback: Callable[[], object]) -> None: ...

class ForeignFutureError(ValueError):
    code: str

@final
class MapResults(Generic[_R]):
    def __iter__(self) -> MapResults[_R]: ...
    def __next__(self) -> _R: ...
    def close(self) -> None: ...
    def _submit_rest(self) -> None: ...

@final
class ArenaMemory:
    def __len__(self) -> int: ...

@final
class GuardedMemory:
    def __new__(cls, size: int) -> GuardedMemory: ...
    def __len__(self) -> int: ...

@final
class Journal:
    def __new__(cls, path: str | os.PathLike[str], durable: bool = False) -> Journal: ...
    def append(self, key: bytes, value: bytes) -> None: ...
    def append_all(self, pairs: list[tuple[bytes, bytes]]) -> None: ...
    def close(self) -> None: ...
    def entries(self) -> JournalEntries: ...
    @property
    def lost(self) -> int: ...
    @property
    def recovered(self) -> int: ...
    @staticmethod
    def read(path: str | os.PathLike[str]) -> JournalEntries: ...
    def sync(self) -> None: ...

@final
class JournalEntries:
    def __iter__(self) -> JournalEntries: ...
    def __next__(self) -> tuple[bytes, bytes]: ...
    @property
    def lost(self) -> int: ...

@disjoint_base
class Ticket:
    def __new__(cls, number: int) -> Ticket: ...
    @property
    def _ticket(self) -> int: ...

@final
class Zygote:
    def __new__(cls, control: int) -> Zygote: ...
    def announce(self) -> None: ...
    def serve(
        self,
        prepare: Callable[[], None],
        warm_up: Callable[[], bool],
        is_threaded: Callable[[], bool],
    ) -> tuple[int, int] | None: ...
    def at_work(self) -> None: ...
    @staticmethod
    def use_huge_pages(longest_s: float) -> int: ...

def become_a_worker(
    keeper: int, parent: int, stderr: int | None, close_on_exec: list[int]
) -> None: ...
def build_info() -> dict[str, str]: ...
def call_native(address: int, name: str, input: object, output: object) -> int: ...
def call_native_bytes(address: int, name: str, input: bytes, capacity: int | None) -> bytes: ...
def call_native_by_handle(
    address: int,
    name: str,
    input: object,
    output: object,
    kept: tuple[bytes, ...],
    guards: bool,
) -> tuple[int, int, bytearray | None, str]: ...
def panic_on_purpose() -> NoReturn: ...
def call_payload(function: Callable[..., _R], payload: bytes) -> _R: ...
def cpu_count() -> int: ...
def cpu_limits() -> tuple[int, float | None]: ...
def memory_sizes() -> tuple[int, int]: ...
def spill_place() -> tuple[tuple[Path, int] | None, list[tuple[Path, str]]]: ...
def decode_payload(payload: bytes) -> Any: ...
def encode_payload(value: Any) -> bytes: ...
def abort_all(reason: str) -> None: ...
def finish_all() -> None: ...

@final
class BroughtFile:
    @property
    def digest(self) -> str: ...
    @property
    def size(self) -> int: ...
    def write_to(self, path: str) -> None: ...

def image_copy(path: str, digest: str, target: str) -> None: ...
def image_digest(path: str) -> str: ...
def image_head(path: str) -> tuple[int, int]: ...
def image_pack(contents: Contents, path: str, level: int, thread_count: int) -> str: ...
def image_unpack(path: str, digest: str, folder: str, thread_count: int) -> None: ...
def image_write_tar(contents: Contents, descriptor: int) -> None: ...
def return_lent(buffer: object) -> None: ...
def modules_changed() -> None: ...
def is_interrupted() -> bool: ...
def tell_left() -> bool: ...
def generation() -> int: ...
def notices_clone() -> bool: ...
def is_loading() -> bool: ...
def loading_begin(text: str) -> None: ...
def loading_goes_on(text: str) -> None: ...
def loading_end(has_failed: bool) -> None: ...
def loading_interrupted() -> None: ...
def note_text() -> None: ...
def note_stderr() -> None: ...
def await_stderr() -> None: ...
def job_signals() -> list[int]: ...
def leave_signals_to_program(keeper: int | None = None) -> None: ...
def handled_signals() -> int: ...
def note_handled_signals(signals: int) -> None: ...
def leave_signal_again(number: int) -> None: ...
def content_digest(content: bytes) -> bytes: ...
def library_tables(content: bytes) -> tuple[str | None, list[str], list[str], list[str]]: ...
def signal_name(number: int) -> str: ...
def hide_from_collector(object: object) -> None: ...
def map_bytes_max() -> int: ...
def make_app_future_type(mixin: type) -> type[AppFuture[Any]]: ...
def nested_cancel(ticket: int, grace: float | None) -> bool: ...
def nested_check() -> None: ...
def nested_define_context(
    name: str, setup: bytes, terms: tuple[int, bool, float | None, tuple[int, int, int]]
) -> NestedContext: ...
def nested_exception(ticket: Ticket, timeout: float | None) -> BaseException | None: ...
def nested_result(ticket: Ticket, timeout: float | None) -> Any: ...
def nested_size(of_result: bool) -> int: ...
def nested_state(ticket: int, looks: bool) -> int: ...
def nested_submit(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    options: NestedTerms | None,
    context: NestedContext | None = None,
) -> int: ...
def nested_wait(is_done: Callable[[], bool], timeout: float | None) -> bool: ...
def nested_watch(ticket: int) -> bool: ...
def replay_costs() -> dict[str, float]: ...
def replay_graph(
    tasks: list[tuple[int, int, int, int, list[int]]],
    cluster: tuple[int, int, int | None],
    costs: dict[str, float],
    seed: int,
) -> dict[str, Any]: ...
def serve(
    memory: tuple[int, int, int, int],
    worker: tuple[int, int],
    spin_us: float | None,
    mark: bytes | None,
    initialize: Callable[[], str | None],
) -> None: ...
def show_to_collector(object: object) -> None: ...
def wait_any(futures: Iterable[Future[_R]], timeout: float | None = None) -> Future[_R]: ...
