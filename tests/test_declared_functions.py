"""Plain C functions with declared types."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from gristmill import Executor
from gristmill.native import In, InOut, Library, Out

from compiled import Compile, compile_library

__all__ = ["compile_library"]

SOURCE = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

double scale(double by, const double *x, double *y, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += y[i] = by * x[i];
    return sum;
}
void negate(int32_t *x, size_t count) { for (size_t i = 0; i < count; i++) x[i] = -x[i]; }
int8_t small(int8_t a) { return a; }
uint64_t wide(uint64_t a) { return a; }
float narrow(float a) { return a; }
bool opposite(bool a) { return !a; }
size_t length(const char *text) { return strlen(text); }
const char *greeting(void) { return "hello"; }
struct pair { int32_t left; double right; };
struct pair swapped(struct pair a) { struct pair b = { (int32_t)a.right, a.left }; return b; }
void nothing(void) {}
"""


class Pair(ctypes.Structure):
    _fields_ = [("left", ctypes.c_int32), ("right", ctypes.c_double)]


class Linked(ctypes.Structure):
    pass


Linked._fields_ = [("value", ctypes.c_int), ("next", ctypes.POINTER(Linked))]


class Text(ctypes.Union):
    _fields_ = [("number", ctypes.c_long), ("text", ctypes.c_char_p)]


class Nested(Pair):
    _fields_ = [("tables", Text * 2)]


@pytest.fixture
def library(compile_library: Compile) -> Library:
    return Library(compile_library(SOURCE))


def test_arrays_go_in_and_come_out(library: Library) -> None:
    types = [ctypes.c_double, np.ndarray, Out(float), ctypes.c_size_t]
    scale = library.declare("scale", types, ctypes.c_double)
    negate = library.declare("negate", [InOut("i4"), ctypes.c_size_t])
    x, numbers = np.arange(4.0), np.arange(3, dtype="i4")
    with Executor(1) as executor:
        total, y = executor.submit(scale, 2, x, 4, 4).result()
        assert (total, y.tolist(), y.dtype) == (12.0, [0, 2, 4, 6], np.float64)
        _, table = executor.submit(scale, 2.0, x, (2, 2), 4).result()
        assert table.tolist() == [[0, 2], [4, 6]]
        assert executor.submit(negate, numbers, 3).result().tolist() == [0, -1, -2]
        views = executor.options(views=True).submit(negate, np.arange(50_000, dtype="i4"), 50_000)
        assert views.result()[-1] == -49_999
        results = executor.map(lambda by: scale(by, x, 4, 4)[0], [1.0, 2.0])
        assert list(results) == [6.0, 12.0]
    assert numbers.tolist() == [0, 1, 2]
    negate(numbers, 3)
    assert numbers.tolist() == [0, 1, 2], "the argument stays as it is here too"


@pytest.mark.parametrize(
    ("name", "types", "result", "given", "found"),
    [
        ("small", [ctypes.c_int8], ctypes.c_int8, -128, -128),
        ("wide", [ctypes.c_uint64], ctypes.c_uint64, 2**64 - 1, 2**64 - 1),
        ("wide", [ctypes.c_uint64], ctypes.c_uint64, np.int64(7), 7),
        ("narrow", [ctypes.c_float], ctypes.c_float, 0.5, 0.5),
        ("narrow", [ctypes.c_float], ctypes.c_float, 3, 3.0),
        ("opposite", [ctypes.c_bool], ctypes.c_bool, True, False),
        ("length", [ctypes.c_char_p], ctypes.c_size_t, b"four", 4),
    ],
)
def test_numbers_and_texts_are_values(
    library: Library, name: str, types: list[Any], result: Any, given: Any, found: Any
) -> None:
    with Executor(1) as executor:
        assert executor.submit(library.declare(name, types, result), given).result() == found


