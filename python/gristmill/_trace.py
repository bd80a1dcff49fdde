"""``gristmill trace``: where the time of a program's tasks goes, by component, from a sample of their tags.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", section 3.2, which
stamps each task as it enters and leaves every component.
"""

from __future__ import annotations

import os
import random
import runpy
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gristmill import _executor, _native

#: From which tag to which, and what happens in between.
COMPONENTS = (
    ("submitted", "written", "client: waits for a place"),
    ("written", "claimed", "ring to the worker"),
    ("claimed", "started", "worker: reads the record"),
    ("started", "ended", "worker: arguments, function, result"),
    ("ended", "published", "worker: publishes the answer"),
    ("published", "drained", "ring to the client"),
)


class Sample:
    """Futures drawn evenly from all that were submitted, so many at most.

    Source: Vitter, "Random Sampling with a Reservoir", ACM TOMS 1985, algorithm R.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._random = random.Random(0)
        self.count = 0
        self.futures: list[_native.Future[Any]] = []

    def offer(self, future: _native.Future[Any]) -> None:
        """Considers one more future."""
        self.count += 1
        if len(self.futures) < self._size:
            self.futures.append(future)
            return
        place = self._random.randrange(self.count)
        if place < self._size:
            self.futures[place] = future

    def tags(self) -> list[dict[str, Any]]:
        """The tags of those that have run."""
        found = (future.tags() for future in self.futures if future.done())
        return [tags for tags in found if "drained" in tags and "started" in tags]


def run(program: str, arguments: Sequence[str], size: int) -> int:
    """Runs a program with its tasks sampled and prints the table on standard error; gives its exit status."""
    if not os.path.exists(program):
        print(f"gristmill trace: there is no file {program}", file=sys.stderr)
        return 2
    sample = Sample(size)
    _watch_submissions(sample)
    sys.argv = [program, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    status = 0
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        print("\n".join(table(sample.count, sample.tags())), file=sys.stderr)
    return status


def table(count: int, tags: Sequence[dict[str, int]]) -> list[str]:
    """The lines of the table: per component the median, the 99th percentile and the share of all time."""
    if not tags:
        return [f"{count:,} tasks were submitted and none of those looked at has run"]
    totals = [sorted(tag[end] - tag[start] for tag in tags) for start, end, _ in COMPONENTS]
    whole = sum(map(sum, totals)) or 1
    lines = [
        f"{count:,} tasks, {len(tags):,} of them looked at",
        f"{'component':<37}{'median us':>11}{'p99 us':>11}{'share':>8}",
    ]
    for (_, _, name), times in zip(COMPONENTS, totals, strict=True):
        median, high = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
        share = 100 * sum(times) / whole
        lines.append(f"{name:<37}{median / 1e3:>11,.2f}{high / 1e3:>11,.2f}{share:>7.1f}%")
    return lines


def _watch_submissions(sample: Sample) -> None:
    """Lets every submission of this process offer its future; a map becomes submissions with a window."""
    submit = _native.Engine.submit

    def submit_and_offer(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        future = submit(self, fn, *args, **kwargs)
        sample.offer(future)
        return future

    def start_map(
        self: Any,
        options: Any,
        function: Callable[..., Any],
        items: Iterator[Any],
        unpacks: bool,
        window: int,
        timeout: float | None,
        is_ordered: bool,
    ) -> Iterator[Any]:
        target = self if options is None else options
        pending: deque[Any] = deque()
        for item in items:
            pending.append(target.submit(function, *(item if unpacks else (item,))))
            if len(pending) == window:
                yield pending.popleft().result(timeout)
        while pending:
            yield pending.popleft().result(timeout)

    _executor.Executor.submit = submit_and_offer  # type: ignore[method-assign]
    _executor.Executor._start_map = start_map  # type: ignore[method-assign,assignment]
