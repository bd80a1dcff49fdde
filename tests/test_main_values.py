"""Functions, classes and objects of the main program work in tasks, and their objects come back unchanged."""

from __future__ import annotations

import subprocess
import sys
import typing

import pytest

import main_classes
import main_values
from gristmill import Executor

T = typing.TypeVar("T")

pytestmark = pytest.mark.interpreter


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[str]]:
    """Returns the outcome of each case of the programs: whether it is right, and its value."""
    lines: list[str] = []
    for program in (main_values.__file__, main_classes.__file__):
        done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
        lines += done.stdout.splitlines()
    return {name: rest for name, *rest in (line.split("\t") for line in lines)}


@pytest.mark.parametrize("name", [*main_values.CASES, *main_classes.CASES, *main_classes.OBJECTS])
def test_what_the_main_program_defines_works_in_tasks(
    outcomes: dict[str, list[str]], name: str
) -> None:
    is_right, got = outcomes[name]
    assert is_right == "True", got


def test_what_is_deleted_from_a_class_is_gone_in_workers(executor: Executor) -> None:
    class Base:
        number = 0

    class Settings(Base):
        """Settings of a program."""

        number = 1

        def double(self) -> int:
            return 2 * self.number

    def look() -> tuple[object, ...]:
        return Settings.number, hasattr(Settings, "double"), hasattr(Settings, "new")

    assert executor.submit(look).result() == (1, True, False)
    Settings.new = 1  # type: ignore[attr-defined]
    assert executor.submit(look).result() == (1, True, True)
    del Settings.number, Settings.double, Settings.new  # type: ignore[attr-defined]
    assert executor.submit(look).result() == (0, False, False)
    assert executor.submit(lambda one: one.number, Settings()).result() == 0
    Settings.double = lambda self: 5  # type: ignore[method-assign, assignment]
    assert executor.submit(look).result() == (0, True, False)


def test_structs_of_msgspec_go_by_value(executor: Executor) -> None:
    msgspec = pytest.importorskip("msgspec")

    class Point(msgspec.Struct, frozen=True, tag="point"):  # type: ignore[misc, name-defined]
        x: int
        name: str = "a"
        more: list[int] = msgspec.field(default_factory=list, name="rest")
        parts: typing.ClassVar[int] = 7
        copy: Point | None = None

        def __post_init__(self) -> None:
            assert type(self).parts == 7

        def next(self) -> Point:
            return Point(self.x + 1)

    class Named(Point, kw_only=True):  # type: ignore[call-arg]
        label: str
        size: int = 3

    class Loose(msgspec.Struct, typing.Generic[T], dict=True):  # type: ignore[misc, name-defined]
        value: T

    points = [Point(1), Point(2, "b", [3]), Named(x=1, label="l")]
    for point in [*points, Loose(5)]:
        back = executor.submit(lambda one: one, point).result()
        assert (type(back), back) == (type(point), point)
    encoded = [msgspec.json.encode(point) for point in points]
    assert executor.submit(lambda: [msgspec.json.encode(one) for one in points]).result() == encoded
    assert executor.submit(lambda: (Point(1).next(), Point.parts)).result() == (Point(2), 7)
    assert executor.submit(Named, x=1, label="l").result() == points[2]
    assert "immutable" in str(executor.submit(setattr, Point(1), "x", 2).exception())
    assert "positional" in str(executor.submit(Named, 1, "a", [], None, "l").exception())
