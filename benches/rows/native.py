"""Native no-ops beside Python ones: calls that are waited for, and a map."""

import shutil
import subprocess
from collections.abc import Callable
from time import perf_counter
from typing import Any

from benches import engines
from benches.harness import alternate, opened, sized
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings, Unavailable
from gristmill.native import Library
from gristmill_bench.executors.base import scratch

INPUT = bytes(64)
SOURCE = """
#include <stdint.h>
uint32_t noop(void *in, uint32_t size, void *out) { return 0; }
uint32_t whole(void *in, uint32_t size, void *out) { return size; }
"""
#: The number of items of a map.
ITEMS = 200_000


def noop(_: bytes) -> bytes:
    """Returns nothing, as the native function does."""
    return b""


class NativeRow(Row):
    """A native function on 64 bytes and a Python function of the same input and output, in turns, the worker hot."""

    key = "native"
    title = "native no-op"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE)]

    def lines(self) -> list[Line]:
        call = Line(
            f"{self.title}, call and wait",
            ALONE,
            "lower",
            "ours call",
            "python call",
            "a Python function",
            must=Goal(0.95, "ratio"),
            moonshot=Goal(0.85, "ratio"),
        )
        mapped = Line(
            f"{self.title}, map, per call",
            ALONE,
            "lower",
            "ours map",
            "python map",
            "a Python function",
            must=Goal(1 / 15e6),
            moonshot=Goal(1 / 25e6),
        )
        return [call, mapped]

    def measure(self, block: str, settings: Settings) -> Recording:
        recording = Recording(parameters={"workers": 1, "bytes": len(INPUT), "items": ITEMS})
        engine = engines.ours(settings.ours, 1)
        with scratch() as folder, opened(engine):
            functions = {"ours": library_in(folder)["noop"], "python": noop}
            executor = engine.executor

            def calls(function: Callable[..., Any], count: int) -> float:
                submit = executor.submit
                start = perf_counter()
                for _ in range(count):
                    submit(function, INPUT).result()
                return perf_counter() - start

            def mapped(function: Callable[..., Any]) -> float:
                inputs = [INPUT] * ITEMS
                start = perf_counter()
                for _ in executor.map(function, inputs):
                    pass
                return perf_counter() - start

            count = sized(settings, lambda count: calls(noop, count))

            def sample(key: str, function: Callable[..., Any]) -> dict[str, float]:
                return {
                    f"{key} call": calls(function, count) / count,
                    f"{key} map": mapped(function) / ITEMS,
                }

            measures = [
                lambda key=key, function=function: sample(key, function)
                for key, function in functions.items()
            ]
            recording.add("s", alternate(settings, *measures))
        return recording


def library_in(folder: str) -> Library:
    """Compiles the native functions; returns their library."""
    if shutil.which("cc") is None:
        raise Unavailable("it needs a C compiler")
    with open(f"{folder}/noop.c", "w") as file:
        file.write(SOURCE)
    command = f"cc -shared -fPIC -O2 {folder}/noop.c -o {folder}/libnoop.so"
    subprocess.run(command.split(), check=True)
    return Library(f"{folder}/libnoop.so")
