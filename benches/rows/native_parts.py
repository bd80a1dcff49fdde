"""Native no-ops beside the least that a call in another process can cost, and the cost of a megabyte in and out."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import gristmill
from benches import engines
from benches.compiling import compiled
from benches.harness import alternate, percentile
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings, Unavailable
from benches.rows.native import INPUT, library_in
from gristmill_bench.executors.base import scratch

SOURCE = Path(__file__).with_name("pingpong.c")
#: The calls, and round trips, of a sample: their median counts.
CALLS = 2_000
#: The calls before the clock starts: they wake the worker and fill its caches.
WARM_CALLS = 50
MEGABYTE = 1_000_000


class NativePartsRow(Row):
    """The cost of a native no-op above a round trip of its bytes between two C programs, and that of large buffers.

    Times are medians of calls one by one, and each includes one clock reading. Calls and round trips take turns.
    """

    key = "native-parts"
    title = "native no-op"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE)]

    def lines(self) -> list[Line]:
        def line(part: str, ours: str, **terms: Any) -> Line:
            return Line(f"{self.title}, {part}", ALONE, "lower", ours, **terms)

        ring, futex = "a ring ping-pong in C", "a futex ping-pong in C"
        return [
            line("hot", "hot", reference="ring", reference_name=ring),
            line(f"hot, above {ring}", "hot above", must=Goal(326e-9), moonshot=Goal(100e-9)),
            line("hot, in ring and worker alone", "within"),
            line("warm", "warm", reference="futex", reference_name=futex),
            line(f"warm, above {futex}", "warm above", must=Goal(4.67e-6), moonshot=Goal(1e-6)),
            line("1 MB in and out", "large", reference="hot", reference_name="64 bytes in"),
            line("1 MB in and out, above it", "large above", must=Goal(10e-6), moonshot=Goal(2e-6)),
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        if settings.ours != engines.OURS:
            raise Unavailable("only ours has native functions")
        program = compiled(SOURCE)
        recording = Recording(
            parameters={"workers": 1, "bytes": len(INPUT), "large bytes": MEGABYTE, "calls": CALLS}
        )
        with (
            scratch() as folder,
            gristmill.Executor(max_workers=1) as hot,
            gristmill.Executor(max_workers=1, spin_seconds=0) as warm,
        ):
            library = library_in(folder)
            array = gristmill.array(MEGABYTE, "u1", executor=hot)
            array[:] = 1
            views = hot.options(views=True)
            noop, whole = library["noop"], library["whole"]

            def polling() -> dict[str, float]:
                bare = round_trip(program, "ring")
                median, within = timed(hot, noop, INPUT, CALLS)
                large, _ = timed(views, whole, array, CALLS // 10)
                return {
                    "ring": bare,
                    "hot": median,
                    "hot above": median - bare,
                    "within": within,
                    "large": large,
                    "large above": large - median,
                }

            def sleeping() -> dict[str, float]:
                bare = round_trip(program, "futex")
                median, _ = timed(warm, noop, INPUT, CALLS)
                return {"futex": bare, "warm": median, "warm above": median - bare}

            recording.add("s", alternate(settings, polling, sleeping))
        return recording


def timed(
    executor: gristmill.Executor | gristmill.BoundExecutor,
    function: Callable[..., Any],
    given: Any,
    count: int,
) -> tuple[float, float]:
    """Returns the median seconds of a call and its wait, and those from the ring to the worker and back."""
    submit = executor.submit
    took, within = [], []
    for number in range(WARM_CALLS + count):
        before = perf_counter()
        future = submit(function, given)
        future.result()
        after = perf_counter()
        if number >= WARM_CALLS:
            took.append(after - before)
            found = future.timings()
            within.append(((found.drained or 0) - (found.written or 0)) * 1e-9)
    return percentile(sorted(took), 0.5), percentile(sorted(within), 0.5)


def round_trip(program: Path, way: str) -> float:
    """Returns the median seconds of a round trip without an engine."""
    command = [str(program), way, str(len(INPUT)), str(CALLS)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
