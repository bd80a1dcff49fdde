"""The bytes that a map reads ahead: bounded by a share of memory, in programs and in tasks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import gristmill
from gristmill import Executor, _native

from cgroups import group
from stage import Script

pytestmark = pytest.mark.long

#: Bytes of an item, and the number of items: more than any map holds.
SIZE = 1 << 20
COUNT = 500

#: A program whose items are each of `sys.argv[2]` kilobytes, of a kind, and count the items that were read.
AHEAD = """
    import os, sys
    open(sys.argv[1], "w").write(str(os.getpid()))
    import numpy as np
    import gristmill

    class Pickled:
        def __init__(self, size):
            self.data = {"key": bytes(size)}

    kinds = {"array": lambda size: np.zeros(size, np.uint8), "bytes": bytes, "pickled": Pickled}
    make, size = kinds[sys.argv[2]], int(sys.argv[3])
    read = 0

    def items():
        global read
        for _ in range(1_000):
            read += 1
            yield make(size)

    def one(item):
        return 1

    with gristmill.Executor(2) as executor:
        results = executor.map(one, items())
        print(read * size)
        print(sum(results))
"""


@pytest.mark.parametrize(
    ("kind", "size", "memory"),
    [("array", 1 << 20, 400 << 20), ("bytes", 60_000, 200 << 20), ("pickled", 60_000, 200 << 20)],
)
def test_a_map_holds_an_eighth_of_the_memory_of_a_group(
    script: Script, kind: str, size: int, memory: int
) -> None:
    with group("memory", memory) as procs:
        ahead, total = script.run(AHEAD, str(procs), kind, str(size)).splitlines()
    # An item takes a little more than its data, and those of one batch are read together.
    assert 0.95 * memory / 8 <= int(ahead) <= memory / 8 + 64 * size
    assert total == "1000"


def test_200_items_and_results_of_10_mb_pass_through_a_group_of_600_mb(script: Script) -> None:
    with group("memory", 600 << 20) as procs:
        printed = script.run(
            """
            import os, sys
            open(sys.argv[1], "w").write(str(os.getpid()))
            import numpy as np
            import gristmill

            def items():
                for number in range(200):
                    yield np.full(1_250_000, float(number))

            with gristmill.Executor(2) as executor:
                results = executor.map(np.negative, items())
                print(all(result[-1] == -number for number, result in enumerate(results)))
            """,
            str(procs),
        )
    assert printed == "True\n"


def _first(array: np.ndarray) -> float:
    return float(array[0])


def _read_ahead(size: int | None) -> tuple[int, float]:
    """Returns the items that a map in this task has read with its first result, and the sum of all results."""
    read = 0

    def items() -> Iterator[np.ndarray]:
        nonlocal read
        for _ in range(COUNT):
            read += 1
            yield np.ones(SIZE, np.uint8)

    results = gristmill.current_executor().map(_first, items(), buffersize=size)
    first = next(results)
    return read, first + sum(results)


def test_a_map_in_a_task_reads_a_bounded_number_of_bytes_ahead() -> None:
    with Executor(2) as executor:
        read, total = executor.submit(_read_ahead, None).result()
    # Some items may have been submitted for results that were taken.
    assert read * SIZE <= (256 << 20) + (2 * _native.cpu_count() + 2) * SIZE
    assert total == COUNT


def test_a_chosen_buffersize_of_a_map_in_a_task_counts_items_only() -> None:
    with Executor(2) as executor:
        read, total = executor.submit(_read_ahead, 400).result()
    assert read >= 400
    assert total == COUNT
