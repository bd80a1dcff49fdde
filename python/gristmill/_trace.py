"""``gristmill trace``: where the time of a program's tasks goes, by component, from a sample of their tags.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", section 3.2, which
stamps each task as it enters and leaves every component.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TextIO

from gristmill import _executor, _native
from gristmill._profile import program, tags


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
        return [one for one in found if "drained" in one and "started" in one]


def run(words: Sequence[str], size: int, record: Path | None, html: Path | None) -> int:
    """Runs a program with its tasks sampled and prints where their time went; gives its exit status.

    :param words: a program with its arguments, or a file that an earlier run has recorded.
    :param record: where the tags are written, for later.
    :param html: where a report is written.
    """
    try:
        if len(words) == 1 and tags.is_recorded(Path(words[0])):
            _show(tags.read(Path(words[0])), None, html, sys.stdout)
            return 0
        found = program.find(words)
    except (program.NoProgram, tags.NoTags) as error:
        print(f"gristmill trace: {error}", file=sys.stderr)
        return 2
    if (place := _no_place(record, html)) is not None:
        print(f"gristmill trace: there is no folder {place}", file=sys.stderr)
        return 2
    # The program may go elsewhere.
    record, html = (None if file is None else file.absolute() for file in (record, html))
    sample = Sample(size)
    watch_submissions(sample)
    # The program has arguments of its own.
    command = ["gristmill", *sys.argv[1:]]
    try:
        program.run(found)
    finally:
        recorded = tags.Recorded(sample.count, sample.tags(), command, tags.machine())
        _show(recorded, record, html, sys.stderr)
    return 0


def _no_place(*files: Path | None) -> Path | None:
    """The folder that is not there, of those that files are to be written to."""
    folders = (file.absolute().parent for file in files if file is not None)
    return next((folder for folder in folders if not folder.is_dir()), None)


def _show(recorded: tags.Recorded, record: Path | None, html: Path | None, file: TextIO) -> None:
    print("\n".join(tags.table(recorded)), file=file)
    if record is not None:
        tags.write(record, recorded)
    if html is not None:
        from gristmill._profile import report

        page = report.of_tags(recorded)
        html.write_text(page, encoding="utf-8", errors="backslashreplace")


def watch_submissions(sample: Sample) -> None:
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
    _watch_lanes(sample)


def _watch_lanes(sample: Sample) -> None:
    """Lets plain calls of Parsl programs offer theirs: they go past the executor."""
    from gristmill.parsl import lanes

    submit = lanes.Lane.submit

    @wraps(submit)
    def submit_and_offer(self: lanes.Lane, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        future = submit(self, args, kwargs)
        if future is not None:
            sample.offer(future)
        return future

    lanes.Lane.submit = submit_and_offer  # type: ignore[method-assign]
