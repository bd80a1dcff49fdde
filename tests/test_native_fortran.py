"""Functions of Fortran libraries: they have the interface of C functions."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from gristmill import Executor, WorkerLostError, on
from gristmill.native import In, InOut, Kept, Library, Out

from compiled import Compile, compile_library

__all__ = ["compile_library"]

SOURCE = """
module own
  use iso_c_binding, only: c_double, c_int32_t, c_int8_t, c_size_t
  implicit none
contains

  subroutine product(matrix, x, y, n) bind(c)
    integer(c_size_t), value :: n
    real(c_double), intent(in) :: matrix(n, n), x(n)
    real(c_double), intent(out) :: y(n)
    y = matmul(matrix, x)
  end subroutine

  subroutine negate(x, n) bind(c)
    integer(c_size_t), value :: n
    integer(c_int32_t), intent(inout) :: x(n)
    x = -x
  end subroutine

  function power(base, exponent) bind(c) result(found)
    real(c_double), value :: base
    integer(c_int32_t), value :: exponent
    real(c_double) :: found
    found = base**exponent
  end function

  function calls() bind(c) result(found)
    integer(c_int32_t) :: found
    integer(c_int32_t), save :: count = 0
    count = count + 1
    found = count
  end function

  subroutine fail() bind(c)
    error stop 3
  end subroutine

  function reversed(input, length, output) bind(c) result(written)
    integer(c_int32_t), value :: length
    integer(c_int8_t), intent(in) :: input(length)
    integer(c_int8_t), intent(out) :: output(length)
    integer(c_int32_t) :: written
    output = input(length:1:-1)
    written = length
  end function

end module
"""


@pytest.fixture
def library(compile_library: Compile) -> Library:
    return Library(compile_library(SOURCE, suffix=".f90"))


@pytest.mark.parametrize("options", ["1", "1, nodes=on.local(1)"])
def test_a_library_of_fortran_is_one_like_others(library: Library, options: str) -> None:
    size, number = ctypes.c_size_t, ctypes.c_int32
    product = library.declare("product", [In(float), In(float), Out(float), size])
    negate = library.declare("negate", [InOut("i4"), size])
    power = library.declare("power", [ctypes.c_double, number], ctypes.c_double)
    calls = library.declare("calls", [], number)
    matrix, x = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0])
    kept = library.declare("product", [Kept(matrix.T), In(float), Out(float), size])
    executor = eval(f"Executor({options})", {"Executor": Executor, "on": on})
    with executor:
        submit = executor.submit
        # The first index of an array in Fortran is the last one here.
        assert submit(product, matrix.T, x, 2, 2).result().tolist() == [21.0, 43.0]
        assert submit(product, matrix, x, 2, 2).result().tolist() == [31.0, 42.0]
        assert submit(kept, x, 2, 2).result().tolist() == [21.0, 43.0]
        assert submit(negate, np.arange(3, dtype="i4"), 3).result().tolist() == [0, -1, -2]
        assert submit(power, 1.5, 2).result() == 2.25
        assert submit(library["reversed"], b"abc").result() == b"cba"
        assert [submit(calls).result() for _ in range(2)] == [1, 2]
        lost = submit(library.declare("fail", [])).exception()
        assert submit(calls).result() == 1, "another worker took its place"
    assert isinstance(lost, WorkerLostError)
    assert "(libown.so:fail) was lost" in str(lost)
