"""Payloads that do not fit into memory: they go to a disk, come back unchanged, and leave nothing behind."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gristmill import Executor, _native

import calls
from arena_tasks import ones, submit_changing, submit_many, total, views_of_many
from cgroups import group
from disks import small_disk
from stage import Gate, Script

pytestmark = pytest.mark.long

SIZE = 250_000  # numbers in an array of 2 MB
COUNT = 20


@pytest.mark.usefixtures("small_arena")
def test_arguments_of_waiting_tasks_go_to_disk_and_arrive_unchanged(gate: Gate) -> None:
    with Executor(1) as executor:
        executor.submit(calls.enter, gate.path, 0)
        gate.wait_entered()
        futures = []
        array = np.zeros(SIZE)
        for number in range(COUNT):
            array[:] = number
            futures.append(executor.submit(total, array, np.full(SIZE, number + 1.0)))
        memory, _, disk = executor._arena_use()
        assert memory <= 8 << 20
        assert disk >= (COUNT * 2 - 6) * SIZE * 8
        gate.open()
        assert [future.result() for future in futures] == [
            SIZE * (2 * number + 1) for number in range(COUNT)
        ]
        futures.clear()
        assert executor.submit(abs, -1).result() == 1
        assert executor._arena_use()[2] == 0


@pytest.mark.usefixtures("small_arena")
def test_results_that_wait_go_to_disk_and_are_arrays_like_any_other() -> None:
    with Executor(2) as executor:
        futures = [executor.submit(ones, SIZE) for _ in range(COUNT)]
        texts = [executor.submit(str.__mul__, "ä", SIZE) for _ in range(COUNT)]
        for future in futures + texts:
            future.exception()
        memory, _, disk = executor._arena_use()
        assert memory <= 8 << 20
        assert disk > 0
        for future in futures:
            array = future.result()
            array += 1
            assert array.sum() == 2 * SIZE
        assert {text.result() for text in texts} == {"ä" * SIZE}
        parents = [executor.submit(ones, SIZE) for _ in range(COUNT)]
        assert executor.submit(total, *parents).result() == COUNT * SIZE


@pytest.mark.usefixtures("small_arena")
def test_the_file_on_disk_has_no_name_and_ends_with_a_killed_program(
    script: Script, tmp_path: Path
) -> None:
    place = tmp_path / "spill"
    place.mkdir()
    program = script.start(
        """
        import os, sys
        import numpy as np
        from gristmill import Executor
        os.mkfifo(sys.argv[1])
        executor = Executor(1)
        executor.submit(open, sys.argv[1])  # waits for a writer, which never comes
        held = [executor.submit(len, np.full(250_000, float(number))) for number in range(20)]
        print(executor._arena_use()[2], executor.submit(os.getppid) and "", flush=True)
        sys.stdin.read()
        """,
        str(tmp_path / "gate"),
        env={"GRISTMILL_SPILL_DIR": str(place)},
    )
    with program:
        assert program.stdout is not None
        line = program.stdout.readline().split()
        if not line and program.poll() is not None:
            assert program.stderr is not None
            pytest.fail(program.stderr.read())
        # The worker may have taken a few of the arrays into its ring.
        assert int(line[0]) >= 10 << 20
        assert list(place.iterdir()) == [], "no process can find an unfinished file"
        program.send_signal(signal.SIGKILL)
    assert list(place.iterdir()) == []


@pytest.mark.usefixtures("small_arena")
def test_a_full_disk_is_an_error_of_that_call_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path, 200) as place:
        monkeypatch.setenv("GRISTMILL_SPILL_DIR", str(place))
        with Executor(1) as executor:
            executor.submit(abs, -1).result()
            free = os.statvfs(place)
            with (place / "other").open("wb") as other:
                os.posix_fallocate(other.fileno(), 0, (free.f_bavail - 5000) * free.f_frsize)
            held = [executor.submit(ones, SIZE) for _ in range(COUNT)]
            errors = [future.exception() for future in held]
            assert errors[0] is None, "it is in memory"
            assert isinstance(errors[-1], MemoryError)
            for part in ("do not fit into the arena", str(place), "No space left on device"):
                assert part in str(errors[-1])
            with pytest.raises(MemoryError, match="No space left on device"):
                executor.submit(total, np.ones(10 * SIZE))
            assert executor.submit(abs, -2).result() == 2
            del held, errors
            assert executor.submit(ones, SIZE).result().sum() == SIZE


def test_more_on_disk_than_may_be_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    monkeypatch.setenv("GRISTMILL_ARENA_MEMORY", str(1 << 20))
    with small_disk(tmp_path, 200) as place:
        monkeypatch.setenv("GRISTMILL_SPILL_DIR", str(place))
        with Executor(1) as executor:
            executor.submit(calls.enter, gate.path, 0)
            gate.wait_entered()
            array = np.ones(4 * SIZE)
            with pytest.raises(MemoryError, match=r"bytes are on disk, and the limit is \d+"):
                executor.submit_many(total, [array + number for number in range(20)])
            gate.open()
            assert executor.submit(abs, -2).result() == 2


@pytest.mark.parametrize("where", ["/dev/shm", ""])
def test_without_a_disk_what_does_not_fit_into_memory_is_an_error(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv("GRISTMILL_ARENA_MEMORY", str(4 << 20))
    monkeypatch.setenv("GRISTMILL_SPILL_DIR", where)
    with Executor(1) as executor:
        with pytest.raises(MemoryError, match="do not fit into the arena"):
            executor.submit(total, np.ones(10 * SIZE))
        assert isinstance(executor.submit(ones, 10 * SIZE).exception(), MemoryError)
        assert executor.submit(ones, SIZE).result().sum() == SIZE


WAITING = """
    import os, sys
    open(sys.argv[1], "w").write(str(os.getpid()))
    import numpy as np
    from gristmill import Executor

    def make(number):
        return np.full(1_250_000, float(number))

    def first(array, number):
        return array[-1] == number

    with Executor(2) as executor:
        arguments = [executor.submit(first, make(number), number) for number in range(80)]
        print(all(future.result() for future in arguments))
        results = [executor.submit(make, number) for number in range(80)]
        [future.exception() for future in results]
        print(all(future.result()[0] == number for number, future in enumerate(results)))
