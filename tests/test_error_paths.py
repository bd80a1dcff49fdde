"""Exceptions of tasks reach the program, whatever their types do: a failure to describe one never replaces it."""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
import functools
import random
import re
import socket
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

import gristmill
from gristmill import Executor, _remote

from stage import Script

pytestmark = pytest.mark.interpreter


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen(Exception):
    code: str


class Sealed(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("sealed")


class Causeless(Exception):
    @property
    def __cause__(self) -> None:  # type: ignore[override]
        return None

    @property
    def __context__(self) -> None:  # type: ignore[override]
        raise ValueError("no context")


class Named(Exception):
    __slots__ = ("name",)


def _raiser(error: BaseException) -> Callable[..., Any]:
    def method(*_: object) -> Any:
        raise error

    return method


def _recursive(self: Any, *arguments: object) -> Any:
    return _recursive(self, *arguments)


class Text(str):
    """A text whose length and items Python code cannot read."""

    def __len__(self) -> int:
        raise ValueError("no length")

    def __getitem__(self, _: Any) -> str:
        raise ValueError("no items")


#: Behaviours of the methods of hostile types.
ACTS: list[Callable[..., Any]] = [
    _raiser(ValueError("hostile")),
    _raiser(SystemExit(3)),
    _raiser(KeyboardInterrupt()),
    _raiser(MemoryError()),
    _recursive,
    lambda *_: None,
    lambda *_: 7,
    lambda *_: (),
    lambda *_: (int, ("x",)),
    lambda *_: "\ud800 lone",
    lambda *_: Text("text"),
    lambda self, *_: self,
]
METHODS = [
    "__str__",
    "__repr__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__eq__",
    "__hash__",
    "__bool__",
    "__getattribute__",
    "__setattr__",
    "__format__",
    "__len__",
    "__iter__",
    "__dir__",
    "__init_subclass__",
]
PROPERTIES = [
    "__class__",
    "__cause__",
    "__context__",
    "__traceback__",
    "__notes__",
    "__dict__",
    "args",
]
MADE = (
    BaseException,
    Exception,
    OSError,
    ValueError,
    KeyError,
    StopIteration,
    UnicodeError,
    SystemExit,
)


def hostile(seed: int, depth: int = 2) -> BaseException:
    """Returns an exception of a type with some methods that misbehave."""
    rest = random.Random(seed)
    names = rest.sample(METHODS, rest.randint(0, 3))
    members: dict[str, Any] = {name: rest.choice(ACTS) for name in names}
    members |= {
        name: property(rest.choice(ACTS)) for name in rest.sample(PROPERTIES, rest.randint(0, 2))
    }
    members["__init__"] = lambda self, *_: None
    kind = type("Hostile", (rest.choice(MADE),), members)
    error = kind.__new__(kind, "the reason", rest.random())
    for _ in range(rest.randint(0, 2)):
        others = [Sealed("inner"), KeyError("inner"), error]
        if depth:
            others.append(hostile(rest.randrange(10**6), depth - 1))
        other = rest.choice(others)
        link = rest.choice(["__cause__", "__context__"])
        BaseException.__dict__[link].__set__(error, other)
    if rest.random() < 0.2:
        # Not every such exception can be a member of a group.
        with contextlib.suppress(BaseException):
            return BaseExceptionGroup("group", [error, ValueError("beside")])
    return error


def _is_of(arrived: object, name: str) -> bool:
    """Returns whether the arrived exception has that name, or says that one could not be sent."""
    kind = type(arrived)
    if kind is gristmill.RemoteError:
        return "Hostile" in str(arrived)
    # If a group cannot be sent, an ordinary group with ordinary members arrives.
    return issubclass(kind, BaseException) and kind.__qualname__.removeprefix("Base") == name


@pytest.mark.parametrize("start", range(0, 2000, 500))
def test_hostile_exceptions_are_described_and_rebuilt(start: int) -> None:
    failed = []
    for seed in range(start, start + 500):
        error = hostile(seed)
        name = type(error).__qualname__.removeprefix("Base")
        # An error of such an exception must not reach the test's own report.
        try:
            is_right = _is_of(_remote.load_exception(_remote.dump_exception(error)), name)
        except BaseException as second:
            failed.append((seed, type(second).__name__))
        else:
            if not is_right:
                failed.append((seed, name))
    assert not failed


def test_a_group_arrives_whatever_libraries_register_for_exceptions() -> None:
    """tblib registers a reducer for every class of exceptions once a program or a library has installed it."""
    group = ExceptionGroup("group", [ValueError(1), OSError(2, "no file")])

    def refuse(_error: object) -> NoReturn:
        raise TypeError("written by the registered reducer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(copyreg.dispatch_table, ExceptionGroup, refuse)
        made = _remote.load_exception(_remote.dump_exception(group))
    assert isinstance(made, ExceptionGroup)
    assert repr(made.exceptions[0]) == "ValueError(1)"


def test_tasks_that_raise_hostile_exceptions_fail_with_them(shared: Executor) -> None:
    def fail(seed: int) -> None:
        raise hostile(seed)

    failed = []
    for seed in range(200):
        name = type(hostile(seed)).__qualname__.removeprefix("Base")
        if not _is_of(shared.submit(fail, seed).exception(), name):
            failed.append(seed)
    assert not failed


@pytest.mark.parametrize("kind", [Frozen, Sealed, Causeless, Named])
def test_an_exception_that_refuses_attributes_arrives(
    shared: Executor, kind: type[Exception]
) -> None:
    def fail() -> None:
        raise kind("the real reason")

    def fail_over() -> None:
        try:
            fail()
        except Exception as error:
            raise KeyError("outer") from error

    error = shared.submit(fail).exception()
    assert type(error).__qualname__ == kind.__qualname__
    outer = shared.submit(fail_over).exception()
    assert type(outer) is KeyError
    assert outer.__cause__ is not None
    assert type(outer.__cause__).__qualname__ == kind.__qualname__


def test_deep_chains_and_deep_tracebacks(shared: Executor) -> None:
    def chain(count: int) -> None:
        error: BaseException = ValueError(0)
        for number in range(1, count):
            following = ValueError(number)
            following.__context__ = error
            error = following
        raise error

    def descend(depth: int) -> None:
        if depth:
            ascend(depth - 1)
        raise KeyError("at the bottom")

    def ascend(depth: int) -> None:
        descend(depth)

    def dive() -> None:
        import sys

        sys.setrecursionlimit(20_000)
        descend(8_000)

    error = shared.submit(chain, 10_000).exception()
    assert isinstance(error, ValueError)
    assert error.args == (9_999,)
    links = []
    link: BaseException | None = error
    while link is not None:
        links.append(link)
        link = link.__cause__ or link.__context__
    assert len(links) < 40
    assert "left out" in str(links[-1])
    deep = shared.submit(dive).exception()
    assert isinstance(deep, KeyError)
    assert "descend" in str(deep.__cause__)
    assert isinstance(shared.submit(lambda: descend(10**6)).exception(), RecursionError)


def test_a_cycle_of_causes(shared: Executor) -> None:
    def fail() -> None:
        one, other = ValueError("one"), KeyError("other")
        one.__cause__, other.__cause__ = other, one
        raise one

    error = shared.submit(fail).exception()
    assert type(error) is ValueError
    assert type(error.__cause__) is KeyError


def test_long_messages_and_lone_surrogates(shared: Executor) -> None:
    def fail(text: str) -> None:
        raise ValueError(text)

    for text in ("x" * 5_000_000, "\ud800", "\0", "é" * 100_000):
        error = shared.submit(fail, text).exception()
        assert type(error) is ValueError
        assert error.args == (text,)


class Holds(Exception):
    def __init__(self, text: str = "busy") -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class Picky(Exception):
    """An exception that can be pickled but not unpickled."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


def _over(inner: BaseException, outer: BaseException, has_cause: bool) -> None:
    try:
        raise inner
    except BaseException as error:
        if has_cause:
            raise outer from error
        raise outer  # noqa: B904 - what is tested


@pytest.mark.parametrize("has_cause", [True, False])
@pytest.mark.parametrize("make", [Holds, functools.partial(Picky, 3, "no")])
def test_only_the_link_that_cannot_be_sent_arrives_as_text(
    shared: Executor, make: Callable[[], BaseException], has_cause: bool
) -> None:
    def fail() -> None:
        inner = make()
        BaseException.add_note(inner, "a note")
        try:
            _over(OSError(2, "innermost"), inner, has_cause)
        except BaseException as error:
            _over(error, ValueError("mine", 7), has_cause)

    error = shared.submit(fail).exception()
    assert type(error) is ValueError
    assert error.args == ("mine", 7)
    inner = error.__cause__ if has_cause else error.__context__
    assert isinstance(inner, gristmill.RemoteError)
    assert inner.type_name.endswith(type(make()).__qualname__)
    assert inner.__notes__ == ["a note"]
    innermost = inner.__cause__ if has_cause else inner.__context__
    assert isinstance(innermost, OSError)
    assert innermost.errno == 2
    assert isinstance(innermost.__cause__, gristmill.RemoteTraceback)


def test_an_exception_that_cannot_be_sent_keeps_what_it_came_from(shared: Executor) -> None:
    def fail() -> None:
        _over(OSError(2, "innermost"), Holds(), True)

    error = shared.submit(fail).exception()
    assert isinstance(error, gristmill.RemoteError)
    assert isinstance(error.__cause__, OSError)
    assert "Holds" in str(error.__cause__.__cause__)


def test_members_of_a_group_arrive_one_by_one(shared: Executor) -> None:
    def fail() -> None:
        cause = ValueError("with a cause")
        cause.__cause__ = KeyError("the cause")
        inner = ExceptionGroup("inner", [Holds(), TypeError("inner")])
        raise ExceptionGroup("outer", [cause, Picky(3, "no"), inner, OSError(2, "no file")])

    with pytest.raises(ExceptionGroup) as caught:
        shared.submit(fail).result()
    one, picky, inner, other = caught.value.exceptions
    assert (type(one), type(one.__cause__)) == (ValueError, KeyError)
    assert isinstance(picky, gristmill.RemoteError)
    assert isinstance(inner, ExceptionGroup)
    assert [type(member) for member in inner.exceptions] == [gristmill.RemoteError, TypeError]
    assert isinstance(other, OSError)


def test_an_exception_in_the_arguments_of_another_is_one_object_with_its_cause(
    shared: Executor,
) -> None:
    def fail() -> None:
        inner = KeyError("inner")
        raise ValueError("outer", inner) from inner

    error = shared.submit(fail).exception()
    assert isinstance(error, ValueError)
    assert error.args[1] is error.__cause__


def test_notes_are_bounded_and_say_how_many_are_left_out() -> None:
    error = ValueError("it has many notes")
    for number in range(30_000):
        error.add_note(f"note {number}")
    error.__notes__.insert(0, "y" * 1_000_000)
    arrived = _remote.load_exception(_remote.dump_exception(error))
    assert sum(map(len, arrived.__notes__)) < 201_000
    assert arrived.__notes__[1] == "note 0"
    assert re.fullmatch(r"\([0-9]+ more notes are left out: .*\)", arrived.__notes__[-1])


def test_notes_of_a_class_that_does_not_pickle_them(shared: Executor) -> None:
    class Bare(Exception):
        def __reduce__(self) -> Any:
            return Bare, self.args

    def fail() -> None:
        error = Bare("text")
        error.add_note("first")
        error.add_note("second")
        raise error

    error = shared.submit(fail).exception()
    assert error is not None
    assert (type(error).__name__, error.__notes__) == ("Bare", ["first", "second"])


EXHAUSTED = """
    import gristmill

    def exhaust():
        import builtins, os, resource, sys
        {body}

    class Own(Exception):
        pass

    def fail():
        exhaust()
        raise OSError(5, "the reason")

    def fail_own():
        exhaust()
        raise Own("the reason")

    for task in (fail, fail_own):
        with gristmill.Executor(1) as executor:
            error = executor.submit(task).exception()
            print(type(error).__name__, "the reason" in str(error))
"""

EXHAUSTIONS = {
    "descriptors": """
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            sys.held = held
    """,
    "standard streams": """
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            stream.close()
    """,
    "modules": """
        for name in list(sys.modules):
            if name not in ("builtins", "sys", "_imp", "_thread", "_warnings", "_weakref", "marshal"):
                del sys.modules[name]
    """,
    "paths": """
        sys.path[:] = []
        sys.meta_path[:] = []
        sys.path_hooks[:] = []
    """,
    "builtins": """
        for name in ("len", "isinstance", "str", "type", "list", "getattr", "id", "range", "zip", "any", "set"):
            setattr(builtins, name, None)
    """,
    "the traceback module": """
        import traceback
        for name in list(vars(traceback)):
            if not name.startswith("__"):
                delattr(traceback, name)
    """,
}


@pytest.mark.parametrize("what", EXHAUSTIONS)
def test_a_task_that_used_up_or_broke_something_fails_with_its_own_exception(
    script: Script, what: str
) -> None:
    import textwrap

    body = textwrap.indent(textwrap.dedent(EXHAUSTIONS[what]).strip(), " " * 8).strip()
    printed = script.run(EXHAUSTED.format(body=body))
    first, second = printed.splitlines()
    assert first == "OSError True"
    assert second in ("Own True", "RemoteError True")


def test_a_task_without_memory_fails_with_its_own_exception(script: Script) -> None:
    printed = script.run(
        """
        import gristmill

        def fail():
            import resource
            with open("/proc/self/statm") as file:
                size = int(file.read().split()[0]) * 4096
            resource.setrlimit(resource.RLIMIT_AS, (size + 2**20, -1))
            held = []
            try:
                while True:
                    held.append(bytearray(2**18))
            except MemoryError:
                raise ValueError("the reason")

        with gristmill.Executor(1) as executor:
            error = executor.submit(fail).exception(60)
            print(type(error).__name__)
        """
    )
    assert printed in ("ValueError\n", "RemoteError\n")


class Silent:
    def __getstate__(self) -> None:
        raise AssertionError


class Proxy:
    """An object with a value for every attribute, as proxies and mocks have."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__reduce") or name in ("__getstate__", "__setstate__"):
            raise AttributeError(name)
        return self


class Raising:
    """An object that raises for every attribute."""

    def __init__(self) -> None:
        self.__dict__["lock"] = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)