def test_structures_are_values(library: Library) -> None:
    with Executor(1) as executor:
        swapped = library.declare("swapped", [Pair], Pair)
        pair = executor.submit(swapped, Pair(1, 2.0)).result()
        assert (pair.left, pair.right) == (2, 1.0)
        assert executor.submit(library.declare("nothing", [])).result() is None
        assert (
            executor.submit(library.declare("greeting", [], ctypes.c_char_p)).result() == b"hello"
        )


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ((1.0, [1.0], 1, 1), TypeError, "argument 2: it must be a numpy array, not [1.0]"),
        ((1.0, np.zeros(1, "f4"), 1, 1), TypeError, "argument 2: it is an array of float32, but"),
        ((1.0, np.zeros(1), -1, 1), ValueError, "argument 3: negative dimensions"),
        ((1.0, np.zeros(1), 1, -1), OverflowError, "argument 4: -1 does not fit into c_ulong"),
        ((1.0, np.zeros(1), 1, 2**64), OverflowError, "argument 4: 18446744073709551616 does not"),
        ((1.0, np.zeros(1), 1, 0.5), TypeError, "argument 4: 'float' object cannot be interpreted"),
        (("a", np.zeros(1), 1, 1), ValueError, "argument 1: could not convert string to float"),
        ((None, np.zeros(1), 1, 1), TypeError, "argument 1: float() argument must be"),
        ((1.0, np.zeros(1), 1), TypeError, "libown.so:scale takes 4 arguments, not 3"),
    ],
)
def test_a_wrong_argument_is_named(
    library: Library, given: tuple[Any, ...], error: type[Exception], said: str
) -> None:
    types = [ctypes.c_double, In(float), Out(float), ctypes.c_size_t]
    scale = library.declare("scale", types, ctypes.c_double)
    with Executor(1) as executor, pytest.raises(error) as caught:
        executor.submit(scale, *given).result()
    assert said in str(caught.value)


def test_a_text_that_is_a_number_is_no_text(library: Library) -> None:
    length = library.declare("length", [ctypes.c_char_p], ctypes.c_size_t)
    with pytest.raises(TypeError, match=r"^libown.so:length: argument 1: .*, not 5"):
        length(5)


def test_a_number_of_ctypes_is_a_number(library: Library) -> None:
    assert library.declare("small", [ctypes.c_int8], ctypes.c_int8)(ctypes.c_int8(-5)) == -5


def test_an_array_that_no_memory_holds_is_an_error_that_names_its_function(
    library: Library,
) -> None:
    negate = library.declare("negate", [Out("i4"), ctypes.c_size_t])
    with pytest.raises((MemoryError, ValueError), match=r"^libown.so:negate: argument 1: "):
        negate(2**55, 0)


def test_an_array_of_the_other_byte_order_is_refused_unless_it_is_declared(
    library: Library,
) -> None:
    other = np.dtype("i4").newbyteorder()
    given = np.arange(3, dtype=other)
    with pytest.raises(TypeError, match=r"argument 1: .* whose byte order is not this machine's"):
        library.declare("negate", [InOut(), ctypes.c_size_t])(given, 0)
    kept = library.declare("negate", [InOut(other), ctypes.c_size_t])(given, 0)
    assert kept.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("types", "result", "said"),
    [
        ([ctypes.c_void_p], None, "a c_void_p means nothing in another process"),
        ([ctypes.py_object], None, "a py_object means nothing"),
        ([ctypes.POINTER(ctypes.c_double)], None, "a type is one of ctypes"),
        ([float], None, "a type is one of ctypes, such as c_double"),
        ([], np.ndarray, "a type is one of ctypes"),
        ([], ctypes.c_void_p, "a c_void_p means nothing"),
        ([Out(None)], None, "Out needs the type of its items"),
        ([In(object)], None, "items of type object"),
        ([Linked], None, r"Linked has a pointer in \.next, which"),
        ([], Nested, r"Nested has a pointer in \.tables\[\]\.text"),
    ],
)
def test_a_wrong_declaration_is_an_error_at_once(
    library: Library, types: list[Any], result: Any, said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        library.declare("scale", types, result)
