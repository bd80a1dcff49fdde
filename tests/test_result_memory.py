"""Results that the program has not fetched: their bytes are bounded, in memory and on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sized
from pathlib import Path

import numpy as np
import pytest

from gristmill import Executor, _native

from cgroups import group
from disks import small_disk
from stage import Script

pytestmark = pytest.mark.long

Make = Callable[[int], Sized]

#: Size of a result that travels in a ring, bytes.
SMALL = 30_000


def _bytes(number: int) -> bytes:
    return number.to_bytes(4, "little") * (SMALL // 4)


def _more(number: int) -> bytes:
    return _bytes(number) * 2


def _numbers(number: int) -> list[int]:
    return [number] * 20_000


def _with_array(number: int) -> tuple[list[int], np.ndarray]:
    return [number] * 2_000, np.full(8_192, number)


@pytest.mark.usefixtures("small_arena")
@pytest.mark.parametrize("make", [_bytes, _more, _numbers, _with_array])
def test_results_that_were_not_fetched_go_to_disk_and_come_back(make: Make) -> None:
    with Executor(1) as executor:
        futures = [executor.submit(make, number) for number in range(500)]
        assert [future.exception() for future in futures] == [None] * 500
        assert executor._arena_use()[2] >= 8 << 20
        for number, future in enumerate(futures):
            assert str(future.result()) == str(make(number))
        assert executor.submit(_count, *futures[-3:]).result() == 3 * len(make(0))
        futures.clear()
        del future
        for _ in range(3):  # the worker releases its arguments, then the room
            assert executor.submit(abs, -1).result() == 1
        assert executor._arena_use()[2] == 0, "the room on disk is given back"


def _count(*values: Sized) -> int:
    return sum(map(len, values))


@pytest.mark.usefixtures("small_arena")
def test_exceptions_that_were_not_fetched_go_to_disk_too() -> None:
    with Executor(2) as executor:
        futures = [executor.submit(_fail, number) for number in range(200)]
        errors = [future.exception() for future in futures]
        assert executor._arena_use()[2] > 0
    for number, error in enumerate(errors):
        assert isinstance(error, ValueError)
        assert error.args[0] == str(number) * 20_000


def _fail(number: int) -> None:
    raise ValueError(str(number) * 20_000)


def test_without_a_disk_a_result_beyond_the_bound_is_an_error_of_its_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRISTMILL_ARENA_MEMORY", str(8 << 20))
    monkeypatch.setenv("GRISTMILL_SPILL_DIR", "")
    with Executor(1) as executor:
        futures = [executor.submit(_bytes, number) for number in range(200)]
        errors = [future.exception() for future in futures]
        taken = errors.index(next(filter(None, errors)))
        assert taken == (4 << 20) // SMALL
        assert isinstance(errors[-1], MemoryError)
        for part in ("results that the program has not fetched take", "GRISTMILL_SPILL_DIR"):
            assert part in str(errors[-1])
        assert futures[0].result() == _bytes(0)
        futures.clear()
        assert executor.submit(_bytes, 7).result() == _bytes(7), "there is room again"


@pytest.mark.usefixtures("small_arena")
def test_a_full_disk_is_an_error_of_the_task_whose_result_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path, 200) as place:
        monkeypatch.setenv("GRISTMILL_SPILL_DIR", str(place))
        _fill_disk_with_results(place)


def _fill_disk_with_results(place: Path) -> None:
    with Executor(1) as executor:
        executor.submit(abs, -1).result()
        free = os.statvfs(place)
        with (place / "other").open("wb") as other:
            os.posix_fallocate(other.fileno(), 0, (free.f_bavail - 1000) * free.f_frsize)
        errors = [
            future.exception()
            for future in [executor.submit(_bytes, number) for number in range(500)]
        ]
        assert errors[0] is None
        assert isinstance(errors[-1], MemoryError)
        assert "No space left on device" in str(errors[-1])
        assert executor.submit(abs, -2).result() == 2


UNREAD = """
    import os, sys
    open(sys.argv[1], "w").write(str(os.getpid()))
    from gristmill import Executor

    def small(number):
        return number.to_bytes(4, "little") * 7_500

    def many(number):
        return [number] * 1_000_000

    with Executor(2) as executor:
        futures = [executor.submit(small, number) for number in range(20_000)]
        [future.exception() for future in futures]
        while futures:
            assert futures.pop().result()[:4] == len(futures).to_bytes(4, "little")
        futures = [executor.submit(many, number) for number in range(80)]
        [future.exception() for future in futures]
        while futures:
            assert futures.pop().result()[-1] == len(futures)
        print("all")
"""


def test_600_mb_of_results_that_wait_pass_through_a_group_of_300_mb(script: Script) -> None:
    if _native.spill_place()[0] is None:
        pytest.skip("no directory is on a disk")
    with group("memory", 300 << 20) as procs:
        assert script.run(UNREAD, str(procs)) == "all\n"


UNTOLD = """
    import os, sys, time
    open(sys.argv[1], "w").write(str(os.getpid()))
    import gristmill

    def small(number):
        return number.to_bytes(4, "little") * 5_000

    def submit(path):
        submit = gristmill.current_executor().submit
        futures = [submit(small, number) for number in range(20_000)]
        open(path).read()
        return len(futures)

    os.mkfifo(sys.argv[2])
    with gristmill.Executor(2) as executor:
        parent = executor.submit(submit, sys.argv[2])
        while (counts := executor.stats()).submitted < 20_001 or counts.outstanding > 1:
            time.sleep(0.001)
        open(sys.argv[2], "w").close()
        print(parent.result())
"""


def test_400_mb_of_results_for_a_busy_task_fit_into_a_group_of_300_mb(
    script: Script, tmp_path: Path
) -> None:
    if _native.spill_place()[0] is None:
        pytest.skip("no directory is on a disk")
    with group("memory", 300 << 20) as procs:
        assert script.run(UNTOLD, str(procs), str(tmp_path / "held")) == "20000\n"