class Slotted:
    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()


class OddKey:
    def __repr__(self) -> str:
        raise ValueError("no text")


def _with_an_empty_cell() -> Callable[[], Any]:
    lock = threading.Lock()

    def work() -> Any:
        return lock, later

    if lock is None:
        later = 1
    return work


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Silent, "AssertionError"),
        (Proxy, "lock"),
        (Raising, "Raising|lock"),
        (Slotted, r"argument 0\.lock"),
        (lambda: {OddKey(): threading.Lock()}, "OddKey"),
        (_with_an_empty_cell, "captures 'lock'"),
        (lambda: functools.partial(print, threading.Lock()), r"args\[0\]"),
        (lambda: (number for number in range(3)), "pass a list"),
        (socket.socket, "connect in the task"),
        (threading.RLock, "__getstate__"),
        (lambda: __import__("multiprocessing").Lock(), "Manager"),
        (lambda: __import__("multiprocessing").Queue(), "Manager"),
    ],
)
def test_what_cannot_be_sent_is_named_and_the_reason_has_words(
    shared: Executor, make: Callable[[], Any], words: str
) -> None:
    value = make()
    with pytest.raises(gristmill.UnpicklableError, match=words) as caught:
        shared.submit(id, value)
    assert not str(caught.value).rstrip().endswith(":")
    if isinstance(value, socket.socket):
        value.close()


def test_an_initializers_argument_that_cannot_be_sent_is_named() -> None:
    import multiprocessing

    with pytest.raises(gristmill.UnpicklableError, match=r"initargs\[1\].*Manager"):
        Executor(1, initializer=print, initargs=(1, multiprocessing.Lock())).submit(abs, 1)


def test_a_result_that_cannot_be_read_says_so(shared: Executor) -> None:
    def unreadable() -> Any:
        class Unreadable:
            def __reduce__(self) -> Any:
                return eval, ("__import__('gristmill_has_no_such_module')",)

        return Unreadable()

    for future in (shared.submit(unreadable), shared.submit(lambda: [unreadable()])):
        with pytest.raises(
            gristmill.RemoteError, match=r"result could not be read.*no_such_module"
        ):
            future.result()
    with pytest.raises(gristmill.RemoteError, match="result could not be read"):
        list(shared.map(lambda _: unreadable(), range(3)))
