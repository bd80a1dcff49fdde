"""Equal calls: the parts of a call that its key depends on, and the parts that it ignores."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import gc
import pathlib
import subprocess
import sys
import textwrap
import threading
import types
import weakref
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.parsl._kernel.memo_key import make_key
from gristmill.parsl.dataflow.memoization import MemoKeyError, id_for_memo

numpy = pytest.importorskip("numpy")
pandas = pytest.importorskip("pandas")


def double(x: object = None, **named: object) -> object:
    return x, named


def key(*args: Any, **kwargs: Any) -> str:
    return make_key(double, args, kwargs)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: float
    tags: set[str] = dataclasses.field(default_factory=set)


class Plain:
    def __init__(self, **content: object) -> None:
        self.__dict__.update(content)


class Slotted:
    __slots__ = ("content",)

    def __init__(self, content: object) -> None:
        self.content = content


Pair = namedtuple("Pair", "left right")

ARRAY = numpy.arange(12).reshape(3, 4)

#: Arguments that all differ from each other.
DIFFERENT: list[Any] = [
    None, True, False, 0, 1, -1, 2**70, -(2**70), 1.0, 0.0, -0.0, float("inf"), float("nan"), 1j, 1 + 0j,
    "", "1", "a", "é", "\ud800", b"", b"a", b"1", bytearray(b"a"), "a" * 1000, "a" * 1001, b"a" * 1000,
    (), [], {}, set(), frozenset(), (1,), [1], {1}, frozenset({1}), {1: 1}, [[1], 2], [1, [2]], [[1, 2]], [1, 2],
    ["ab", "c"], ["a", "bc"], {1: 2, 3: 4}, {1: 4, 3: 2}, {"a": {"b": 1}}, {"a": 1, "b": 1}, OrderedDict(a=1, b=2),
    OrderedDict(b=2, a=1), deque([1]), Pair(1, 2), range(3), slice(1, 2), Ellipsis, NotImplemented,
    Colour.RED, Colour.BLUE, Colour, Point(1.0), Point(1.0, {"a"}), Plain(a=1), Plain(a=2), Plain(b=1), Slotted(1),
    Slotted(2), pathlib.PurePosixPath("a/b"), pathlib.Path("a"), datetime.date(2020, 1, 1), decimal.Decimal("1.0"),
    len, print, double, sys, threading, [].append, "a".upper, Plain(a=1).__init__,
    functools.partial(double, 1), functools.partial(double, 2), functools.partial(double, x=1),
    ARRAY, ARRAY.T, ARRAY.astype("f8"), ARRAY.astype("i4"), ARRAY.reshape(4, 3), ARRAY[:2], ARRAY.tolist(),
    numpy.int64(1), numpy.float64(1), numpy.float32(1), numpy.array(1), numpy.array([1]), numpy.array([]),
    numpy.array(["2020-01-01"], dtype="M8[D]"), numpy.array(["2020-01-01"], dtype="M8[s]"),
    numpy.array([1, "a"], dtype=object), numpy.array([1, "b"], dtype=object),
    numpy.zeros(2, dtype=[("a", "i4"), ("b", "i4")]), numpy.zeros(2, dtype=[("a", "i4"), ("c", "i4")]),
    pandas.Series([1, 2]), pandas.Series([1, 2], name="a"), pandas.Series([1, 2], index=[1, 2]),
    pandas.Series(["a", "b"]), pandas.Series(["a", "b"], dtype="category"), pandas.Timestamp("2020-01-01"),
    pandas.DataFrame({"a": [1, 2]}), pandas.DataFrame({"b": [1, 2]}), pandas.DataFrame({"a": [1, 3]}),
    pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pandas.Index([1, 2]), pandas.Index([1, 2], name="a"),
]  # fmt: skip


def test_different_arguments_have_different_keys() -> None:
    by_key: dict[str, Any] = {}
    for value in DIFFERENT:
        other = by_key.setdefault(key(value), value)
        assert other is value, f"{value!r} and {other!r} have one key"


def self_containing(make: Callable[[], Any]) -> Any:
    value = make()
    value.append(value) if isinstance(value, list) else value.update(itself=value)
    return value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        ({1, "a", (2, 3)}, {(2, 3), "a", 1}),
        ({1: "a", "b": 2, None: 3}, {None: 3, "b": 2, 1: "a"}),
        (Point(1.0, {"a", "b"}), Point(1.0, {"b", "a"})),
        (Plain(a=1, b=2), Plain(b=2, a=1)),
        (["spam eggs", "spam eggs"], ["spam eggs", " ".join(["spam", "eggs"])]),
        (float("nan"), -float("nan")),
        (ARRAY.T, numpy.ascontiguousarray(ARRAY.T)),
        (ARRAY[::2], ARRAY[::2].copy()),
        (numpy.asfortranarray(ARRAY), ARRAY),
        (pandas.DataFrame({"a": [1, 2], "b": [3, 4]}), pandas.DataFrame(numpy.array([[1, 3], [2, 4]]), columns=["a", "b"])),
        (self_containing(list), self_containing(list)),
        (self_containing(dict), self_containing(dict)),
    ],
)  # fmt: skip
def test_equal_arguments_have_one_key_however_they_were_made(one: Any, other: Any) -> None:
    assert key(one) == key(other)
    assert key([one, {"a": one}]) == key([other, {"a": other}])


SIMPLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner),
)  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Returns whether two values are equal in type too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(repr(one) == repr(other))


@given(SIMPLE, SIMPLE)
def test_keys_are_equal_exactly_where_values_are(one: Any, other: Any) -> None:
    assert (key(one) == key(other)) is same(one, other)
    assert key(one) == key(one)


def test_a_structure_that_is_shared_many_times_is_looked_at_once() -> None:
    value: list[Any] = [1]
    for _ in range(60):
        value = [value, value]
    assert key(value) == key(value)


def test_the_place_and_the_name_of_an_argument_count() -> None:
    assert len({key(1, 2), key(2, 1), key((1, 2)), key(1, x=2), key(1, y=2), key(x=1, y=2)}) == 6
    assert key(a=1, b=2) == key(b=2, a=1)


def test_ignored_names_do_not_count_and_need_not_be_there() -> None:
    ignored = make_key(double, (1,), {"verbose": True}, ["verbose", "missing"])
    assert ignored == make_key(double, (1,), {"verbose": False}, ["verbose"]) == key(1)
    assert ignored != key(1, verbose=True)


SCRIPT = """
import sys; sys.path[:0] = {path!r}
from gristmill.parsl._kernel.memo_key import make_key
import dataclasses, pathlib
@dataclasses.dataclass
class Point:
    x: float
    tags: set
