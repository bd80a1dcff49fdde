"""Keys of values whose class or name is shared: what is made by one piece of code again is not the same."""

from __future__ import annotations

import abc
import collections
import ctypes
import dataclasses
import enum
import functools
import subprocess
import sys
import textwrap
import threading
import types
import typing
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill.parsl as parsl
from gristmill.parsl import Config
from gristmill.parsl._kernel.memo_key import make_key
from gristmill.parsl.dataflow.memoization import MemoKeyError

numpy = pytest.importorskip("numpy")


def show(value: Any = None) -> Any:
    return value


def key(value: Any) -> str:
    return make_key(show, (value,), {})


def model(n: Any) -> Any:
    class Model:
        rate = n

        def __init__(self) -> None:
            super().__init__()
            self.name = "m"

        def go(self) -> object:
            return "model"

    return Model


def by_method(n: Any) -> Any:
    class Model:
        def go(self) -> object:
            return super().__hash__, n

    return Model


def by_property(n: Any) -> Any:
    class Model:
        @property
        def rate(self) -> object:
            return n

    return Model


def by_static_method(n: Any) -> Any:
    class Model:
        @staticmethod
        def rate() -> object:
            return n

    return Model


def by_class_method(n: Any) -> Any:
    class Model:
        @classmethod
        def rate(cls) -> object:
            return n

    return Model


def by_cached_property(n: Any) -> Any:
    class Model:
        @functools.cached_property
        def rate(self) -> object:
            return n

    return Model


def by_base(n: Any) -> Any:
    class Model(model(n)):  # type: ignore[misc]
        pass

    return Model


def by_metaclass(n: Any) -> Any:
    class Kind(type):
        rate = n

    class Model(metaclass=Kind):
        pass

    return Model


def by_slots(n: Any) -> Any:
    class Model:
        __slots__ = (f"slot{n}",)

    return Model


def by_annotation(n: Any) -> Any:
    return type("Model", (), {"__annotations__": {"a": int, "b": n, "c": str}})


#: Abstract base classes do not keep the classes that are registered with them alive.
KEPT: list[type] = []


def by_registered_class(n: Any) -> Any:
    class Model(abc.ABC):  # noqa: B024
        pass

    registered = model(n)
    KEPT.append(registered)
    Model.register(registered)
    return Model


def by_itself(n: Any) -> Any:
    made = model(n)
    made.itself, made.all = made, [made]
    return made


def by_partial_method(n: Any) -> Any:
    class Model:
        go = functools.partialmethod(show, n)

    return Model


def typed_dict(n: Any) -> Any:
    return typing.TypedDict("Model", {"a": int if n == 1 else str})  # type: ignore[operator]


def dataclass(n: Any) -> Any:
    return dataclasses.make_dataclass("Row", [("a", int, 0)], namespace={"rate": n})


def frozen(n: Any) -> Any:
    return dataclasses.make_dataclass("Row", [("a", int, n)], frozen=True, slots=True)


def named_tuple(n: Any) -> Any:
    return collections.namedtuple("Row", ["a", f"b{n}"], defaults=[1, 2])  # type: ignore[misc]


def enumeration(n: Any) -> Any:
    return enum.Enum("E", {"A": 1, "B": n + 1})


def flag(n: Any) -> Any:
    return enum.Flag("F", {"A": 1, "B": 2 * n})


def structure(n: Any) -> Any:
    return type("S", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_char * n)]})


def new_class(n: Any) -> Any:
    return types.new_class("Model", (), {}, lambda space: space.update(rate=n))


def struct(n: Any) -> Any:
    msgspec = pytest.importorskip("msgspec")
    return msgspec.defstruct("Row", [("a", int, n)])


CLASSES = [
    model, by_method, by_property, by_static_method, by_class_method, by_cached_property, by_base, by_metaclass,
    by_slots, by_annotation, by_registered_class, by_itself, by_partial_method, dataclass, frozen,
    named_tuple, enumeration, flag, structure, new_class, struct,
]  # fmt: skip


def instance(made: Any) -> Any:
    if issubclass(made, enum.Enum):
        return made.A
    return made()


@pytest.mark.parametrize("make", CLASSES)
@pytest.mark.parametrize("use", [show, instance], ids=["class", "instance"])
def test_classes_made_by_one_piece_of_code_count_by_their_content(
    make: Callable[[int], Any], use: Callable[[Any], Any]
) -> None:
    one, again, other = use(make(1)), use(make(1)), use(make(2))
    assert key(one) != key(other)
    assert key([{"a": one}]) != key([{"a": other}])
    assert key(one) == key(one) == key(again)
    assert key(functools.partial(show, one)) != key(functools.partial(show, other))


