"""A program whose functions and classes are sent to tasks by value: each case returns its value and the expected one.

As a program it prints a line for each case; the tests import it for the names of the cases.
"""

# mypy: ignore-errors
# ruff: noqa: RUF012, B019, B018, F841
import abc
import collections
import contextvars
import ctypes
import dataclasses
import enum
import functools
import logging
import re
import struct
import threading
import types
import typing
import weakref
from typing import Generic, NamedTuple, Protocol, TypedDict, TypeVar

import gristmill

T = TypeVar("T")


class Color(enum.Enum):
    RED = 1
    BLUE = "b"

    @property
    def low(self):
        return self.name.lower()


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


class Num(enum.IntEnum):
    ONE = 1


class Planet(enum.Enum):
    EARTH = (1.0, 2.0)

    def __init__(self, mass, radius):
        self.mass = mass


class NT(NamedTuple):
    x: int
    y: int = 2

    def total(self):
        return self.x + self.y


NT2 = collections.namedtuple("NT2", "a b")


class TD(TypedDict):
    a: int


class Proto(typing.Protocol):
    def go(self) -> int: ...


class Impl(Proto):
    def go(self):
        return 3


@typing.runtime_checkable
class RP(Protocol):
    def go(self) -> int: ...


class Box(Generic[T]):
    def __init__(self, v):
        self.v = v


class IntBox(Box[int]):
    pass


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Sq(Shape):
    def __init__(self, s):
        self.s = s

    def area(self):
        return self.s**2


@Shape.register
class Virtual:
    pass


@dataclasses.dataclass(kw_only=True, frozen=True)
class KW:
    a: int
    b: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True, frozen=True, order=True)
class SF:
    a: int
    b: int = 0


@dataclasses.dataclass(slots=True)
class SP:
    a: int


@dataclasses.dataclass(slots=True)
class SC(SP):
    b: int = 5

    def total(self):
        return self.a + self.b + super(SC, self).__getattribute__("a")


@dataclasses.dataclass(slots=True, weakref_slot=True)
class WS:
    value: int


class One:
    __slots__ = "value"


class Private:
    __slots__ = ("__hidden", "open")

    def __init__(self):
        self.__hidden = 5
        self.open = 1

    def get(self):
        return self.__hidden


class DictSlots:
    __slots__ = {"a": "doc"}


class WithDict:
    __slots__ = ("__dict__", "__weakref__", "a")


class SlotChild(One):
    __slots__ = ("more",)


class SlotLoose(One):
    pass


class OneWeak:
    __slots__ = "__weakref__"


class OneDict:
    __slots__ = "__dict__"


class OnePrivate:
    __slots__ = "__p"

    def __init__(self):
        self.__p = 3

    def get(self):
        return self.__p


class SlotInt(int):
    __slots__ = ()


class Circle:
    def __init__(self, r):
        self.r = r

    @functools.cached_property
    def area(self):
        return 3 * self.r**2


@functools.singledispatch
def size(v):
    return 0


@size.register
def _(v: list):
    return len(v)


class Reader:
    @functools.singledispatchmethod
    def read(self, v):
        return 0

    @read.register
    def _(self, v: list):
        return len(v)

    @functools.singledispatchmethod
    @classmethod
    def make(cls, v):
        return cls.__name__


class Plugin:
    registry = {}

    def __init_subclass__(cls, *, name, **kw):
        super().__init_subclass__(**kw)
        cls.registry[name] = cls


class Mine(Plugin, name="mine"):
    def go(self):
        return 4


class NeedsAttr:
    def __init_subclass__(cls):
        cls.double = cls.value * 2


class Has(NeedsAttr):
    value = 4


class Meta(type):
    def __new__(m, n, b, ns, *, tag):
        c = super().__new__(m, n, b, ns)
        c.tag = tag
        return c

    def __init__(c, n, b, ns, *, tag):
        super().__init__(n, b, ns)