"""


def test_800_mb_of_arguments_and_results_pass_through_a_group_of_400_mb(script: Script) -> None:
    if _native.spill_place()[0] is None:
        pytest.skip("no directory is on a disk")
    with group("memory", 400 << 20) as procs:
        assert script.run(WAITING, str(procs)) == "True\nTrue\n"


@pytest.mark.parametrize("ordered", [True, False])
def test_a_map_reads_a_bounded_number_of_bytes_ahead(ordered: bool) -> None:
    read = 0

    def items() -> Iterator[np.ndarray]:
        nonlocal read
        for _ in range(600):
            read += 1
            yield np.ones(SIZE)

    with Executor(2) as executor:
        results = executor.map(total, items(), ordered=ordered)
        assert next(results) == SIZE
        assert (read - 1) * SIZE * 8 <= (256 << 20) + SIZE * 8
        assert sum(results) == 599 * SIZE
        assert read == 600


FIRST_WINDOW = """
    import os, sys
    open(sys.argv[1], "w").write(str(os.getpid()))
    import numpy as np
    from gristmill import Executor

    def make(number):
        return np.full(250_000, float(number))

    with Executor(1) as executor:
        results = executor.map(make, range(1100))
        # It is behind all of the first window, of which no result is fetched until then.
        assert executor.submit(abs, -1).result() == 1
        print(all(result[-1] == number for number, result in enumerate(results)))
"""


def test_2_gb_of_results_of_a_first_window_pass_through_a_group_of_600_mb(script: Script) -> None:
    place = _native.spill_place()[0]
    if place is None or place[1] < 3 << 30:
        pytest.skip("no directory is on a disk with enough room")
    with group("memory", 600 << 20) as procs:
        assert script.run(FIRST_WINDOW, str(procs)) == "True\n"


def test_a_chosen_buffersize_counts_items_only() -> None:
    read = 0

    def items() -> Iterator[np.ndarray]:
        nonlocal read
        for _ in range(200):
            read += 1
            yield np.ones(SIZE)

    with Executor(1) as executor:
        results = executor.map(total, items(), buffersize=170)
        assert next(results) == SIZE
        assert read >= 170
        assert sum(results) == 199 * SIZE


def test_a_map_with_large_results_does_not_run_far_ahead_once_it_knows_their_size() -> None:
    read = 0

    def counts() -> Iterator[int]:
        nonlocal read
        for _ in range(4000):
            read += 1
            yield 80_000

    with Executor(2) as executor:
        results = executor.map(ones, counts())
        for _ in range(1700):  # more than are read before the first result is available
            assert next(results).size == 80_000
        assert read - 1700 <= (256 << 20) // 640_000 + 64  # items are read in batches
        results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "make", [lambda: np.ones(SIZE), lambda: [1, np.ones(SIZE)], lambda: b"x" * 2_000_000]
)
def test_one_value_of_many_waiting_calls_is_stored_once(gate: Gate, make: object) -> None:
    value = make()  # type: ignore[operator]
    with Executor(1) as executor:
        executor.submit(calls.enter, gate.path, 0)
        gate.wait_entered()
        _, before, _ = executor._arena_use()
        futures = [executor.submit(calls.same, value) for _ in range(20)]
        assert executor._arena_use()[1] == before + 1
        gate.open()
        for future in futures:
            np.testing.assert_equal(future.result(), value)


@pytest.mark.parametrize("value", [np.ones(SIZE), functools.partial(np.ones, SIZE)])
def test_one_value_of_many_calls_of_a_task_is_stored_once(gate: Gate, value: object) -> None:
    with Executor(1) as executor:
        parent = executor.submit(submit_many, gate.path, value, 20)
        gate.wait_entered()
        assert executor.stats().outstanding == 21, "all requests were taken in"
        assert executor._arena_use()[1] == 1
        gate.open()
        assert parent.result() == [SIZE + number for number in range(20)]


CALLS_OF_A_TASK = """
    import os, sys
    open(sys.argv[1], "w").write(str(os.getpid()))
    import numpy as np
    import gristmill

    def last(table, number):
        return table[-1] + number

    def submit():
        executor, table = gristmill.current_executor(), np.ones(5_000_000)
        futures = [executor.submit(last, table, number) for number in range(30)]
        return [future.result() for future in futures]

    with gristmill.Executor(2) as executor:
        print(executor.submit(submit).result() == [1.0 + number for number in range(30)])