def test_a_call_with_an_instance_of_another_class_of_that_name_runs(tmp_path: Any) -> None:
    @parsl.python_app(cache=True)
    def rate_of(value: Any) -> Any:
        return type(value).rate

    with parsl.load(Config(run_dir=str(tmp_path))):
        assert [rate_of(model(n)()).result() for n in (1, 2, 1)] == [1, 2, 1]


def local_function(n: Any) -> Any:
    def go() -> object:
        return n

    return go


def cached_function(n: Any) -> Any:
    return functools.lru_cache(local_function(n))


def marked_function(n: Any) -> Any:
    go = local_function(0)
    go.rate = n
    return go


def function_with_default(n: Any) -> Any:
    if n == 1:
        return lambda *, a=1, b: (a, b)
    return lambda *, a, b=1: (a, b)


def module(n: Any) -> Any:
    made = types.ModuleType("made")
    made.rate = n  # type: ignore[attr-defined]
    return made


def rebuilt(n: Any) -> Any:
    def make() -> Any:
        return Rebuilt(make)

    def make_other() -> Any:
        return Rebuilt(make_other), n

    return Rebuilt(make if n == 1 else make_other)


class Rebuilt:
    def __init__(self, make: Any) -> None:
        self.make = make

    def __reduce__(self) -> Any:
        return self.make, ()


class Unit(numpy.ndarray):  # type: ignore[misc, name-defined]
    unit: object


def array_with_unit(n: Any) -> Any:
    made = numpy.arange(3.0).view(Unit)
    made.unit = n
    return made


def holding_a_lock_too(n: Any) -> Any:
    held = [threading.Lock(), n]
    return lambda: held


def closing_over_a_class(n: Any) -> Any:
    made = model(n)
    return lambda: made


def of_local_metaclass_and_base(n: Any) -> Any:
    made = by_metaclass(n)
    return type(made)("Model", (made, by_base(n)), {})()


class NamedProperty(property):
    pass


OTHERS: list[Any] = [
    local_function, cached_function, marked_function, function_with_default, module, rebuilt, array_with_unit,
    holding_a_lock_too, closing_over_a_class, typed_dict, of_local_metaclass_and_base,
    lambda n: model(n)().go,
    lambda n: by_method(n)().go,
    lambda n: by_method(n).go,
    lambda n: typing.TypeVar("T", bound=int if n == 1 else str),  # type: ignore[misc]
    lambda n: typing.NewType("T", int if n == 1 else str),  # type: ignore[valid-newtype]
    lambda n: NamedProperty(local_function(n)),
    lambda n: types.MappingProxyType({"a": model(n)}),
    lambda n: {"a": model(n)}.values(),
    lambda n: memoryview(b"abcd").cast("i" if n == 1 else "I"),
    lambda n: list[model(n)],  # type: ignore[misc]
]  # fmt: skip


@pytest.mark.parametrize("make", OTHERS)
def test_functions_modules_and_type_variables_of_one_name_count_by_their_content(
    make: Callable[[int], Any],
) -> None:
    one, again, other = make(1), make(1), make(2)
    assert key(one) != key(other)
    assert key([one]) != key([other])
    assert key(one) == key(one) == key(again)


def test_methods_count_by_their_class_after_a_key_of_the_class_was_made() -> None:
    one, other = by_method(1), by_method(2)
    one.rate, other.rate = 1, 2
    assert key(one) != key(other)
    assert key(one.go) != key(other.go)


def test_functions_in_a_list_that_they_close_over_count_by_the_list() -> None:
    def in_a_list(n: int) -> list[Any]:
        kept: list[Any] = [n]
        kept.append(lambda: kept)
        return kept

    one, other = in_a_list(1), in_a_list(2)
    assert key(one) != key(other)
    assert key(one[1]) != key(other[1])


def test_a_class_that_takes_the_name_of_another_one_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = []
    for n in (1, 2, 3):
        made = model(n)
        made.__qualname__ = "Model"
        monkeypatch.setitem(globals(), "Model", made)
        keys += [key(made), key(made())]
        assert keys[-2:] == [key(made), key(made())]
    assert len(set(keys)) == 6


def test_a_module_that_takes_the_name_of_another_one_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = set()
    for n in (1, 2):
        made = module(n)
        made.Model = made_class = model(n)
        made_class.__module__, made_class.__qualname__ = "made", "Model"
        monkeypatch.setitem(sys.modules, "made", made)
        keys |= {key(made), key(made_class), key(made_class())}
    assert len(keys) == 6


