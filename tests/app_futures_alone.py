"""App futures as the native module makes them, with a mixin of their own; run by ``test_app_futures_native``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import itertools
import signal
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import gristmill
from gristmill import Executor, Future, TaskOptions, _native

import calls
from stage import Gate

MakeExecutor = Callable[..., Executor]
LINKS = 200_000
#: Translated exceptions, in the order of their translation.
translated: list[tuple[Any, BaseException]] = []


class Translated(Exception):
    pass


class Methods:
    """Python methods that a data-flow kernel would add to its futures."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return "attribute", name

    def __getitem__(self, key: object) -> Any:
        return "item", key

    def title(self: Any) -> str:
        return f"task {self._number}"

    @staticmethod
    def _translated(future: Any, exception: BaseException) -> BaseException:
        translated.append((future, exception))
        if isinstance(exception, gristmill.TaskTimeoutError):
            return "no exception"  # type: ignore[return-value]
        return Translated(future._number, exception)


AppFuture: Any = _native.make_app_future_type(Methods)


class App:
    """A stand-in for the app whose calls are made."""

    def __init__(self, executor: Executor, *, tells: bool = False, **options: Any) -> None:
        self.ledger = _native.Ledger()
        self.fast_path = _native.AppFastPath(executor, TaskOptions(**options), tells)

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return self.fast_path.submit(self, function, args, kwargs, self.ledger)


@pytest.fixture
def app(shared: Executor) -> App:
    return App(shared)


def test_an_app_future_is_a_future_with_the_mixins_methods_first(app: App) -> None:
    future = app(calls.add, 1, 2)
    assert isinstance(future, Future)
    assert isinstance(future, concurrent.futures.Future)
    assert isinstance(future, Methods)
    assert type(future) is AppFuture
    assert AppFuture.__mro__[1:3] == (Methods, Future)
    assert _native.make_app_future_type(type("Other", (), {})) is AppFuture
    assert future.result() == 3
    assert future.title() == "task 0"


def test_missing_attributes_and_items_go_to_the_mixin(app: App) -> None:
    future = app(calls.nothing)
    assert future["key"] == ("item", "key")
    assert future.anything == ("attribute", "anything")
    assert not hasattr(future, "_nothing")
    future.label = "mine"
    assert future.label == "mine"
    assert vars(future) == {"label": "mine"}


def test_neither_type_has_subclasses_or_is_instantiated() -> None:
    for kind in (Future, AppFuture):
        with pytest.raises(TypeError):
            type("Derived", (kind,), {})
        with pytest.raises(TypeError):
            kind()


def test_a_future_knows_its_call(app: App) -> None:
    future = app(calls.both, 1, [2], key="value")
    assert future._app is app
    assert future._arguments == ((1, [2]), {"key": "value"})
    assert app(calls.nothing)._arguments == ((), {})
    assert [app(calls.nothing)._number, app.ledger.next(), app(calls.nothing)._number] == [2, 3, 4]
    assert app.ledger.count == 5
    assert future.result() == ((1, [2]), {"key": "value"})


def test_arguments_go_with_the_result_and_stay_with_an_exception(app: App) -> None:
    class Witness(list[int]):
        pass

    future, failed = app(calls.same, []), app(calls.fail, "why")
    witness = Witness()
    gone = weakref.ref(witness)
    held = app(lambda _: None, witness)
    del witness
    assert gone() is not None
    assert held.result() is None
    assert gone() is None
    assert (future.result(), future._arguments) == ([], None)
    with pytest.raises(ValueError, match="why"):
        failed.result()
    assert failed._arguments == (("why",), {})
    failed._forget_arguments()
    assert failed._arguments is None