class Metaed(metaclass=Meta, tag="t"):
    pass


class Named:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, o, t=None):
        return self if o is None else self.name


class UsesNamed:
    field = Named()


class Outer:
    class Inner:
        def __init__(self):
            self.v = 1

    def make(self):
        return Outer.Inner()


class Base:
    def hi(self):
        return "base"


class Derived(Base):
    def hi(self):
        return "derived " + super().hi()


log = logging.getLogger("mine")
pattern = re.compile("a+")
ns = types.SimpleNamespace(a=1)
proxy = types.MappingProxyType({"a": 1})
var = contextvars.ContextVar("var", default=7)
var2 = contextvars.ContextVar("var2")
loc = threading.local()
weak = weakref.WeakValueDictionary()
weakk = weakref.WeakKeyDictionary()
weaks = weakref.WeakSet()


@functools.cache
def cached(x):
    return x * 2


@functools.lru_cache(maxsize=3)
def lru(x):
    return x * 3


class Meth:
    @functools.lru_cache
    def m(self, x):
        return x + 1

    @functools.cache
    def n(self):
        return 2

    p = functools.partialmethod(lambda self, a, b: a + b, 1)

    @property
    def prop(self):
        return 9

    @classmethod
    def cm(cls):
        return cls.__name__

    @staticmethod
    def sm():
        return 8


def same(x):
    return x


def rt(v):
    return EXECUTORS[0].submit(same, v).result()


def run(f, *a):
    return EXECUTORS[0].submit(f, *a).result()


CASES = {}
EXECUTORS = []


@dataclasses.dataclass(kw_only=True)
class KW2:
    a: int


def helper():
    return var.get()


class State:
    count = 3

    def __init__(self):
        type(self).count


class Packed(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("letter", ctypes.c_char), ("number", ctypes.c_double))

    def both(self):
        return self.letter, self.number


class Linked(ctypes.Structure):
    pass


Linked._fields_ = [("value", ctypes.c_int), ("next", ctypes.POINTER(Linked))]


class Held(ctypes.Structure):
    _anonymous_ = ("packed",)
    _fields_ = (("packed", Packed), ("items", ctypes.c_short * 2))


class Either(ctypes.Union):
    _fields_ = (("bytes", ctypes.c_ubyte * 4), ("number", ctypes.c_int))


class Swapped(ctypes.BigEndianStructure):
    _fields_ = (("number", ctypes.c_int),)


class Pair(ctypes.Array):
    _type_ = ctypes.c_int
    _length_ = 2


class Number(ctypes.c_int):
    def doubled(self):
        return 2 * self.value


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
INTEGER = struct.Struct("<i")


class Proxy:
    """An object that answers for another one."""

    __name__ = property(lambda self: "proxy")
    __mro__ = property(lambda self: Proxy)

    @property
    def __class__(self):
        return int


class Err(Exception):
    pass


class ErrOfOtherClass(Exception):
    @property
    def __class__(self):
        return int


def fail_of_other_class():
    raise ErrOfOtherClass("x")


class SlotErr(Exception):
    __slots__ = ("code",)

    def __init__(self, code):
        super().__init__(code)
        self.code = code


def fail():
    raise Err("x")


def fail_slot():
    raise SlotErr(4)


UserId = typing.NewType("UserId", int)
P = typing.ParamSpec("P")


def _g():
    yield from range(2)


def gen():
    return list(_g())


def deco(n):
    def wrap(f):
        @functools.wraps(f)
        def w(*a):
            return f(*a) + n

        return w

    return wrap


@deco(2)
def decorated(x):
    return x


def counter():
    count = 0

    def add():
        nonlocal count
        count += 1

    return add, lambda: count


add_one, count_of = counter()


class Counts:
    add, count = map(staticmethod, counter())


def count_to_two(add, count):
    add()
    add()
    return count()


