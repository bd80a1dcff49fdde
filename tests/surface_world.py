"""The calls of one batch of the surface fuzzer: on an executor, with its options, and on results of earlier calls."""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import math
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from surface_errors import is_told, raise_odd

from surface_judge import RESULT_S, Own, Trouble, judge, safe
from surface_values import (
    Dies,
    Hostile,
    Iterates,
    coroutine,
    exit_,
    fail,
    inside,
    leave,
    same,
    stop,
)

#: A kind of public call, and its options that a batch passes wrong values for.
Kinds = dict[str, tuple[Callable[..., Any], list[str]]]


def options_of(function: Callable[..., Any], *left_out: str) -> list[str]:
    """Returns the names of all options of a call, so that a new option is included."""
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in parameters if one.kind in kinds and one.name not in left_out]


class World:
    """An executor on this machine, and the results of earlier calls."""

    def __init__(self, seed: int) -> None:
        import gristmill

        self.random = random.Random(seed)
        self.gristmill = gristmill
        self.executor = self.make_executor()
        self.futures: list[Any] = []
        self.maps: list[Any] = []
        self.depth = threading.local()
        self.troubles: list[BaseException] = []
        self.is_over = False

    def make_executor(self) -> Any:
        """Makes the object that the batch calls."""
        return self.gristmill.Executor(2)

    def make_short_lived(self) -> Any:
        """Makes an executor for one call of ``lives``."""
        return self.gristmill.Executor(1)

    # Calls

    def attempt(self, call: Callable[[], Any], option: str | None = None) -> Any:
        """Makes a call; a documented error is accepted."""
        try:
            return call()
        except Trouble:
            raise
        except (KeyboardInterrupt, SystemExit, StopIteration):
            return None
        except BaseException as error:
            judge(error, option)
        return None

    def interfere(self) -> None:
        """Makes a call from a place where other code runs. The call does not wait, and nested calls have a limit."""
        depth = getattr(self.depth, "value", 0)
        if depth > 2 or self.is_over:
            return
        self.depth.value = depth + 1
        try:
            self.random.choice(self.interferences())()
        except Trouble as trouble:
            # The code at this place may swallow the exception.
            self.troubles.append(trouble)
        finally:
            self.depth.value = depth

    def interferences(self) -> list[Callable[[], None]]:
        """Returns the calls that any place may make: none of them waits."""
        return [self.submit, self.drop, self.look, self.step, self.start_map]

    def value(self) -> Any:
        """Returns a random value for an argument."""
        draw = self.random.random()
        if draw < 0.2:
            return Hostile(self)
        if draw < 0.3 and self.futures:
            return self.pick(self.futures)
        return self.random.choice(
            (
                0,
                -1,
                10**400,
                1.5,
                math.nan,
                "x",
                b"y" * 70_000,
                [1],
                {"a": [2]},
                None,
                self.executor,
            )
        )

    def option_values(self) -> list[Any]:
        """Returns forbidden values of options."""
        numpy = sys.modules.get("numpy")
        values: list[Any] = [
            -1, 0, 1, 2, 2**15, 2**31, 2**63, 2**64, 10**400, -(10**400), 0.5, 1e308, math.nan,
            math.inf, -math.inf, True, "", "x", "4GB", "9" * 400, "a\0b", b"x", [3], ["x"], None, [], (), {}, object(), Own, same,
            1j, range(3), Hostile(self), Iterates(self),
        ]  # fmt: skip
        if numpy is not None:
            values += [numpy.int64(1), numpy.float32("nan"), numpy.bool_(True), numpy.zeros(3)]
        return values

    def option_value(self) -> Any:
        """Returns one of the forbidden values."""
        return self.random.choice(self.option_values())

    @staticmethod
    def pick(things: list[Any]) -> Any:
        """Returns one item of a list that other threads change."""
        copy = list(things)
        return random.choice(copy) if copy else None

    def function(self) -> Any:
        """Returns a function to submit, or a value that is no function."""
        values: list[Any] = [same, same, same, fail, stop, exit_, coroutine, None, 3, Hostile(self)]
        values += [lambda *_: 1, self.executor.submit, Own, len, leave]
        return self.random.choice(values)

    def owner(self) -> Any:
        """Returns an object with ``submit`` and ``map``."""
        if self.random.random() < 0.7:
            return self.executor
        return self.executor.options(timeout=5, retries=self.random.randrange(2))

    def submit(self) -> None:
        """Submits a call."""
        function, values = self.function(), [self.value() for _ in range(self.random.randrange(3))]
        named = {"fn": 1, "timeout": self.value()} if self.random.random() < 0.2 else {}
        draw = self.random.random()
        if draw < 0.05:
            self.attempt(lambda: self.owner().submit(**named))
            return
        future = self.attempt(lambda: self.owner().submit(function, *values, **named))
        if future is not None:
            self.futures.append(future)

    def start_map(self) -> None:
        """Starts a map, and perhaps drops it while an exception is pending."""
        items = self.random.choice(
            (Iterates(self), range(50), itertools.count(), [Hostile(self)], iter([]), 3, [1] * 300)
        )
        terms: dict[str, Any] = {}
        option = None
        if self.random.random() < 0.3:
            option = self.random.choice(("timeout", "buffersize", "chunksize", "ordered"))
            terms[option] = self.option_value()
        elif self.random.random() < 0.5:
            terms = {
                "buffersize": self.random.randrange(1, 9),
                "ordered": self.random.random() < 0.5,
            }
        function = self.random.choice((same, same, fail, stop, Hostile(self), lambda item: item))
        if not callable(function) or not hasattr(items, "__iter__"):
            option = None
        if self.random.random() < 0.2 and items is not None:

            def doomed() -> None:
                print(self.executor.map(function, items, **terms), Own(), 1 / 0)

            try:
                doomed()
            except ZeroDivisionError:
                pass
            except (SystemError, AttributeError) as error:
                raise Trouble(f"the pending exception became {error!r}") from error
            except BaseException as error:
                judge(error, None)
            return
        results = self.attempt(lambda: self.owner().map(function, items, **terms), option)
        if results is not None:
            self.maps.append(results)

    def step(self) -> None:
        """Takes the next results of a map, from any thread."""
        results = self.pick(self.maps)
        if results is None:
            return
        for _ in range(self.random.randrange(4)):
            self.attempt(lambda: next(results, None))
        if self.random.random() < 0.1:
            self.attempt(results.close)

    def look(self) -> None:
        """Reads the state of a future, without waiting."""
        future = self.pick(self.futures)
        if future is None:
            return
        asked: list[Callable[[], Any]] = [
            future.done,
            future.running,
            future.cancelled,
            lambda: future.cancel(running=self.random.random() < 0.3),
            lambda: self.executor.explain(future),
            lambda: future.result(0),
            lambda: future.exception(0),
            lambda: repr(future) and None,
            lambda: future.add_done_callback(self.callback()),
            lambda: weakref.finalize(future, self.interfere) and None,
            lambda: setattr(future, "itself", (future, Dies(self))),
            lambda: future.set_result(1),
        ]
        try:
            self.attempt(self.random.choice(asked))
        except Trouble as trouble:
            if "sets the outcome" not in str(trouble):
                raise

    def callback(self) -> Any:
        """Returns a callback, or a value that is none."""

        def interfering(_future: Any) -> None:
            self.interfere()

        def exiting(_future: Any) -> None:
            raise SystemExit

        return self.random.choice((interfering, exiting, fail, stop, None, 3, Hostile(self)))

    def wait(self) -> None:
        """Waits for a future that will become final."""
        future = self.pick(self.futures)
        if future is None:
            return
        option, timeout = None, RESULT_S
        if self.random.random() < 0.2:
            option, timeout = "timeout", self.option_value()
            if timeout is None or isinstance(timeout, Hostile):
                return
        ways: list[Callable[[], Any]] = [
            lambda: future.result(timeout),
            lambda: future.exception(timeout=timeout),
            lambda: self.gristmill.wait_any([future], timeout),
            lambda: future.cancel(True, grace=timeout if option is None else self.option_value()),
        ]
        way = self.random.randrange(len(ways))
        began = time.monotonic()
        if way == 3:
            self.attempt(ways[3])
            return
        try:
            ways[way]()
        except TimeoutError:
            if time.monotonic() - began >= RESULT_S:
                raise Trouble(f"a task has not ended: {self.executor.explain(future)}") from None
        except (SystemExit, KeyboardInterrupt, StopIteration):
            pass
        except BaseException as error:
            is_task_own = option is not None and future.done()
            judge(error, None if is_task_own else option)

    def odd(self, seed: int) -> Any:
        """Submits a task that raises an exception whose methods refuse."""
        return self.executor.submit(raise_odd, seed)

    def raises(self) -> None:
        """Lets a task raise such an exception, and checks that the caller learns of it."""
        seed = self.random.randrange(10**9)
        future = self.attempt(lambda: self.odd(seed))
        if future is None:
            return
        try:
            error = future.exception(RESULT_S)
        except TimeoutError:
            raise Trouble(f"the task that raises Odd{seed} has not ended") from None
        # A signal handler may have raised while the call was sent.
        is_own = type(error) is Own
        if error is None or not (is_own or is_told(error, seed)):
            raise Trouble(f"Odd{seed} became {type(error)}: {safe(error)}")

    def drop(self) -> None:
        """Drops an object, also in a reference cycle."""
        for things in (self.futures, self.maps):
            if things and self.random.random() < 0.7:
                with contextlib.suppress(IndexError, ValueError):  # another thread has removed it
                    things.pop(self.random.randrange(len(things)))
        if self.random.random() < 0.3:
            Dies(self)

    def options(self) -> None:
        """Passes a forbidden value for an option."""
        kinds = self.kinds()
        call, names = kinds[self.random.choice(list(kinds))]
        self.give(call, self.random.choice(names), self.option_value())

    def trials(self) -> Iterator[tuple[str, Callable[[Any], Any]]]:
        """Yields all options of ``kinds``, each with a call that passes it a value."""
        for call, names in self.kinds().values():
            for option in names:
                yield option, partial(self.give, call, option)

    def give(self, call: Callable[..., Any], option: str, value: Any) -> None:
        """Passes a value for an option of a call."""
        if option != "initargs" or not isinstance(value, (Hostile, Iterates)):
            self.attempt(lambda: call(**{option: value}), option)

    def kinds(self) -> Kinds:
        """Returns the calls whose options ``options`` draws from."""
        gristmill, on = self.gristmill, self.gristmill.on
        return {
            "options": (self.executor.options, options_of(gristmill.Executor.options, "self")),
            "context": (
                lambda **terms: gristmill.Context(dict, **terms),
                options_of(gristmill.Context, "setup"),
            ),
            "context resources": (
                gristmill.ContextResources,
                options_of(gristmill.ContextResources),
            ),
            "context workers": (gristmill.ContextWorkers, options_of(gristmill.ContextWorkers)),
            "context calls": (gristmill.ContextCalls, options_of(gristmill.ContextCalls)),
            "task options": (gristmill.TaskOptions, options_of(gristmill.TaskOptions)),
            "blobs": (on.Blobs, options_of(on.Blobs)),
            "network": (on.Network, options_of(on.Network)),
            "local": (on.local, options_of(on.local)),
            "ssh": (lambda **terms: on.ssh(["h"], **terms), options_of(on.ssh, "hosts")),
            "executor": (self.short_lived, options_of(gristmill.Executor)),
            "array": (self.array, ["shape"]),
        }

    def array(self, shape: Any) -> None:
        """Makes an array, for which the memory may be too small."""
        with contextlib.suppress(MemoryError):
            self.gristmill.array(shape, executor=self.executor)

    def short_lived(self, **terms: Any) -> None:
        """Makes an executor without tasks."""
        self.gristmill.Executor(**terms).shutdown()

    def nested(self) -> None:
        """Lets a task make calls."""
        found = self.attempt(
            lambda: self.executor.submit(inside, self.random.randrange(10**9)).result(RESULT_S)
        )
        if found:
            raise Trouble("; ".join(found))

    def lives(self) -> None:
        """Shuts an executor down while it has tasks, perhaps from another thread or from its own items."""
        executor = self.make_short_lived()

        def items() -> Iterator[int]:
            yield 1
            executor.shutdown(wait=False)
            yield 2

        results = self.attempt(lambda: executor.map(same, items(), buffersize=1))
        future = self.attempt(lambda: executor.submit(same, 1))
        if results is not None:
            thread = threading.Thread(target=lambda: self.attempt(lambda: list(results)))
            thread.start()
            self.attempt(lambda: list(results))
        if future is not None:
            self.attempt(lambda: future.result(RESULT_S))
        self.attempt(lambda: executor.shutdown(cancel_futures=self.random.random() < 0.5))
        if results is not None:
            thread.join()

    def calls(self) -> list[Callable[[], None]]:
        """Returns the calls that the batch draws from; frequent calls occur more than once."""
        calls = [self.submit] * 6 + [self.start_map] * 3 + [self.look] * 5 + [self.wait] * 4
        return (
            calls
            + [self.step] * 4
            + [self.drop] * 4
            + [self.options] * 5
            + [self.raises] * 2
            + [self.lives, self.nested]
        )

    def end(self) -> None:
        """Drops all objects, and checks that the executor still works."""
        self.is_over = True
        self.futures.clear()
        self.maps.clear()
        gc.collect()
        check = self.executor.submit(same, 7)
        if check.result(RESULT_S) != 7:
            self.troubles.append(Trouble("the executor has gone wrong"))
        self.executor.shutdown(cancel_futures=True)

    def run(self, count: int) -> None:
        """Makes this many calls."""
        calls = self.calls()
        for number in range(count):
            call = self.random.choice(calls)
            print(threading.current_thread().name, number, call.__name__, flush=True)
            try:
                call()
            except Own:  # raised by a signal handler
                pass
            except Trouble as trouble:
                self.troubles.append(trouble)
            if len(self.futures) > 60:
                del self.futures[:20]
            if len(self.maps) > 10:
                del self.maps[:3]
