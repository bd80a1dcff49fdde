"""Waits over futures of several executors and libraries at the same time behave as the standard library's waits over
its own futures.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, Future, _base
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill
import gristmill.parsl as parsl
from gristmill import Executor, Lease, _completion, on
from gristmill.parsl import Config, GristmillExecutor, python_app
from interrupted import Interruption, at_each_place

import calls
import nested_tasks
from stage import Gate
from staged import WATCHDOG_S, Canceller, Player, Stage

Submit = Callable[..., Future[Any]]
WORKERS = 6
KINDS = ("first", "second", "lease", "nodes", "engine", "graph", "threads")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("stage"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def submits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Submit]]:
    """Yields functions that submit, by the kind of their futures."""
    folder = tmp_path_factory.mktemp("runs")
    threads = parsl.ThreadPoolExecutor(label="threads", max_threads=WORKERS)
    engine = GristmillExecutor(label="engine", max_workers=WORKERS)
    with (
        Executor(WORKERS) as first,
        Executor(WORKERS) as second,
        Lease(on.local(1, WORKERS)) as lease,
        Executor(nodes=on.local(1, WORKERS)) as nodes,
        parsl.load(Config([threads, engine], run_dir=str(folder))),
        concurrent.futures.ThreadPoolExecutor(2 * WORKERS) as pool,
    ):
        executors = {"first": first, "second": second, "lease": lease, "nodes": nodes}
        yield {
            **{kind: executor.submit for kind, executor in executors.items()},
            "engine": lambda fn, *args: python_app(fn, executors=["engine"])(*args),
            "graph": lambda fn, *args: python_app(fn, executors=["threads"])(*args),
            "threads": pool.submit,
        }


@dataclass
class Wait:
    """One thread's wait for some of a script's futures, by their numbers."""

    way: str
    numbers: list[int]
    timeout: float | None
    #: Numbers in the order in which the wait yielded them, and the result of the wait.
    given: list[int] = field(default_factory=list)
    end: Any = None

    def is_over(self, endings: dict[int, str]) -> bool:
        """Returns whether the standard library's wait has ended once these futures are final with these outcomes."""
        wanted = {*self.numbers}
        final = [endings[number] for number in wanted if number in endings]
        if self.timeout is not None or len(final) == len(wanted):
            return True
        if self.way == FIRST_EXCEPTION:
            return "error" in final
        return self.way in (FIRST_COMPLETED, "wait_any") and bool(final)

    def run(self, futures: Sequence[Future[Any]], told: threading.Condition) -> None:
        """Waits, and notes the outcome."""
        wanted = [futures[number] for number in self.numbers]

        def numbers(some: Any) -> list[int]:
            return sorted(futures.index(one) for one in some)

        if self.way == "as_completed":
            try:
                for one in concurrent.futures.as_completed(wanted, self.timeout):
                    with told:
                        self.given.append(futures.index(one))
                        told.notify_all()
            except TimeoutError as error:
                self.end = str(error)
        elif self.way == "wait_any":
            try:
                self.end = futures.index(_wait_any(wanted, self.timeout))
            except TimeoutError:
                self.end = "timeout"
        elif self.way == "gather":
            self.end = asyncio.run(_gather(wanted, self.timeout))
        else:
            done, pending = concurrent.futures.wait(wanted, self.timeout, self.way)
            self.end = numbers(done), numbers(pending)


def _wait_any(futures: list[Future[Any]], timeout: float | None) -> Future[Any]:
    if any(type(one).__module__.startswith("gristmill") for one in futures):
        return gristmill.wait_any(futures, timeout)
    done, _ = concurrent.futures.wait(futures, timeout, FIRST_COMPLETED)
    if not done:
        raise TimeoutError
    return next(one for one in futures if one in done)


async def _gather(futures: list[Future[Any]], timeout: float | None) -> list[str]:
    # A timeout cancels the awaited futures, and must not cancel the script's futures.
    wrapped = [asyncio.shield(asyncio.wrap_future(one)) for one in futures]
    if timeout is not None:
        done, _ = await asyncio.wait(wrapped, timeout=0.05)
        return [_outcome(one) if one in done else "pending" for one in wrapped]
    return [_kind(one) for one in await asyncio.gather(*wrapped, return_exceptions=True)]