def fill():
    CASES["enum"] = (lambda: rt(Color.RED) is Color.RED, True)
    CASES["enum task"] = (lambda: run(lambda: Color("b").low), "blue")
    CASES["flag"] = (lambda: rt(Flags.A | Flags.B) == Flags.A | Flags.B, True)
    CASES["intenum"] = (lambda: rt(Num.ONE) is Num.ONE, True)
    CASES["planet"] = (lambda: run(lambda: Planet.EARTH.mass), 1.0)
    CASES["NT"] = (
        lambda: (
            rt(NT(1)),
            type(rt(NT(1))) is NT,
            run(lambda: NT(3).total()),
            run(lambda n: n.total(), NT(1, 5)),
        ),
        (NT(1), True, 5, 6),
    )
    CASES["NT dict"] = (lambda: run(lambda: hasattr(NT(1), "__dict__")), False)
    CASES["NT2"] = (
        lambda: (rt(NT2(1, 2)), run(lambda: NT2(1, 2)._asdict())),
        (NT2(1, 2), {"a": 1, "b": 2}),
    )
    CASES["TD"] = (
        lambda: run(lambda: (TD(a=1), TD.__required_keys__)),
        ({"a": 1}, frozenset({"a"})),
    )
    CASES["Impl"] = (lambda: (run(lambda: Impl().go()), type(rt(Impl())) is Impl), (3, True))
    CASES["RP"] = (lambda: run(lambda: isinstance(Impl(), RP)), True)
    CASES["RP2"] = (lambda: run(lambda: isinstance(3, RP)), False)
    CASES["generic"] = (
        lambda: (
            rt(Box(1)).v,
            type(rt(IntBox(2))) is IntBox,
            run(lambda: Box[int](3).v),
            run(lambda: IntBox.__orig_bases__[0].__origin__ is Box),
        ),
        (1, True, 3, True),
    )
    CASES["abc"] = (
        lambda: (
            run(lambda: Sq(3).area()),
            run(lambda: isinstance(Virtual(), Shape)),
            type(rt(Sq(1))) is Sq,
        ),
        (9, True, True),
    )
    CASES["abc abstract"] = (lambda: run(lambda: bool(Shape.__abstractmethods__)), True)

    def abstract():
        try:
            Shape()
        except TypeError:
            return "no"

    CASES["abc inst"] = (lambda: run(abstract), "no")
    CASES["kw"] = (
        lambda: (
            rt(KW(a=1)),
            run(lambda: dataclasses.replace(KW(a=1), a=2).a),
            run(lambda: KW(a=3).b),
        ),
        (KW(a=1), 2, []),
    )

    def sub():
        @dataclasses.dataclass
        class S(SP):
            c: int = 4

        @dataclasses.dataclass(kw_only=True)
        class K(KW2):
            c: int

        return S(1).c, K(a=1, c=2).c, dataclasses.fields(SP)[0].default is dataclasses.MISSING

    CASES["dataclass sub"] = (lambda: run(sub), (4, 2, True))
    CASES["SF"] = (
        lambda: (
            rt(SF(1)),
            rt([SF(1), SF(2)]),
            run(lambda: SF(1) < SF(2)),
            run(lambda s: hash(s) == hash(SF(1)), SF(1)),
        ),
        (SF(1), [SF(1), SF(2)], True, True),
    )
    CASES["SC"] = (
        lambda: (rt(SC(1)), run(lambda: SC(1)), run(lambda: SC(2).total())),
        (SC(1), SC(1), 9),
    )
    CASES["slots dict"] = (lambda: run(lambda: hasattr(SP(1), "__dict__")), False)
    CASES["WS"] = (
        lambda: (rt(WS(1)), run(lambda: WS(2)), run(lambda: weakref.ref(WS(1)) is not None)),
        (WS(1), WS(2), True),
    )

    def setv(c, **k):
        o = c()
        for a, b in k.items():
            setattr(o, a, b)
        return o

    CASES["One"] = (
        lambda: (rt(setv(One, value=5)).value, run(lambda: setv(One, value=6)).value),
        (5, 6),
    )
    CASES["Private"] = (
        lambda: (rt(Private()).get(), run(lambda: Private().get()), run(lambda: Private()).get()),
        (5, 5, 5),
    )
    CASES["DictSlots"] = (lambda: rt(setv(DictSlots, a=1)).a, 1)
    CASES["WithDict"] = (
        lambda: (rt(setv(WithDict, a=1, z=2)).z, rt(setv(WithDict, a=1)).a),
        (2, 1),
    )
    CASES["SlotChild"] = (
        lambda: (
            rt(setv(SlotChild, value=1, more=2)).value,
            run(lambda: hasattr(SlotChild(), "__dict__")),
        ),
        (1, False),
    )
    CASES["SlotLoose"] = (
        lambda: (rt(setv(SlotLoose, value=1, any=2)).any, rt(setv(SlotLoose, value=1)).value),
        (2, 1),
    )
    CASES["OneWeak"] = (lambda: type(rt(OneWeak())) is OneWeak, True)
    CASES["OneDict"] = (lambda: rt(setv(OneDict, a=3)).a, 3)
    CASES["OnePrivate"] = (lambda: rt(OnePrivate()).get(), 3)
    CASES["cached_property"] = (
        lambda: (run(lambda c: c.area, Circle(2)), rt(Circle(2)).area, run(lambda: Circle(3)).area),
        (12, 12, 27),
    )
    CASES["singledispatch"] = (lambda: (run(size, [1, 2]), run(lambda: size({}))), (2, 0))
    CASES["singledispatch register in task"] = (
        lambda: run(lambda: (size.register(dict, lambda d: 9), size({}))[1]),
        9,
    )
    CASES["singledispatchmethod"] = (
        lambda: (
            run(lambda r: Reader().read(r), [1]),
            run(Reader().read, [1, 2]),
            run(lambda: Reader.make(1)),
        ),
        (1, 2, "Reader"),
    )
    CASES["init_subclass"] = (
        lambda: (
            run(lambda: Mine().go()),
            run(lambda: sorted(Plugin.registry)),
            type(rt(Mine())) is Mine,
        ),
        (4, ["mine"], True),
    )
    CASES["needs attr"] = (lambda: (run(lambda: Has.double), run(lambda: Has().value)), (8, 4))
    CASES["meta"] = (lambda: (run(lambda: Metaed.tag), type(rt(Metaed())) is Metaed), ("t", True))
    CASES["set_name"] = (lambda: run(lambda: UsesNamed().field), "field")
    CASES["nested"] = (
        lambda: (
            run(lambda: Outer().make().v),
            type(rt(Outer.Inner())) is Outer.Inner,
            run(Outer().make).v,
        ),
        (1, True, 1),
    )
    CASES["super"] = (
        lambda: (run(lambda: Derived().hi()), run(Derived().hi)),
        ("derived base",) * 2,
    )
    CASES["globals"] = (
        lambda: run(lambda: (log.name, pattern.match("aa").group(), ns.a, proxy["a"])),
        ("mine", "aa", 1, 1),
    )
    CASES["contextvar"] = (lambda: run(lambda: (var.get(), var2.get(3))), (7, 3))

    def twice():
        t = var.set(1)
        return helper()

    CASES["contextvar shared"] = (lambda: run(twice), 1)
    CASES["threading.local"] = (lambda: run(lambda: (setattr(loc, "a", 1), loc.a)[1]), 1)
    CASES["weak dicts"] = (lambda: run(lambda: (len(weak), len(weakk), len(weaks))), (0, 0, 0))
    CASES["cache"] = (
        lambda: (
            run(cached, 2),
            run(lambda: lru(2)),
            run(lambda: Meth().m(1)),
            run(lambda: Meth().n()),
            run(lambda: Meth().p(2)),
        ),
        (4, 6, 2, 2, 3),
    )
    CASES["meth"] = (lambda: run(lambda: (Meth().prop, Meth.cm(), Meth.sm())), (9, "Meth", 8))
    CASES["class state of the program"] = (
        lambda: (State.count, [rt(State()) for _ in range(2)] and State.count),
        (3, 3),
    )
    CASES["typing.NewType"] = (lambda: run(lambda: UserId(3)), 3)
    CASES["ParamSpec"] = (lambda: run(lambda: P.__name__), "P")
    CASES["generic fn"] = (lambda: run(gen), [0, 1])
    CASES["exception class"] = (lambda: repr(EXECUTORS[0].submit(fail).exception()), "Err('x')")
    CASES["SlotErr"] = (
        lambda: (lambda e: (type(e).__name__, e.code))(EXECUTORS[0].submit(fail_slot).exception()),
        ("SlotErr", 4),
    )
    CASES["ctypes structures"] = (
        lambda: (
            rt(Packed(b"a", 2.0)).both(),
            run(lambda: (ctypes.sizeof(Packed), Packed(b"a", 2.0).both())),
            rt(Held(Packed(b"a", 2.0), (1, 2))).number,
            list(run(lambda: Held(items=(1, 2))).items),
            run(lambda: Linked(1, ctypes.pointer(Linked(2))).next.contents.value),
            run(lambda: bytes(Either(number=5)) + bytes(Swapped(5))),
        ),
        ((b"a", 2.0), (9, (b"a", 2.0)), 2.0, [1, 2], 2, bytes(Either(number=5)) + b"\0\0\0\5"),
    )
    CASES["ctypes arrays and numbers"] = (
        lambda: (
            list(rt((ctypes.c_int * 3)(1, 2, 3))),
            [one.number for one in rt((Packed * 2)(Packed(b"a", 1.0)))],
            list(rt(Pair(1, 2))),
            run(Number.doubled, Number(3)),
            run(lambda: CALLBACK(lambda value: value + 1)(3)),
        ),
        ([1, 2, 3], [1.0, 0.0], [1, 2], 6, 4),
    )
    CASES["ctypes types are the program's"] = (
        lambda: [
            rt(one) is one
            for one in (Packed, Packed * 2, ctypes.POINTER(Packed), CALLBACK, ctypes.c_int * 3)
        ],
        [True] * 5,
    )
    CASES["struct.Struct"] = (lambda: run(lambda: INTEGER.pack(1)), b"\1\0\0\0")
    CASES["properties that type has"] = (
        lambda: run(
            lambda: (
                Proxy().__name__,
                Proxy().__mro__ is Proxy,
                Proxy().__class__ is int,
                Proxy.__name__,
                Proxy.__mro__[0] is Proxy,
            )
        ),
        ("proxy", True, True, "Proxy", True),
    )
    CASES["exception of another class"] = (
        lambda: type(EXECUTORS[0].submit(fail_of_other_class).exception()) is ErrOfOtherClass,
        True,
    )
    CASES["functions that share a variable"] = (
        lambda: [
            run(lambda: count_to_two(add_one, count_of)),
            run(count_to_two, *counter()),
            run(lambda: count_to_two(Counts.add, Counts.count)),
            count_to_two(*rt(counter())),
        ],
        [2, 2, 2, 2],
    )
    CASES["complex decorator"] = (lambda: run(decorated, 1), 3)


fill()


if __name__ == "__main__":
    with gristmill.Executor(1) as executor:
        EXECUTORS.append(executor)
        for name, (thunk, want) in CASES.items():
            try:
                got = thunk()
            except BaseException as error:
                got = f"{type(error).__name__}: {error}"
            print(name, got == want, ascii(got), sep="\t")
        EXECUTORS.clear()