def test_the_ledger_lists_what_is_not_final_and_holds_nothing(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    app = App(make_executor(1))
    held = [app(calls.enter, gate.path, number) for number in range(4)]
    gate.wait_entered()
    assert app.ledger.living() == held
    reference = weakref.ref(held[2])
    del held[2]
    assert reference() is None
    assert app.ledger.living() == held
    gate.open(4)
    assert [future.result() for future in held] == [0, 1, 3]
    assert app.ledger.living() == []
    assert app.ledger.count == 4


def test_the_ledger_is_walked_while_futures_come_and_go(app: App) -> None:
    futures: list[Any] = []
    for number in range(3000):
        futures.append(app(calls.same, number))
        if number % 3 == 0:
            del futures[number % len(futures)]
        if number % 100 == 0:
            numbers = [future._number for future in app.ledger.living()]
            assert numbers == sorted(set(numbers))
    assert sorted(future.result() for future in futures) == [one._number for one in futures]


def test_a_weak_reference_tells_after_the_future_has_left_its_ledger(app: App) -> None:
    seen: list[Any] = []
    future = app(calls.same, 1)
    reference = weakref.ref(future, lambda _: seen.append(app.ledger.living()))
    del future
    assert reference() is None
    assert seen == [[]]


def test_the_collector_knows_only_futures_that_can_be_in_a_cycle(app: App) -> None:
    assert not gc.is_tracked(app(calls.nothing))
    assert not gc.is_tracked(app(calls.both, 1, "two", key=b"3"))
    for future in (
        app(calls.same, []),
        app(calls.both, key={}),
        app(calls.same, app(calls.nothing)),
    ):
        assert gc.is_tracked(future)


def test_cycles_through_arguments_are_collected(app: App) -> None:
    for way in (lambda box: app(calls.same, box), lambda box: app(calls.same, value=box)):
        for kind in (list, dict):
            box: Any = kind()
            future = way(box)
            if isinstance(box, list):
                box.append(future)
            else:
                box["future"] = future
            future.exception()
            reference = weakref.ref(future)
            del future, box
            gc.collect()
            assert reference() is None


def test_cycles_through_apps_errors_and_attributes_are_collected(shared: Executor) -> None:
    app: Any = App(shared)
    app.last = app(calls.fail)
    app.last.exception().future = app.last
    app.last.label = app
    future, owner = weakref.ref(app.last), weakref.ref(app)
    del app
    gc.collect()
    assert future() is None
    assert owner() is None


def test_a_long_line_of_futures_each_the_argument_of_the_next_are_released(
    shared: Executor,
) -> None:
    app = App(shared)
    link = first = app(calls.fail, "root")
    gc.disable()
    for number in range(LINKS):
        link = app(calls.both, link) if number % 2 else app(calls.both, inner=[link])
    gc.enable()
    assert isinstance(link.exception(), Translated)
    reference = weakref.ref(first)
    del first
    assert reference() is not None
    del link
    translated.clear()
    gc.collect()
    assert reference() is None


def test_app_futures_and_plain_ones_are_arguments_of_each_other(app: App, shared: Executor) -> None:
    plain, own = shared.submit(calls.same, 1), app(calls.same, 2)
    assert app(calls.both, plain, own, inner=[(own, {"key": plain})]).result() == (
        (1, 2),
        {"inner": [(2, {"key": 1})]},
    )
    assert shared.submit(calls.both, own, [plain]).result() == ((2, [1]), {})
    assert app(calls.same, {own, plain}).result() == {1, 2}, "a set is pickled"


def test_a_future_of_another_executor_is_refused_and_nothing_is_done(
    app: App, make_executor: MakeExecutor
) -> None:
    other = make_executor(1).submit(calls.nothing)
    for foreign in (concurrent.futures.Future[int](), other):
        for argument in (
            foreign,
            [(foreign,)],
            {"key": foreign},
            {1: {foreign}},
            (object, foreign),
        ):
            with pytest.raises(_native.ForeignFutureError, match="another executor"):
                app(calls.same, argument)
            with pytest.raises(_native.ForeignFutureError, match="another executor"):
                app(calls.both, key=argument)
    assert issubclass(_native.ForeignFutureError, ValueError)
    assert app.ledger.count == 0


def test_what_is_wrong_with_a_call_is_said_before_a_number_is_given(app: App) -> None:
    submit: Any = app.fast_path.submit
    with pytest.raises(gristmill.UnpicklableError):
        app(calls.same, threading.Lock())
    for wrong in (
        (app, calls.same, [1], None, app.ledger),
        (app, calls.same, (), [1], app.ledger),
        (app, calls.same, (), {1: 2}, app.ledger),
        (app, calls.same, (), None, app),
        (app, 1, (), None, app.ledger),
        (app, calls.same, ()),
    ):
        with pytest.raises(TypeError):
            submit(*wrong)
    assert app.ledger.count == 0


def test_the_engines_exceptions_are_translated_once_and_kept(app: App) -> None:
    failed = app(calls.fail, "why")
    child = app(calls.same, failed)
    grandchild = app(calls.same, child)
    translated.clear()
    assert isinstance(failed.exception(), ValueError)
    assert translated == [], "a task's own exception is its own"
    for _ in range(2):
        with pytest.raises(Translated) as caught:
            grandchild.result()
        assert caught.value is grandchild.exception()
    number, made = grandchild.exception().args
    assert number == grandchild._number
    assert isinstance(made, gristmill.DependencyError)
    assert [future for future, _ in translated] == [grandchild]
    assert grandchild._arguments == ((child,), {})
    assert isinstance(child.exception(), Translated)


def test_a_plain_futures_exception_is_not_translated(app: App, shared: Executor) -> None:
    child = shared.submit(calls.same, app(calls.fail))
    assert isinstance(child.exception(), gristmill.DependencyError)


def test_a_translation_that_is_no_exception_is_refused(make_executor: MakeExecutor) -> None:
    future = App(make_executor(1), timeout=0.01)(calls.enter_and_ignore, "/nowhere")
    for _ in range(2):
        with pytest.raises(TypeError, match="_translated returned no exception but a str"):
            future.result()


def test_a_lane_has_options(make_executor: MakeExecutor, tmp_path: Any) -> None:
    app = App(make_executor(1), retries=2)
    assert app(calls.fail_first, str(tmp_path / "note"), 2).result() == 3
    with pytest.raises(ValueError, match="timeout"):
        App(make_executor(1), timeout=-1.0)


def test_looks_name_the_state(make_executor: MakeExecutor, gate: Gate) -> None:
    app = App(make_executor(1))
    held = app(calls.enter, gate.path)
    gate.wait_entered()
    waiting = app(calls.same, held)
    assert (held._look(), waiting._look()) == ("running", "waiting")
    assert waiting.cancel()
    gate.open()
    failed = app(calls.fail)
    assert held.result() is failed.exception().__context__ is None
    assert [one._look() for one in (held, waiting, failed)] == ["succeeded", "cancelled", "failed"]


def test_all_tasks_are_waited_for_also_those_without_a_future(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(2)
    assert executor._wait_all(), "nothing was ever submitted"
    app = App(executor)
    app(calls.enter, gate.path)
    kept = [app(calls.same, number) for number in range(100)]
    executor.submit(calls.nothing)
    gate.wait_entered()
    assert not executor._wait_all(0.01)
    assert not executor._wait_all(0)
    gate.open()
    assert executor._wait_all()
    assert executor.stats().outstanding == 0
    assert all(future.done() for future in kept)


def test_later_tasks_do_not_prolong_the_wait_for_all(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(2)
    app = App(executor)
    first, later = app(calls.same, 1), []

    class Limit:
        def __float__(self) -> float:
            """Submits a call while the timeout is read: the futures to wait for are known by then."""
            later.append(app(calls.enter, gate.path))
            gate.wait_entered()
            return 3600.0

    limit: Any = Limit()
    assert executor._wait_all(limit)
    assert first.done()
    assert not later[0].done()


def test_batches_of_a_map_are_waited_for(make_executor: MakeExecutor) -> None:
    executor = make_executor(2)
    results = executor.map(calls.same, range(10_000))
    for _ in range(20):
        next(results)
        assert executor._wait_all()
        assert executor.stats().outstanding == 0
    assert list(results) == list(range(20, 10_000))


def test_a_signal_ends_the_wait_for_all(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1)
    executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    before = signal.signal(signal.SIGALRM, _raise_interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            executor._wait_all()
    finally:
        signal.signal(signal.SIGALRM, before)


def _raise_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def test_the_standard_librarys_waits_take_app_futures(app: App, shared: Executor) -> None:
    futures = [app(calls.same, number) for number in range(50)]
    mixed = [*futures, shared.submit(calls.same, 50)]
    assert gristmill.wait_any(futures) in futures
    done, pending = concurrent.futures.wait(mixed)
    assert (done, pending) == (set(mixed), set())
    assert {one.result() for one in concurrent.futures.as_completed(mixed)} == set(range(51))
    called: list[Any] = []
    told = threading.Event()
    futures[0].add_done_callback(lambda one: (called.append(one), told.set()))
    told.wait()
    assert called == [futures[0]]


def test_app_futures_are_awaited(app: App) -> None:
    async def both() -> tuple[int, Any]:
        return await app(calls.same, 1), await asyncio.wrap_future(app(calls.same, 2))

    assert asyncio.run(both()) == (1, 2)


def test_threads_submit_and_take_results_at_once(app: App) -> None:
    count, results = 2000, []

    def work() -> None:
        futures = [app(calls.same, number) for number in range(count)]
        app.ledger.living()
        results.append((sum(one.result() for one in futures), [one._number for one in futures]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [total for total, _ in results] == [sum(range(count))] * 4
    numbers = sorted(itertools.chain.from_iterable(numbers for _, numbers in results))
    assert numbers == list(range(4 * count))
    assert app.ledger.living() == []


def test_the_collector_may_run_at_any_time(app: App, shared: Executor) -> None:
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        futures: list[Any] = []
        for number in range(2000):
            box: list[Any] = [number]
            futures.append(app(calls.both, box, futures[-1] if futures else None, key={"a": box}))
            if number % 7 == 0:
                box.append(futures.pop())
        app.ledger.living()
        del box, futures
    finally:
        gc.set_threshold(*threshold)
    shared._wait_all()
    gc.collect()
    assert app.ledger.living() == []