def _outcome(future: Any) -> str:
    if future.cancelled():
        return "cancel"
    return "value" if future.exception() is None else "error"


def _kind(value: Any) -> str:
    if isinstance(value, asyncio.CancelledError):
        return "cancel"
    return "error" if isinstance(value, ValueError) else "value"


@dataclass
class Play:
    """Futures, the outcomes and the order in which they become final, and the waits for them."""

    kinds: list[str]
    #: Outcomes by number, in order.
    endings: dict[int, str]
    #: Number of futures that are final before the waits begin.
    before: int
    waits: list[tuple[str, list[int], float | None]]


@st.composite
def plays(draw: st.DrawFn) -> Play:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=WORKERS - 1))
    numbers = range(len(kinds))
    order = draw(st.permutations(numbers))
    endings = {one: draw(st.sampled_from(["value", "error", "cancel"])) for one in order}
    ways = [ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, "as_completed", "wait_any", "gather"]
    waits = draw(
        st.lists(
            st.tuples(
                st.sampled_from(ways),
                st.lists(st.sampled_from(numbers), min_size=1, max_size=8),
                st.sampled_from([None, None, 0, 0.01]),
            ),
            min_size=1,
            max_size=3,
        )
    )
    return Play(kinds, endings, draw(st.integers(0, len(order))), waits)


_plays = itertools.count()


def perform(play: Play, stage: Stage, submits: dict[str, Submit]) -> list[Wait]:
    """Performs the play; returns its waits with their outcomes."""
    number = next(_plays)
    players: list[Player | Canceller] = []
    for place, kind in enumerate(play.kinds):
        is_cancelled = play.endings.get(place) == "cancel"
        if kind == "threads" and is_cancelled:
            players.append(Canceller())
        else:
            players.append(Player(stage, f"{number}-{place}", submits[kind], is_cancelled))
    futures = [player.future for player in players]
    told = threading.Condition()
    waits = [Wait(*one) for one in play.waits]
    try:
        endings: dict[int, str] = {}
        for place, how in [*play.endings.items()][: play.before]:
            players[place].end(how)
            endings[place] = how
        concurrent.futures.wait([*map(_final, (futures[place] for place in endings))])
        threads = [threading.Thread(target=one.run, args=(futures, told)) for one in waits]
        for thread in threads:
            thread.start()
        _meet(waits, threads, endings, told)
        for place, how in [*play.endings.items()][play.before :]:
            players[place].end(how)
            endings[place] = how
            _meet(waits, threads, endings, told)
    finally:
        for player in players:
            player.leave()
    for thread in threads:
        thread.join(WATCHDOG_S)
        assert not thread.is_alive(), "a wait has not ended though all futures are final"
    return waits


def _final(future: Future[Any]) -> Future[None]:
    """Returns a future that is final once a callback of ``future`` has run."""
    final: Future[None] = Future()
    future.add_done_callback(lambda _: final.set_result(None))
    return final


def _meet(
    waits: list[Wait],
    threads: list[threading.Thread],
    endings: dict[int, str],
    told: threading.Condition,
) -> None:
    """Waits until the waits that these futures end are over, and all other waits have been notified of them."""
    for one, thread in zip(waits, threads, strict=True):
        if one.is_over(endings):
            thread.join(WATCHDOG_S)
            assert not thread.is_alive(), f"{one} has not ended with {endings}"
        elif one.way == "as_completed":
            wanted = {*one.numbers} & {*endings}
            with told:
                is_told = told.wait_for(lambda: {*one.given} >= wanted, WATCHDOG_S)  # noqa: B023
            assert is_told, f"{one} was not told of {wanted}"


@pytest.mark.long
@settings(deadline=None)
@given(play=plays())
def test_waits_over_any_mixture_of_futures_are_the_standard_librarys(
    play: Play, stage: Stage, submits: dict[str, Submit]
) -> None:
    own = perform(play, stage, submits)
    threads = Play(["threads"] * len(play.kinds), play.endings, play.before, play.waits)
    reference = perform(threads, stage, submits)
    for one, other in zip(own, reference, strict=True):
        assert one.end == other.end, one
        # Futures that were final before the wait are yielded in any order.
        first = len({*one.numbers} & {*[*play.endings][: play.before]})
        assert {*one.given[:first]} == {*other.given[:first]}
        assert one.given[first:] == other.given[first:]


