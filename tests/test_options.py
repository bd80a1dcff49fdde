"""Nonsensical option values are refused where they are passed, with a message that names the option and the value."""

from __future__ import annotations

import math
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import gristmill
import gristmill.parsl as parsl
from gristmill import (
    BoundExecutor,
    Context,
    ContextCalls,
    ContextResources,
    ContextWorkers,
    Executor,
    Lease,
    TaskOptions,
    on,
)

import calls


class Odd:
    """A value that cannot be converted, not even to a text."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


class Fails:
    """A number that raises when it is read."""

    def __index__(self) -> int:
        raise KeyError("own")

    __float__ = __index__  # type: ignore[assignment]


HUGE = 10**400
WRONG_COUNTS = [True, 1.0, 1.5, "1", b"1", [], object(), Odd(), numpy.bool_(True), numpy.float64(1)]
WRONG_TIMES = [True, "x", b"1", [], object(), Odd(), 1j]
WRONG_FLAGS = ["no", 2, 1.0, [], Odd()]
NOT_FINITE = [math.nan, math.inf, -math.inf]


def counts(name: str, least: int, most: int) -> Iterator[tuple[str, Any, type[Exception]]]:
    for value in WRONG_COUNTS:
        yield name, value, TypeError
    for value in (least - 1, -HUGE, most + 1, HUGE, numpy.int64(least - 1)):
        yield name, value, ValueError


def times(name: str, *wrong: float) -> Iterator[tuple[str, Any, type[Exception]]]:
    for value in WRONG_TIMES:
        yield name, value, TypeError
    for value in (*NOT_FINITE, -1, HUGE, -HUGE, 1e300, *wrong):
        yield name, value, ValueError


def flags(name: str) -> Iterator[tuple[str, Any, type[Exception]]]:
    for value in WRONG_FLAGS:
        yield name, value, TypeError


def sizes(name: str) -> Iterator[tuple[str, Any, type[Exception]]]:
    for value in (True, 1.5, [], object(), Odd()):
        yield name, value, TypeError
    for value in ("", "x", "-1GB", "0", "9999999999999999999TB", "9" * 400, 0, -1, 2**63, HUGE):
        yield name, value, ValueError


def choices(name: str) -> Iterator[tuple[str, Any, type[Exception]]]:
    for value in ("x", "", 1, [], Odd()):
        yield name, value, ValueError


EXECUTOR = [
    *counts("max_workers", 1, 65535),
    *counts("max_tasks_per_child", 1, 2**32 - 1),
    *counts("threads_per_worker", 1, 65535),
    *counts("task_limit", 1, 2**63 - 1),
    *counts("gpus", 0, 16),
    *times("spin_seconds"),
    *times("start_timeout", 0),
    *sizes("memory"),
    *sizes("context_memory"),
    *choices("start"),
    *choices("when_full"),
    *flags("output"),
    ("preload", "json", TypeError),
    ("preload", 3, TypeError),
    ("preload", [3], TypeError),
    ("initializer", 3, TypeError),
    ("initargs", 3, TypeError),
    ("initargs", "ab", TypeError),
    ("nodes", 3, TypeError),
    ("nodes", "host:1", TypeError),
    ("nodes", [3], TypeError),
    ("nodes", [], ValueError),
    ("nodes", ["x"], ValueError),
    ("nodes", {}, ValueError),
    ("blobs", 3, TypeError),
]
TASKS = [
    *times("timeout"),
    *times("start_within"),
    *times("grace"),
    *counts("retries", 0, 65535),
    *counts("loss_retries", 0, 65535),
    *counts("timeout_retries", 0, 65535),
    *counts("priority", -(2**31), 2**31 - 1),
    *counts("cores", 1, 65535),
    *times("gpus", 17, 1.5, 0.0001),
    *sizes("memory"),
    *flags("views"),
    ("context", 3, TypeError),
]
MAPS = [
    *counts("buffersize", 1, 2**63 - 1),
    *(
        case
        for case in counts("chunksize", 1, 2**63)
        if not (type(case[1]) is int and case[1] > 2**63)
    ),
    *flags("ordered"),
    *flags("progress"),
    *[("timeout", value, TypeError) for value in ("x", b"1", [], Odd())],
    *[("timeout", value, ValueError) for value in (math.nan, HUGE)],
]
CONTEXTS = [
    ("name", 3, TypeError),
    ("resources", {"cores": 1}, TypeError),
    ("workers", 3, TypeError),
    ("calls", "fork", TypeError),
    ("environment", 3, TypeError),
    ("files", 3, TypeError),
    ("files", [3], TypeError),
    ("files", ["a\0b"], ValueError),
]
CONTEXT_RESOURCES = [
    *counts("cores", 1, 65535),
    *times("gpus", 17, 1.5),
    *sizes("memory"),
]
CONTEXT_WORKERS = [
    *counts("max_workers", 1, 65535),
    *times("timeout", 0),
    *times("keep"),
    *flags("fork"),
    ("preload", "json", TypeError),
]
CONTEXT_CALLS = [*choices("mode"), *flags("own_folder")]
LEASES = [
    *counts("max_workers", 1, 65535),
    *counts("gpus", 0, 16),
    *sizes("memory"),
    *times("seconds", 0),
    *times("spin_seconds"),
    *counts("task_limit", 1, 2**63 - 1),
]
NETWORKS = [
    *counts("port", 0, 65535),
    ("address", 3, TypeError),
    ("interface", 3, TypeError),
    ("group", 3, TypeError),
]
BLOBS = [
    *counts("fanout", 1, 65535),
    *counts("memory", 0, 2**63 - 1),
    *counts("disk", 0, 2**63 - 1),
    *choices("topology"),
]


def refuse(call: Callable[..., object], name: str, value: Any, error: type[Exception]) -> None:
    """Asserts that the call raises ``error``, which names the option and, if possible, the value."""
    with pytest.raises(error) as caught:
        call(**{name: value})
    text = str(caught.value)
    assert name in text
    if not isinstance(value, Odd) and name != "max_workers":
        assert repr(value).strip("[]()")[:60] in text


def name_of(case: Any) -> str:
    return case if isinstance(case, str) else type(case).__name__


def refused(cases: list[tuple[str, Any, type[Exception]]]) -> Any:
    return pytest.mark.parametrize(("name", "value", "error"), cases, ids=name_of)


@refused(EXECUTOR)
def test_an_executor_refuses(name: str, value: Any, error: type[Exception]) -> None:
    refuse(Executor, name, value, error)


@refused(TASKS)
def test_options_refuse(shared: Executor, name: str, value: Any, error: type[Exception]) -> None:
    refuse(shared.options, name, value, error)
    refuse(TaskOptions, name, value, error)


@refused(MAPS)
def test_map_refuses(shared: Executor, name: str, value: Any, error: type[Exception]) -> None:
    for owner in (shared, shared.options(retries=1)):
        refuse(
            lambda owner=owner, **options: owner.map(calls.same, [1], **options), name, value, error
        )


@refused(CONTEXTS)
def test_a_context_refuses(name: str, value: Any, error: type[Exception]) -> None:
    refuse(lambda **options: Context(dict, **options), name, value, error)


@refused(CONTEXT_RESOURCES)
def test_resources_of_a_context_refuse(name: str, value: Any, error: type[Exception]) -> None:
    refuse(ContextResources, name, value, error)


@refused(CONTEXT_WORKERS)
def test_workers_of_a_context_refuse(name: str, value: Any, error: type[Exception]) -> None:
    refuse(ContextWorkers, name, value, error)


@refused(CONTEXT_CALLS)
def test_calls_of_a_context_refuse(name: str, value: Any, error: type[Exception]) -> None:
    refuse(ContextCalls, name, value, error)


@pytest.mark.parametrize("files", [{3: "x"}, {"x": 3}, {"x": Odd()}])
def test_a_context_refuses_names_and_paths_that_are_none(files: Any) -> None:
    with pytest.raises(TypeError, match="files must be a"):
        Context(dict, files=files)


@refused(LEASES)
def test_a_lease_refuses(name: str, value: Any, error: type[Exception]) -> None:
    refuse(Lease, name, value, error)


@refused(NETWORKS)
def test_a_network_refuses(name: str, value: Any, error: type[Exception]) -> None:
    refuse(on.Network, name, value, error)


@refused(BLOBS)
def test_blobs_refuse(name: str, value: Any, error: type[Exception]) -> None:
    refuse(on.Blobs, name, value, error)


PARSL = [
    *counts("max_workers", 1, 65535),
    *counts("threads_per_worker", 1, 65535),
    *counts("max_tasks_per_child", 1, 2**32 - 1),
    *counts("task_limit", 1, 2**63 - 1),
    *counts("loss_retries", 0, 65535),
    *choices("start_method"),
    ("preload", "json", TypeError),
]


@refused(PARSL)
def test_an_executor_of_parsl_programs_refuses(
    name: str, value: Any, error: type[Exception]
) -> None:
    refuse(parsl.GristmillExecutor, name, value, error)


class Provider:
    """The parts of a Parsl provider that a placement reads when it is made."""

    init_blocks, min_blocks, max_blocks, parallelism, nodes_per_block = 1, 0, 1, 1, 1

    def submit(self) -> None:
        pass

    status = cancel = submit


NUMBERS = [*counts("workers", 1, 65535), ("network", 7700, TypeError)]
PLACES: list[tuple[Callable[..., object], list[tuple[str, Any, type[Exception]]]]] = [
    (
        on.local,
        [
            *NUMBERS,
            *counts("count", 1, 65535),
            ("cpu_affinity", 3, TypeError),
        ],
    ),
    (
        lambda **options: on.ssh(["host"], **options),
        [
            *NUMBERS,
            ("python", 3, TypeError),
            ("worker_init", 3, TypeError),
            ("shell", 3, TypeError),
            ("shell", "ssh", TypeError),
            ("shell", [], ValueError),
            *flags("reverse"),
        ],
    ),
    (
        lambda **options: on.mpi(launcher=["mpiexec"], **options),
        [*NUMBERS, ("python", 3, TypeError), *counts("count", 1, 2**32 - 1)],
    ),
    (
        lambda **options: on.mpi(**options),
        [
            ("launcher", 3, TypeError),
            ("launcher", "mpiexec", TypeError),
            ("launcher", [], ValueError),
        ],
    ),
    (
        lambda **options: on.provider(Provider(), **options),
        [
            *counts("nodes_per_block", 1, 2**32 - 1),
            *counts("init_blocks", 0, 2**32 - 1),
            *counts("min_blocks", 0, 2**32 - 1),
            *counts("max_blocks", 0, 2**32 - 1),
            ("parallelism", "x", TypeError),
            ("parallelism", math.nan, ValueError),
            ("run_dir", 3, TypeError),
            ("run_dir", "a\0b", ValueError),
            ("python", 3, TypeError),
            ("strategy", numpy.zeros(3), TypeError),
            ("block_error_handler", "x", TypeError),
            ("block_error_handler", numpy.zeros(3), TypeError),
        ],
    ),
    (
        on.ssh,
        [
            ("hosts", "host", ValueError),
            ("hosts", [], ValueError),
            ("hosts", [3], TypeError),
            ("hosts", ["one", ""], ValueError),
            ("hosts", ["one", "two", "one"], ValueError),
        ],
    ),
    (lambda **options: on.hosts("a:1", **options), [("key", 3, TypeError)]),
    (lambda addresses: on.hosts(addresses), [("addresses", 3, TypeError)]),
    (
        lambda addresses: on.hosts(*addresses, key="key"),
        [("addresses", ["a:1", "a:1"], ValueError)],
    ),
]


@pytest.mark.parametrize("place", range(len(PLACES)))
def test_placements_refuse(place: int) -> None:
    call, cases = PLACES[place]
    for name, value, error in cases:
        refuse(call, name, value, error)


@pytest.mark.parametrize(
    "address", ["host", "host:", ":1", "host:x", "host:99999", "host:0", "host:\u0663"]
)
def test_an_address_that_is_none_is_named(address: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        on.hosts(address, key="key")


def test_options_of_a_cluster_of_ray_are_refused_before_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    for name in ("ray", "ray.util", "ray.util.scheduling_strategies"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setattr(sys.modules["ray"], "is_initialized", lambda: False, raising=False)
    monkeypatch.setattr(sys.modules["ray"], "init", asked.append, raising=False)
    cases = [
        *NUMBERS,
        ("cpus", "x", TypeError),
        ("nodes", 0, ValueError),
        ("options", 3, TypeError),
        ("cpu_affinity", 3, TypeError),
        ("cluster", 3, TypeError),
    ]
    for name, value, error in cases:
        refuse(on.ray, name, value, error)
    assert not asked


SHAPES = [
    (1.5, TypeError),
    ("x", TypeError),
    (None, TypeError),
    (True, TypeError),
    ((1, "x"), TypeError),
    (-1, ValueError),
    ((2, -1), ValueError),
    (2**63, ValueError),
    (HUGE, ValueError),
    ((2**40, 2**40), ValueError),
]


@pytest.mark.parametrize(("shape", "error"), SHAPES, ids=name_of)
def test_a_shape_that_no_array_has_is_refused(
    shared: Executor, shape: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="shape"):
        gristmill.array(shape, executor=shared)


def test_a_shape_may_be_numpys(shared: Executor) -> None:
    assert gristmill.array(numpy.int64(3), executor=shared).shape == (3,)
    assert gristmill.array(numpy.array([2, 3]), executor=shared).shape == (2, 3)
    assert gristmill.array((), executor=shared).shape == ()


def test_a_lease_may_be_for_longer_than_threads_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class Timer(threading.Timer):
        """A timer that records how long it waits."""

        def __init__(self, interval: float, *arguments: Any) -> None:
            waits.append(interval)
            super().__init__(min(interval, threading.TIMEOUT_MAX), *arguments)

    monkeypatch.setattr(threading, "Timer", Timer)
    with Lease(max_workers=1, seconds=1.8e10) as lease:
        lease.extend(1.8e10)
        assert lease.ends_in is not None
    assert len(waits) == 2
    assert max(waits) <= threading.TIMEOUT_MAX


def test_numbers_of_numpy_are_taken_everywhere() -> None:
    one, two, half = numpy.int64(1), numpy.uint8(2), numpy.float32(0.5)
    terms = {
        "max_tasks_per_child": numpy.int32(1000),
        "threads_per_worker": one,
        "spin_seconds": half,
        "task_limit": numpy.int16(1000),
        "memory": numpy.int64(10**6),
        "gpus": one,
        "output": numpy.bool_(True),
    }
    with Executor(two, **terms) as executor:  # type: ignore[arg-type]
        options = executor.options(
            timeout=numpy.float32(50), start_within=numpy.int64(50), retries=two, loss_retries=one,
            timeout_retries=one, priority=numpy.int8(-3), grace=half, views=numpy.bool_(False),
            cores=two, gpus=half, memory=numpy.int64(1000),
        )  # fmt: skip
        assert options.submit(calls.same, 3).result(numpy.float32(50)) == 3
        results = options.map(
            calls.same, [1], timeout=numpy.int64(50), buffersize=two, chunksize=one,
            ordered=numpy.bool_(True),
        )  # fmt: skip
        assert list(results) == [1]
        future = executor.submit(calls.same, 1)
        assert gristmill.wait_any([future], numpy.int64(50)) is future
        assert future.cancel(running=numpy.bool_(True), grace=half) in (True, False)
    context = Context(
        dict,
        workers=ContextWorkers(max_workers=two, timeout=one, keep=half, fork=numpy.bool_(True)),
        resources=ContextResources(cores=one, gpus=half),
    )
    assert context.workers.max_workers == 2
    assert on.Blobs(fanout=two, memory=one).fanout == 2
    assert on.local(two, one, network=on.Network(port=numpy.int64(0)))


@pytest.mark.parametrize("value", ["x", math.nan, HUGE, [], b"1"])
def test_waits_refuse_what_is_no_time(shared: Executor, value: Any) -> None:
    future = shared.submit(calls.same, 1)
    waits: list[Callable[[], object]] = [
        lambda: shared.submit(calls.same, 1).result(value),
        lambda: shared.submit(calls.same, 1).exception(timeout=value),
        lambda: gristmill.wait_any([future], timeout=value),
    ]
    for wait in waits:
        with pytest.raises((TypeError, ValueError), match="timeout"):
            wait()
    for wait in (
        lambda: future.cancel(grace=value),
        lambda: future.cancel(running=True, grace=value),
    ):
        with pytest.raises((TypeError, ValueError), match="grace"):
            wait()


@pytest.mark.parametrize("grace", [-1, -math.inf, math.inf])
def test_a_grace_that_is_no_time_is_refused(shared: Executor, grace: float) -> None:
    with pytest.raises(ValueError, match=f"grace must be .*, not {grace}"):
        shared.submit(calls.same, 1).cancel(running=True, grace=grace)


@pytest.mark.parametrize("timeout", [None, math.inf, 1e300, 10**20])
def test_waits_take_times_without_an_end(shared: Executor, timeout: float | None) -> None:
    assert shared.submit(calls.same, 1).result(timeout) == 1
    assert list(shared.map(calls.same, [2], timeout=timeout)) == [2]


def test_what_a_number_raises_itself_arrives(shared: Executor) -> None:
    for call in (
        lambda: shared.options(timeout=Fails()),  # type: ignore[arg-type]
        lambda: shared.options(retries=Fails()),  # type: ignore[arg-type]
        lambda: shared.submit(calls.same, 1).result(Fails()),  # type: ignore[arg-type]
    ):
        with pytest.raises(KeyError, match="own"):
            call()


def subclass(executor: Executor) -> Executor:
    class Own(Executor):
        pass

    return Own(1)


def test_submit_needs_a_function_by_position(shared: Executor) -> None:
    with Lease(max_workers=1) as lease, subclass(shared) as own:
        owners: list[Any] = [
            shared,
            shared.options(retries=1),
            lease,
            lease.options(),
            own,
            Context(dict),
        ]
        for owner in owners:
            for arguments in ({}, {"fn": abs}, {"fn": abs, "a": 1}, {"a": 1, "b": 2, "c": 3}):
                with pytest.raises(TypeError):
                    owner.submit(**arguments)
            with pytest.raises(TypeError, match="callable"):
                owner.submit(3)
        for owner in owners[:-1]:
            with pytest.raises(TypeError, match="callable"):
                owner.map(3, [1])
            assert owner.submit(calls.both, a=4).result() == ((), {"a": 4})


def nested() -> list[str]:
    executor = gristmill.current_executor()
    said = []
    trials: list[Callable[[], object]] = [
        lambda: executor.submit(),  # type: ignore[call-arg]
        lambda: executor.submit(fn=abs),  # type: ignore[call-arg]
        lambda: executor.options(retries=1).submit(fn=abs, a=1),  # type: ignore[call-arg]
        lambda: executor.options(retries=-1),
        lambda: executor.options(timeout="x"),  # type: ignore[arg-type]
        lambda: executor.options(priority=2**31),
        lambda: executor.map(abs, [1], buffersize=2**64),
        lambda: executor.map(abs, [1], timeout=10**400),
        lambda: executor.submit(abs, 1).result(timeout="x"),  # type: ignore[arg-type]
        lambda: executor.submit(abs, 1).cancel(grace=-1),
    ]
    for trial in trials:
        try:
            trial()
        except (TypeError, ValueError) as error:
            said.append(str(error))
        else:
            said.append("accepted")
    return said


def test_the_executor_of_a_task_checks_its_options_too(shared: Executor) -> None:
    said = shared.submit(nested).result()
    for text, word in zip(
        said,
        [
            "fn",
            "fn",
            "fn",
            "retries",
            "timeout",
            "priority",
            "buffersize",
            "timeout",
            "timeout",
            "grace",
        ],
        strict=True,
    ):
        assert word in text


def sleep_long() -> None:
    threading.Event().wait()


def wait_too_long() -> str:
    try:
        gristmill.current_executor().options(timeout=0.1, grace=0.1).submit(sleep_long).result()
    except gristmill.TaskTimeoutError as error:
        return str(error)
    return "it ended"


def test_tasks_of_tasks_have_names_in_errors(shared: Executor) -> None:
    assert "(sleep_long)" in shared.submit(wait_too_long).result()


def fail(text: str) -> None:
    raise FileNotFoundError(text)


class Silent(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


def fail_silently() -> None:
    raise Silent


@pytest.mark.parametrize(
    ("first", "arguments", "words"),
    [
        (fail, ("no such table",), ["fail", "FileNotFoundError", "no such table"]),
        (fail, ("a\nb" + "c" * 9999,), ["fail", "FileNotFoundError: a"]),
        (calls.leave, (3,), ["leave", "WorkerLostError", "exited with code 3"]),
        (fail_silently, (), ["fail_silently", "Silent"]),
    ],
)
def test_dependency_failed_says_what_failed_and_how(
    shared: Executor, first: Callable[..., Any], arguments: tuple[Any, ...], words: list[str]
) -> None:
    direct = shared.submit(calls.same, shared.submit(first, *arguments))
    behind = shared.submit(calls.same, direct)
    for future in (direct, behind, shared.submit(calls.same, behind)):
        text = str(future.exception())
        assert all(word in text for word in words)
        assert len(text) < 2000


def test_what_is_too_much_is_said_in_the_units_of_the_user() -> None:
    with Executor(1, gpus=0, memory=10**6) as executor:
        for terms, words in (
            ({"cores": 2}, "needs 2 workers, and the executor has 1 worker"),
            ({"gpus": 0.5}, "needs 0.5 of a GPU, and the executor has no GPU"),
            ({"gpus": 1}, "needs 1 GPU, and the executor has no GPU"),
            (
                {"memory": "2MB"},
                "needs 2000000 bytes of memory, and the executor has 1000000 bytes",
            ),
        ):
            with pytest.raises(gristmill.ResourceError, match=words):
                executor.options(**terms).submit(abs, 1)  # type: ignore[arg-type]
            with pytest.raises(gristmill.ResourceError):
                executor.options(context=Context(dict, resources=ContextResources(**terms))).submit(
                    abs, 1
                )  # type: ignore[arg-type]


def test_options_are_made_by_an_executor(shared: Executor) -> None:
    with pytest.raises(TypeError):
        BoundExecutor()  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [abs, len, iter([]), {}, [], (1,), (n for n in ()), 3, type])
def test_only_instances_of_python_classes_can_be_hidden_from_the_collector(value: Any) -> None:
    from gristmill import _native

    with pytest.raises(TypeError):
        _native.hide_from_collector(value)


def test_an_argument_of_the_initializer_that_cannot_be_sent_is_named() -> None:
    import multiprocessing

    for arguments, words in (
        ((1, threading.Lock()), r"initargs\[1\] \(lock\)"),
        (({"a": [multiprocessing.Lock()]},), r"initargs\[0\]\['a'\]\[0\].*Manager"),
    ):
        with (
            Executor(1, initializer=calls.both, initargs=arguments) as executor,
            pytest.raises(gristmill.UnpicklableError, match=words),
        ):
            executor.submit(abs, 1)
