"""A program whose classes and annotations are sent to tasks by value: each case gives the same value in a task as here.

As a program it prints a line for each case; the tests import it for the names of the cases.
"""

# mypy: ignore-errors
# ruff: noqa: RUF012, UP007, UP037, UP042, UP045
from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import threading
import typing
from typing import Generic, NamedTuple, Optional, TypeVar

import gristmill

T = TypeVar("T")


class Coded(enum.Enum):
    def __new__(cls, code, label):
        made = object.__new__(cls)
        made._value_ = code
        made.label = label
        return made

    ONE = (1, "one")
    TWO = (2, "two")


class Text(str, enum.Enum):
    def __new__(cls, value, weight):
        made = str.__new__(cls, value)
        made._value_ = value
        made.weight = weight
        return made

    X = ("x", 1)


class Counted(enum.Enum):
    def __new__(cls):
        made = object.__new__(cls)
        made._value_ = len(cls.__members__) + 1
        return made

    FIRST = ()
    SECOND = ()


class Several(enum.Enum):
    def __new__(cls, *values):
        made = object.__new__(cls)
        made._value_ = values[0]
        for value in values[1:]:
            cls._value2member_map_[value] = made
        return made

    A = 1, "one"


class Partners(enum.Enum):
    A = 1
    B = 2


Partners.A.other, Partners.B.other = Partners.B, Partners.A


@dataclasses.dataclass(frozen=True)
class Mass:
    kilograms: int


class Planet(Mass, enum.Enum):
    MARS = 4
    EARTH = 5


class Day(datetime.date, enum.Enum):
    FIRST = 2020, 1, 2


class Rate(decimal.Decimal, enum.Enum):
    HALF = "0.5"


class Pair(tuple, enum.Enum):
    A = (1, 2)


class Numbered(enum.Enum):
    calls = enum.nonmember([])

    def __init__(self, number, more):
        self.more = more
        self.calls.append(number)

    A = 1, 2


class Named(enum.Enum):
    @staticmethod
    def _generate_next_value_(name, start, count, last_values):
        return name.lower()


class OfFunctions(enum.Enum):
    @enum.member
    def double(value):
        return 2 * value


class AllIn(enum.EnumMeta):
    def __contains__(cls, value):
        return True


class Open(enum.Enum, metaclass=AllIn):
    A = 1


class Kept(enum.Flag, boundary=enum.KEEP):
    R = 1
    W = 2
    RW = 3


class Strict(enum.IntFlag, boundary=enum.STRICT):
    R = 1


class Field(property):
    def __init__(self, get, unit="m"):
        super().__init__(get)
        self.unit = unit

    def __set_name__(self, owner, name):
        self.owner = owner


class OfClass(property):
    def __get__(self, instance, owner=None):
        return self.fget(owner)


class Either(classmethod):
    def __get__(self, instance, owner=None):
        return super().__get__(instance, owner) if instance is None else self.__func__(instance)


class Tagged(staticmethod):
    tag = 1


class Timed(functools.cached_property):
    def __init__(self, function, seconds=1):
        super().__init__(function)
        self.seconds = seconds


class Described:
    kept = 3

    @Field
    def size(self):
        """The size."""
        return self.kept

    @OfClass
    def title(cls):
        return cls.__name__

    @Either
    def kind(given):
        return isinstance(given, type)

    @Tagged
    def plain():
        return 5

    @Timed
    def timed(self):
        return 6


class Local(threading.local):
    def __init__(self):
        self.value = 1


local = Local()


class Base:
    names = []

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        Base.names.append(cls.__name__)


class First(Base):
    pass


class Second(First):
    pass


class Register(type):
    names = []

    def __init__(cls, name, bases, namespace, tag=None):
        super().__init__(name, bases, namespace)
        cls.tag = tag
        Register.names.append(name)

    def __new__(cls, name, bases, namespace, tag=None):
        return super().__new__(cls, name, bases, namespace)


class Registered(metaclass=Register, tag="a"):
    pass


class OfBoth(Registered, Generic[T], tag="b"):
    def go(self, value: T) -> T:
        return value


class Sealing(type):
    def __setattr__(cls, name, value):
        raise AttributeError(f"{name} is constant")


class Constants(metaclass=Sealing):
    SIZES = [1, 2]


class Row(NamedTuple, Generic[T]):
    value: T
    more: int = 3


class SubRow(Row[int]):
    __slots__ = ()

    def total(self):
        return self.value + self.more


V = TypeVar("V", int, str, covariant=True)
P = typing.ParamSpec("P", bound=int)
UserId = typing.NewType("UserId", int)


@functools.lru_cache
def cached(value):
    return value


cached.version = 3


class Later:
    number: int
    other: Optional[Kept] = None


@dataclasses.dataclass
class Tree:
    children: list[Tree]
    leaf: "Optional[Later]"
    _: dataclasses.KW_ONLY
    key: UserId = 1