def double(x): return x * 2
print(make_key(double, ({{"a", "b", "c"}}, Point(1.0, {{"d", "e"}}), [pathlib.Path("a")]), {{"c": double}}))
"""


def test_a_key_is_the_same_in_every_process() -> None:
    keys = set()
    for seed in ("1", "2", "3"):
        command = [sys.executable, "-c", SCRIPT.format(path=sys.path)]
        run = subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True)
        keys.add(run.stdout)
    assert len(keys) == 1


def made(source: str, name: str = "app", **names: object) -> Callable[..., Any]:
    """Returns the function of this name in a module with this source."""
    module = types.ModuleType("program")
    module.__dict__.update(names)
    exec(compile(textwrap.dedent(source), "program.py", "exec"), module.__dict__)
    function: Callable[..., Any] = module.__dict__[name]
    return function


def code_key(source: str, **options: Any) -> str:
    return make_key(made(source), (1,), {}, **options)


BASE = "FACTOR = 2\ndef part(x): return x + 1\ndef app(x, y=3): return part(x) * FACTOR * y"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("part(x) *", "part(x) +"),
        ("FACTOR * y", "FACTOR * 3"),
        ("FACTOR = 2", "FACTOR = 5"),
        ("x + 1", "x + 2"),
        ("y=3", "y=4"),
        ("y=3", "*, y=3"),
        ("x, y=3", "*x, y=3"),
    ],
)
def test_an_edited_function_has_another_key_unless_its_code_does_not_count(
    old: str, new: str
) -> None:
    edited = BASE.replace(old, new)
    assert edited != BASE
    assert code_key(edited) != code_key(BASE)
    assert code_key(edited, code_in_key=False) == code_key(BASE, code_in_key=False)


@pytest.mark.parametrize(
    "edited", [BASE + "\n\ndef other(): pass", "# why\n\n" + BASE, BASE.replace("x, y=3", "x: int, y: int = 3")]
)  # fmt: skip
def test_comments_annotations_and_other_functions_do_not_change_a_key(edited: str) -> None:
    assert code_key(edited) == code_key(BASE)


def test_functions_of_one_code_and_two_names_have_two_keys() -> None:
    renamed = made(BASE.replace("app", "other"), "other")
    for code_in_key in (True, False):
        assert make_key(renamed, (), {}, code_in_key=code_in_key) != make_key(
            made(BASE), (), {}, code_in_key=code_in_key
        )


def closure(value: Any) -> Callable[[], Any]:
    def inner() -> Any:
        return value

    return inner


def test_what_a_function_closes_over_counts_as_it_is_first_seen() -> None:
    kept = [1]
    function = closure(kept)
    before = make_key(function, (), {})
    assert before == make_key(closure([1]), (), {}) != make_key(closure([2]), (), {})
    kept.append(2)
    assert make_key(function, (), {}) == before != make_key(closure(kept), (), {})


def test_a_function_that_another_closes_over_counts_by_its_code() -> None:
    first, second = made("def app(): return 1"), made("def app(): return 2")
    function = closure(first)
    before = make_key(function, (), {})
    assert before == make_key(closure(first), (), {}) != make_key(closure(second), (), {})
    assert function.__closure__ is not None
    function.__closure__[0].cell_contents = second
    assert make_key(function, (), {}) != before


def test_functions_are_not_kept_alive_by_their_keys() -> None:
    class Kept:
        pass

    def gone() -> weakref.ref[Any]:
        function = closure(Kept())

        def recursive() -> Any:
            return recursive, function

        make_key(recursive, (function,), {})
        return weakref.ref(recursive)

    reference = gone()
    gc.collect()
    assert reference() is None


def test_a_constant_that_is_bound_anew_changes_the_key_of_the_next_call() -> None:
    function = made(BASE)
    before = make_key(function, (), {})
    function.__globals__["FACTOR"] = 7
    changed = make_key(function, (), {})
    function.__globals__["FACTOR"] = 2
    assert changed != before == make_key(function, (), {})
    function.__code__ = made(BASE.replace("*", "+")).__code__
    assert make_key(function, (), {}) != before


def test_functions_that_call_each_other_and_contain_themselves_have_keys() -> None:
    source = "def app(x): return other(x)\ndef other(x): return app(x)"
    assert (
        code_key(source)
        == code_key(source)
        != code_key(source.replace("return app(x)", "return app(-x)"))
    )
    kept: list[Any] = []
    function = closure(kept)
    kept.append(function)
    keys = {make_key(function, (), {}) for _ in range(3)}
    assert len(keys) == 1


def test_a_lock_in_a_closure_counts_by_its_type() -> None:
    assert make_key(closure(threading.Lock()), (), {}) == make_key(
        closure(threading.Lock()), (), {}
    )


def test_an_argument_that_is_a_function_counts_by_its_code() -> None:
    one, other = made("def app(): return 1"), made("def app(): return 2")
    assert key(one) != key(other)
    assert key(functools.partial(one, 3)) != key(functools.partial(other, 3))
    arguments = ((functools.partial(one, 3),), {})
    assert make_key(double, *arguments, code_in_key=False) == make_key(
        double, (functools.partial(other, 3),), {}, code_in_key=False
    )


@pytest.mark.parametrize("value", [threading.Lock(), [threading.Lock()], (one for one in "ab")])
def test_what_cannot_be_identified_is_named_with_what_to_do(value: Any) -> None:
    with pytest.raises(
        MemoKeyError, match=r"argument 2 of double .* cannot be pickled.*id_for_memo.register"
    ):
        make_key(double, (1, value), {})
    with pytest.raises(
        ValueError, match=r"argument 'lock' of double .*ignore_for_cache=\['lock'\]"
    ):
        make_key(double, (), {"lock": value})
    assert make_key(double, (), {"lock": value}, ["lock"])
    with pytest.raises(MemoKeyError):
        id_for_memo(value)


def test_what_is_nested_too_deeply_is_an_error_and_no_crash() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(MemoKeyError, match="nested too deeply"):
        key(value)


class Molecule:
    def __init__(self, name: str, weight: float) -> None:
        self.name, self.weight = name, weight


class Salt(Molecule):
    pass


class Broken:
    pass


class BrokenError(ValueError):
    pass


@id_for_memo.register(Molecule)
def _(molecule: Molecule, output_ref: bool = False) -> bytes:
    return id_for_memo(molecule.name) + (b"o" if output_ref else b"i")


@id_for_memo.register(Broken)
def _(broken: Broken, output_ref: bool = False) -> bytes:
    raise BrokenError("on purpose")


def test_a_registered_type_is_identified_by_what_its_function_gives() -> None:
    water = key(Molecule("water", 18.0))
    assert water == key(Molecule("water", 18.015)) != key(Molecule("salt", 18.0))
    assert key([Molecule("water", 1)]) == key([Molecule("water", 2)])
    assert key(Salt("water", 1)) == key(Salt("water", 2)) != water
    assert key(outputs=[Molecule("water", 1)]) != key(inputs=[Molecule("water", 1)])
    with pytest.raises(BrokenError, match="on purpose"):
        key([Broken()])


def test_what_a_registered_function_gives_may_be_text() -> None:
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    id_for_memo.register(Named, lambda value, output_ref=False: value.name)
    assert key(Named("a")) == key(Named("a")) != key(Named("b"))


def test_a_registration_for_a_builtin_type_is_used() -> None:
    before = key(1, [1])
    id_for_memo.register(int, lambda value, output_ref=False: b"any number")
    try:
        assert key(1, [1], a=1) == key(2, [3], a=4)
    finally:
        # singledispatch cannot unregister a type.
        registry = next(
            cell.cell_contents
            for cell in id_for_memo.register.__closure__ or ()
            if isinstance(cell.cell_contents, dict) and int in cell.cell_contents
        )
        del registry[int]
        id_for_memo._clear_cache()
    assert key(1, [1]) == before != key(2, [1])


def test_what_was_registered_with_parsl_is_used() -> None:
    theirs = pytest.importorskip("parsl.dataflow.memoization")

    class Registered:
        def __init__(self, content: int) -> None:
            self.content = content

    assert key(Registered(1)) != key(Registered(2))
    theirs.id_for_memo.register(Registered, lambda value, output_ref=False: b"one of them")
    assert key(Registered(1)) == key(Registered(2))
    assert key([1, "a"]) != key([1, b"a"])


def test_a_file_is_known_by_its_address() -> None:
    files = pytest.importorskip("parsl.data_provider.files")
    staged = files.File("http://localhost/a")
    staged.local_path = "/somewhere/a"
    assert (
        key(staged)
        == key(files.File("http://localhost/a"))
        != key(files.File("http://localhost/b"))
    )