def test_a_class_that_changes_has_another_key() -> None:
    made = model(1)
    before = key(made())
    made.rate = 2
    assert key(made()) == key(model(2)()) != before


def test_a_class_that_was_used_has_the_key_of_a_new_one() -> None:
    for make in CLASSES:
        used = make(1)
        instance(used).__reduce_ex__(4)
        assert getattr(used, "__annotations__", {}) is not None
        isinstance(1, used)
        assert key(used) == key(make(1))


def lock_class() -> Any:
    class Model:
        lock = threading.Lock()

    return Model


def vectorized() -> Any:
    return numpy.frompyfunc(lambda one: one, 1, 1)


@pytest.mark.parametrize("make", [lock_class, lambda: lock_class()(), vectorized])
def test_what_has_neither_a_name_of_its_own_nor_a_content_is_refused(make: Any) -> None:
    with pytest.raises(MemoKeyError, match=r"argument 1 of show cannot be identified"):
        key(make())


class Locked:
    lock = threading.Lock()


def test_a_class_of_a_module_counts_by_its_name_whatever_it_holds() -> None:
    assert key(Locked) == key(Locked) != key(Rebuilt)
    assert key(Locked()) == key(Locked())
    assert key(numpy.add) == key(numpy.add) != key(numpy.subtract)


SCRIPT = """
import abc, dataclasses, enum, sys, collections, typing
sys.path[:0] = {path!r}
from gristmill.parsl._kernel.memo_key import make_key
def show(x): return x
def model(n):
    class Base(abc.ABC):
        known = {{"a", "b", "c"}}
        def go(self): return n
    class Model(Base, typing.Generic[typing.TypeVar("T")]):
        text: str = "a"
        def go(self): return super().go(), self.known, Model
    return Model
made = [
    model(1)(), model, dataclasses.make_dataclass("Row", [("a", int, dataclasses.field(default_factory=list))])(),
    enum.Enum("E", "A B"), enum.Flag("F", "A B")(3), collections.namedtuple("N", "a b")(1, 2),
]
print([make_key(show, (one,), {{}}) for one in made])
"""


def test_keys_of_local_classes_are_the_same_in_every_process() -> None:
    printed = set()
    for seed in ("1", "2", "3"):
        command = [sys.executable, "-c", textwrap.dedent(SCRIPT).format(path=sys.path)]
        run = subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True)
        printed.add(run.stdout)
    assert len(printed) == 1


PLAIN = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", b"a", 1.0, -0.0])
NAMES = st.sampled_from(["a", "b", "__doc__", "__hash__"])
#: Descriptions of values: a kind and the contents that distinguish it from others of its kind.
DESCRIPTIONS = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.tuples(st.just("list"), st.lists(inner, max_size=3)),
        st.tuples(
            st.sampled_from(["class", "instance", "subclass", "method", "static", "function"]),
            st.dictionaries(NAMES, inner, max_size=3),
        ),
    ),
    max_leaves=6,
)


def value_of(description: Any) -> Any:
    """Makes a value anew from its description."""
    if not isinstance(description, tuple):
        return description
    kind, parts = description
    if kind == "list":
        return [value_of(part) for part in parts]
    space = {name: value_of(part) for name, part in parts.items()}
    made: Any = type(
        "Made", (), {**space, "go": local_function(space)} if kind == "method" else space
    )
    if kind == "static":
        made.go = staticmethod(local_function(space))
    if kind == "function":
        return local_function(space)
    if kind == "subclass":
        return type("Made", (made,), {})
    return made() if kind == "instance" else made


def text_of(description: Any) -> str:
    """Returns a text that is the same for equal descriptions only: in Python ``1``, ``1.0`` and ``True`` are equal."""
    if isinstance(description, tuple):
        kind, parts = description
        if isinstance(parts, dict):
            # Without an own documentation text a class has none.
            own = {} if kind == "function" else {"__doc__": None}
            inner = sorted((name, text_of(part)) for name, part in {**own, **parts}.items())
            return f"{kind}{inner}"
        return f"{kind}{[text_of(part) for part in parts]}"
    return repr(description)


@given(DESCRIPTIONS, DESCRIPTIONS)
def test_keys_of_made_classes_are_equal_exactly_where_their_contents_are(
    one: Any, other: Any
) -> None:
    assert (key(value_of(one)) == key(value_of(other))) is (text_of(one) == text_of(other))
    assert key(value_of(one)) == key(value_of(one))
