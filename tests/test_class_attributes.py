"""Classes that go by value keep the attributes that are the same objects as those of their bases."""

from __future__ import annotations

import abc
import ctypes
import dataclasses
import enum
import pickle
import subprocess
import sys
import threading
import typing
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor, _classes
from gristmill.parsl._kernel.checkpoint import pickle_entry
from gristmill.parsl._kernel.serialization import serialize

pytestmark = pytest.mark.interpreter


def subclasses() -> dict[str, type]:
    """Returns classes that repeat attributes of their bases, with each kind of attribute and of class."""

    class Base:
        version, nothing, text, items, pair = 1, None, "t", [1], (1, 2)
        __slots__ = ("slot",)
        __hash__ = None  # type: ignore[assignment]
        __annotations__ = {"version": int}

        def go(self) -> str:
            return "base"

        @property
        def size(self) -> int:
            return 1

        @classmethod
        def make(cls) -> type:
            return cls

    class Fixed(Base):
        version, nothing, text, items, pair = 1, None, "t", Base.items, Base.pair
        __slots__ = ()
        __hash__ = None  # type: ignore[assignment]
        __annotations__ = Base.__annotations__
        go, size, slot = Base.go, Base.size, Base.slot  # type: ignore[has-type]
        make = vars(Base)["make"]

    class Other:
        version = 1

    class Both(Fixed, Other):
        version, nothing = 1, None

    class OfObject:
        __init__, __new__, __hash__ = object.__init__, object.__new__, object.__hash__  # type: ignore[assignment]
        __subclasshook__ = vars(object)["__subclasshook__"]

        def __eq__(self, other: object) -> bool:
            return self is other

    class Thread(threading.Thread):
        run, name, _initialized = threading.Thread.run, threading.Thread.name, False

    class Kind(type):
        __call__ = type.__call__
        version = 1

    class SubKind(Kind):
        version = 1

    class OfKind(metaclass=SubKind):
        version = 1

    class Abstract(abc.ABC):
        sizes = ()

        @abc.abstractmethod
        def area(self) -> int: ...

    class StillAbstract(Abstract):
        sizes = ()
        area = Abstract.area

    class Row(typing.NamedTuple):
        a: int = 1

    class SubRow(Row):
        __slots__ = ()
        a, _fields = Row.a, Row._fields

    @dataclasses.dataclass
    class Point:
        x: int = 1

    @dataclasses.dataclass
    class SubPoint(Point):
        x: int = 1

    class Shades(enum.Enum):
        def low(self) -> str:
            return self.name.lower()

    class Colours(Shades):
        low = Shades.low
        RED, BLUE = 1, 2

    class Packed(ctypes.Structure):
        _pack_ = 1
        _fields_ = (("letter", ctypes.c_char),)

    class SubPacked(Packed):
        _pack_ = 1
        _fields_ = (("number", ctypes.c_int),)

    return {name: value for name, value in locals().items() if isinstance(value, type)}


#: Attributes that Python adds while it uses a class.
_ADDED = {"__slotnames__", "_abc_impl", "__weakref__", "__dict__"}


def shared_of(cls: type) -> set[tuple[str, str]]:
    """Returns the attributes of a class that are those of its bases."""
    return {
        (name, base.__qualname__)
        for name, value in vars(cls).items()
        for base in cls.__mro__[1:]
        if name not in _ADDED and vars(base).get(name) is value
    }


def names_of(cls: type) -> set[str]:
    return set(vars(cls)) - _ADDED


@pytest.mark.parametrize("name", subclasses())
def test_an_attribute_that_is_a_base_s_too_stays_one_of_the_class(
    shared: Executor, name: str
) -> None:
    cls = subclasses()[name]
    found = shared.submit(lambda: (names_of(cls), shared_of(cls), cls.__qualname__)).result()
    assert found == (names_of(cls), shared_of(cls), cls.__qualname__)


def test_a_class_does_not_follow_its_base_in_an_attribute_of_its_own(shared: Executor) -> None:
    class Base:
        version = 1

    class Fixed(Base):
        version = 1

    def bump() -> tuple[int, int]:
        Base.version = 2
        return Fixed.version, Fixed().version

    assert shared.submit(bump).result() == (1, 1)


def test_an_attribute_that_becomes_the_base_s_stays_in_a_worker_that_has_the_class(
    shared: Executor,
) -> None:
    class Base:
        version = 1

    class Settings(Base):
        version = 2

    def look() -> tuple[int, bool]:
        return Settings.version, "version" in vars(Settings)

    assert shared.submit(look).result() == (2, True)
    Settings.version = 1
    assert shared.submit(look).result() == (1, True)


def test_a_lock_that_is_an_imported_base_s_too_does_not_keep_a_class_from_tasks(
    shared: Executor,
) -> None:
    lock = threading.Lock()
    threading.Barrier.lock = lock  # type: ignore[attr-defined]
    try:

        class Mine(threading.Barrier):
            lock = vars(threading.Barrier)["lock"]

        assert shared.submit(lambda: hasattr(Mine, "lock")).result() is False
    finally:
        del threading.Barrier.lock  # type: ignore[attr-defined]


def test_other_names_of_an_enum_s_members_are_known_in_tasks(shared: Executor) -> None:
    class Colour(enum.Enum):
        RED = 1
        ROUGE = 1

    class Access(enum.Flag):
        READ = 1
        WRITE = 2
        BOTH = 3

    def look() -> tuple[list[str], list[str], bool]:
        return list(Colour.__members__), list(Access.__members__), Colour["ROUGE"] is Colour.RED

    assert shared.submit(look).result() == look()


READ = """
import pickle, sys
sys.path[:0] = {path!r}
value = pickle.load(open({file!r}, "rb"))
value = value["result"] if isinstance(value, dict) else value
cls = type(value)
cls.__base__.version = 2
print(cls.version, "version" in vars(cls))
"""


@pytest.mark.parametrize("dump", [lambda value: pickle_entry("key", value), serialize])
def test_a_checkpoint_and_a_serialized_object_keep_what_is_the_base_s_too(
    tmp_path: Path, dump: Any
) -> None:
    class Base:
        version = 1

    class Fixed(Base):
        version = 1

    file = tmp_path / "pickle"
    file.write_bytes(dump(Fixed()))
    assert type(pickle.loads(file.read_bytes())) in (dict, Fixed)
    command = [sys.executable, "-c", READ.format(path=sys.path, file=str(file))]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "True"]


class Register:
    """A base whose subclasses are listed."""

    names: typing.ClassVar[list[str]] = []

    def __init_subclass__(cls) -> None:
        Register.names.append(cls.__name__)


class Held:
    """The making of a class, which lasts until another thread lets it go on."""

    def __init__(self) -> None:
        self.has_begun, self.goes_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.has_begun.wait()

    def _run(self) -> None:
        with _classes._without_hooks([Register]):
            self.has_begun.set()
            self.goes_on.wait()
            type("Received", (Register,), {})

    def end(self) -> None:
        self.goes_on.set()
        self._thread.join()


def test_threads_that_make_classes_without_hooks_change_nothing_for_others() -> None:
    hook = vars(Register)["__init_subclass__"]
    first, second = Held(), Held()
    type("Own", (Register,), {})
    assert Register.names == ["Own"]
    assert _classes._class_state(Register, lambda _: False)[0]["__init_subclass__"] is hook
    first.end()
    type("Other", (Register,), {})
    second.end()
    assert Register.names == ["Own", "Other"]
    assert vars(Register)["__init_subclass__"] is hook