class Outer:
    class Inner:
        outer: Outer

    def go(self, tree: Tree, *, key: UserId) -> Outer.Inner: ...


def annotated(value: Later, more: "list[Optional[Later]]") -> typing.Union["Tree", None]: ...


class Sheet(NamedTuple):
    tree: Tree


class Options(typing.TypedDict):
    tree: Tree


def message_of(call, *args):
    try:
        return call(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def hints_of(value):
    return {name: str(hint) for name, hint in typing.get_type_hints(value).items() if name != "_"}


CASES = {
    "an enum with a constructor": lambda: (Coded(1), Coded.TWO.label, Coded(2)),
    "an enum with a constructor and a type": lambda: (Text("x"), Text.X.weight, Text.X + "y"),
    "an enum that counts its members": lambda: (list(Counted), Counted(2)),
    "an enum with several values for a member": lambda: (Several("one"), Several(1)),
    "enum members that know each other": lambda: (Partners.A.other, Partners.B.other.other),
    "an enum of a dataclass": lambda: (Planet.MARS.kilograms, Planet.EARTH.value, list(Planet)),
    "an enum of dates": lambda: (Day.FIRST.year, Day.FIRST, Day.FIRST.isoformat()),
    "an enum of decimals": lambda: (Rate.HALF + 1, Rate.HALF),
    "an enum of tuples": lambda: (Pair.A[1], Pair((1, 2))),
    "an enum whose constructor counts": lambda: (Numbered.A.more, Numbered.calls),
    "an enum made of the names": lambda: Named("Made", "A B").B.value,
    "an enum of functions": lambda: (OfFunctions.double.value(2), len(OfFunctions)),
    "an enum with a metaclass": lambda: (7 in Open, type(Open).__name__),
    "flags that keep unknown bits": lambda: (Kept(8).value, Kept.R | Kept.W, Kept["RW"], ~Kept.R),
    "flags that refuse unknown bits": lambda: message_of(Strict, 8),
    "a subclass of property": lambda: (
        Described().size,
        vars(Described)["size"].unit,
        vars(Described)["size"].owner is Described,
        Described.size.__doc__,
    ),
    "a property of a class": lambda: Described.title,
    "a subclass of classmethod": lambda: (Described.kind(), Described().kind),
    "a subclass of staticmethod": lambda: (Described.plain(), vars(Described)["plain"].tag),
    "a subclass of cached_property": lambda: (Described().timed, vars(Described)["timed"].seconds),
    "a subclass of threading.local": lambda: local.value,
    "a hook that lists subclasses": lambda: (Base.names, Second.__name__),
    "a metaclass that lists classes": lambda: (Register.names, Registered.tag, OfBoth.tag),
    "a generic class with a metaclass": lambda: (
        OfBoth[int]().go(1),
        OfBoth.__parameters__ == (T,),
    ),
    "a metaclass that refuses attributes": lambda: (
        Constants.SIZES,
        message_of(setattr, Constants, "MORE", 1),
    ),
    "a generic named tuple": lambda: (
        Row(1),
        SubRow(2).total(),
        Row._field_defaults,
        Row.__parameters__ == (T,),
        SubRow.__orig_bases__[0].__origin__ is Row,
        Row.__orig_bases__[0] is NamedTuple,
    ),
    "type variables": lambda: (
        (V.__constraints__, V.__covariant__, V.__module__),
        (P.__bound__, P.__module__),
        OfBoth.__parameters__[0] is T,
    ),
    "a cached function with an attribute": lambda: (cached(1), cached.version),
    "hints of a class": lambda: hints_of(Later),
    "hints of a dataclass": lambda: hints_of(Tree),
    "hints of a class in a class": lambda: hints_of(Outer.Inner),
    "hints of a method": lambda: hints_of(Outer.go),
    "hints of a function": lambda: hints_of(annotated),
    "hints of a named tuple": lambda: hints_of(Sheet),
    "hints of a typed dict": lambda: hints_of(Options),
}
#: Values that are the program's own when they come back.
OBJECTS = {
    "a member of an enum with a constructor": lambda: Coded.TWO,
    "a member of an enum of a dataclass": lambda: Planet.EARTH,
    "a member of an enum of dates": lambda: Day.FIRST,
    "a class with a metaclass": lambda: OfBoth,
    "a type variable": lambda: V,
}


def same(value):
    return value


def main():
    with gristmill.Executor(1) as executor:
        cases = {name: (case, (), case()) for name, case in CASES.items()}
        cases |= {name: (same, (make(),), make()) for name, make in OBJECTS.items()}
        for name, (function, arguments, want) in cases.items():
            try:
                got = executor.submit(function, *arguments).result()
            except BaseException as error:
                got = error
            is_right = got is want if name in OBJECTS else repr(got) == repr(want)
            print(name, is_right, ascii(got), sep="\t")


if __name__ == "__main__":
    main()