"""


def test_30_calls_of_a_task_with_40_mb_pass_through_a_group_of_400_mb(script: Script) -> None:
    with group("memory", 400 << 20) as procs:
        assert script.run(CALLS_OF_A_TASK, str(procs)) == "True\n"


def test_calls_of_a_task_have_the_values_of_then(gate: Gate) -> None:
    with Executor(1) as executor:
        parent = executor.submit(submit_changing, gate.path, 10)
        gate.wait_entered()
        gate.open()
        assert parent.result() == [SIZE + number // 2 for number in range(10)]


def test_results_of_a_tasks_tasks_stay_when_their_futures_have_gone() -> None:
    with Executor(2) as executor:
        found = executor.submit(views_of_many, 700).result()
    assert found == [(number % 256, number % 256) for number in range(700)]


@pytest.mark.parametrize("place", [0, SIZE // 2, -1])
def test_a_waiting_call_has_the_values_that_its_array_had_when_it_was_submitted(
    gate: Gate, place: int
) -> None:
    array = np.ones(SIZE)
    with Executor(1) as executor:
        executor.submit(calls.enter, gate.path, 0)
        gate.wait_entered()
        futures = []
        for number in range(10):
            array[place] = number // 2
            futures.append(executor.submit(total, array))
        gate.open()
        sums = [future.result() for future in futures]
    assert sums == [SIZE - 1 + number // 2 for number in range(10)]


def test_results_over_one_stored_array_are_independent(gate: Gate) -> None:
    array = np.ones(SIZE)
    with Executor(1) as executor:
        executor.submit(calls.enter, gate.path, 0)
        gate.wait_entered()
        futures = [executor.submit(calls.same, array) for _ in range(3)]
        gate.open()
        results = [future.result() for future in futures]
        for number, result in enumerate(results):
            result[:] = number
        assert [float(result[0]) for result in results] == [0, 1, 2]
        assert executor.submit(total, array).result() == SIZE
        assert array[0] == 1


def test_small_arguments_of_waiting_tasks_have_a_bound_in_bytes(
    run_held: Callable[[int, str], str],
) -> None:
    printed = run_held(
        300 << 20,
        """
        taken = fill(lambda _: executor.submit(len, b"x" * 60_000))
        print(len(taken) * 60_000)
        print(sum(future.result() for future in taken) == len(taken) * 60_000)
        print(executor.submit(len, b"x" * 60_000).result())
        """,
    )
    error, size, *rest = printed.splitlines()
    assert (70 << 20) <= int(size) <= (76 << 20)
    assert "the arguments of outstanding tasks have" in error
    assert rest == ["True", "60000"]


def test_submit_waits_while_the_arguments_of_others_fill_their_share(script: Script) -> None:
    with group("memory", 300 << 20) as procs:
        printed = script.run(
            """
            import os, sys
            open(sys.argv[1], "w").write(str(os.getpid()))
            import gristmill

            def size(numbers):
                return len(numbers)

            with gristmill.Executor(2) as executor:
                futures = [executor.submit(size, [n] * 1_000_000) for n in range(100)]
                print(sum(future.result() for future in futures))
            """,
            str(procs),
        )
    assert printed == "100000000\n"