def test_two_threads_that_wait_for_futures_of_two_libraries_do_not_block_each_other(
    submits: dict[str, Submit],
) -> None:
    own = submits["first"](calls.nothing)
    other: Future[None] = Future()
    held, taken = threading.Event(), threading.Event()

    def take_both() -> None:
        with other._condition:
            held.set()
            # The standard library's waits hold all conditions at the same time, in an order that these objects do not
            # define.
            with own._condition:
                taken.set()

    with own._condition:
        thread = threading.Thread(target=take_both, daemon=True)
        thread.start()
        assert held.wait(WATCHDOG_S)
        assert taken.wait(WATCHDOG_S), "a thread waits for the condition that another one holds"
        with other._condition:
            pass
    thread.join(WATCHDOG_S)


def test_a_wait_that_is_over_leaves_nothing_behind(
    submits: dict[str, Submit], stage: Stage
) -> None:
    players = [
        Player(stage, f"behind-{kind}", submits[kind], False)
        for kind in ("first", "second", "lease", "nodes", "engine")
    ]
    futures = [player.future for player in players]
    for way in (FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED):
        assert not concurrent.futures.wait(futures, 0.01, way).done
    with pytest.raises(TimeoutError):
        next(concurrent.futures.as_completed(futures, 0.01))
    with pytest.raises(TimeoutError):
        gristmill.wait_any(futures, 0.01)
    for future in futures:
        assert future._task not in future._waiters._registry._watches  # type: ignore[attr-defined]
    for player in players:
        player.leave()
    assert len(concurrent.futures.wait(futures).done) == len(futures)


def test_a_wait_for_several_executors_answers_a_signal(
    submits: dict[str, Submit], stage: Stage, interrupts: None
) -> None:
    players = [Player(stage, f"signal-{kind}", submits[kind], False) for kind in ("first", "nodes")]
    ticks = itertools.count()

    def interrupt(_number: int, _frame: object) -> None:
        # Once: one more could come behind the wait, before the timer is stopped.
        if next(ticks) == 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        with pytest.raises(KeyboardInterrupt):
            concurrent.futures.wait([player.future for player in players])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        for player in players:
            player.leave()


def test_wait_any_takes_futures_of_any_kind(submits: dict[str, Submit], stage: Stage) -> None:
    held = [Player(stage, f"any-{kind}", submits[kind], False) for kind in KINDS]
    waiting = [player.future for player in held]
    for kind in KINDS:
        final = submits[kind](calls.same, kind)
        assert gristmill.wait_any([*waiting, final]) is final
        assert gristmill.wait_any(iter([final, *waiting])) is final
    with pytest.raises(ValueError, match="at least one"):
        gristmill.wait_any([])
    with pytest.raises(TypeError, match="wait_any takes futures, not str"):
        gristmill.wait_any([waiting[0], "future"])  # type: ignore[list-item]
    for player in held:
        player.leave()


@pytest.mark.parametrize("kind", ["second", "nodes", "engine", "graph", "threads"])
def test_a_future_of_another_executor_is_no_argument(submits: dict[str, Submit], kind: str) -> None:
    other = submits[kind](calls.same, 1)
    for argument in (other, [other], {"key": (other,)}):
        with pytest.raises(ValueError, match="a future of another executor"):
            submits["first"](calls.same, argument).result(WATCHDOG_S)


def test_a_task_waits_for_its_own_tasks_and_for_other_futures_at_once() -> None:
    with Executor(1) as executor:
        found = executor.submit(nested_tasks.use_mixed_futures).result()
    assert found == {"threads": [8, 0], "executor": [8, 0], "first": True, "any": 1}


class CountingWaiter:
    """A waiter of another library, which counts how often waiters are compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountingWaiter.compared += 1
        return self is other

    __hash__ = object.__hash__


def test_a_wait_that_ends_early_is_not_searched_for_among_the_others(
    make_executor: Callable[..., Executor], gate: Gate
) -> None:
    held = make_executor(1).submit(calls.enter, gate.path)
    waiters = [CountingWaiter() for _ in range(1000)]
    for waiter in waiters:
        held._waiters.append(waiter)
    for waiter in reversed(waiters):
        held._waiters.remove(waiter)
    assert CountingWaiter.compared == 0
    gate.open()
    assert held.result() is None


class CountingWatches(dict[int, Any]):
    """A table of watches that counts how many of them are read."""

    looks = 0

    def values(self) -> Any:
        self.looks += len(self)
        return super().values()

    def get(self, task: int, default: Any = None) -> Any:
        self.looks += 1
        return super().get(task, default)


def test_a_wait_that_another_event_takes_over_looks_at_its_own_futures_alone(
    make_executor: Callable[..., Executor], gate: Gate
) -> None:
    executor = make_executor(1)
    held = [executor.submit(calls.enter, gate.path) for _ in range(300)]
    registry = held[0]._waiters._registry
    others = [CountingWaiter() for _ in held]
    for future, other in zip(held, others, strict=True):
        future._waiters.append(other)
    waiter, successor = _base._FirstCompletedWaiter(), threading.Event()
    held[7]._waiters.append(waiter)
    watches = registry._watches = CountingWatches(registry._watches)
    waiter.event.give_way(waiter, successor)
    assert watches.looks <= 2
    for future, other in zip(held, others, strict=True):
        future._waiters.remove(other)
    gate.open(300)
    assert successor.wait(WATCHDOG_S)
    assert all(future.result() is None for future in held)


def wait(future: Future[None]) -> None:
    concurrent.futures.wait([future], 0)


def watch(future: Future[None]) -> None:
    future.add_done_callback(calls.same)
    future.add_done_callback(calls.same)


@pytest.mark.parametrize("way", [wait, watch])
@pytest.mark.parametrize("way_of_handler", [wait, watch])
def test_a_handler_of_a_signal_may_ask_for_a_future_anywhere_in_a_wait_for_it(
    make_executor: Callable[..., Executor],
    gate: Gate,
    way: Callable[[Future[None]], None],
    way_of_handler: Callable[[Future[None]], None],
) -> None:
    held = make_executor(1).submit(calls.enter, gate.path)
    assert at_each_place(_completion, lambda: held, way, way_of_handler)
    told = []
    held.add_done_callback(told.append)
    gate.open()
    concurrent.futures.wait([held])
    held._waiters._registry.engine.shutdown()  # type: ignore[attr-defined]
    assert told == [held]


class First:
    """An executor and its only task, whose future has no callback and no wait yet."""

    def __init__(self, executor: Executor, gate: Gate) -> None:
        self.executor = executor
        self.held = executor.submit(calls.enter, gate.path)
        self.told: list[str] = []
        self._is_over = threading.Event()

    def watch(self, who: str) -> None:
        """Adds a callback that notes who has added it, or that the executor is gone."""
        self.held.add_done_callback(lambda _: self._note(who))

    def _note(self, who: str) -> None:
        # The wait times out if the executor's end waits for callbacks.
        self.told.append("late" if self._is_over.wait(0.01) else who)

    def end(self) -> list[str]:
        self.executor.shutdown()
        self._is_over.set()
        return sorted(self.told)


@pytest.fixture
def make_first(make_executor: Callable[..., Executor], gate: Gate) -> Callable[[], First]:
    return lambda: First(make_executor(1), gate)


def test_the_first_callbacks_of_an_executor_are_called_wherever_a_handler_adds_one(
    make_first: Callable[[], First], gate: Gate
) -> None:
    firsts: list[First] = []
    count = at_each_place(
        _completion,
        lambda: firsts.append(make_first()) or firsts[-1],  # type: ignore[func-returns-value]
        lambda first: first.watch("program"),
        lambda first: first.watch("handler"),
    )
    gate.open(len(firsts))
    ends = [first.end() for first in firsts]
    assert ends == [["handler", "program"]] * count + [["program"]]


def test_a_handler_that_raises_while_the_first_callback_is_added_costs_no_later_one(
    make_first: Callable[[], First], gate: Gate
) -> None:
    firsts: list[First] = []

    def add(first: First) -> None:
        # An interrupted start of a thread may raise that its own lock is not held.
        with contextlib.suppress(Interruption, RuntimeError):
            first.watch("interrupted")

    assert at_each_place(
        _completion,
        lambda: firsts.append(make_first()) or firsts[-1],  # type: ignore[func-returns-value]
        add,
        Interruption.strike,
    )
    for first in firsts:
        first.watch("later")
    gate.open(len(firsts))
    assert all("later" in first.end() for first in firsts)
