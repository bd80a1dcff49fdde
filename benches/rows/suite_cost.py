"""What the suite itself costs: seconds that each task takes on no executor at all."""

import importlib
import importlib.util
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from benches import work
from benches.harness import alternate, cost, sized
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings, Unavailable

#: What the limit is set for: beside it an engine that takes 10 us a task can be measured.
MUST_S = 5e-6


class SuiteCostRow(Row):
    """`gristmill.bench` with the executor `inline`: bare, with records, and with a transformer that picks nothing."""

    key = "suite-cost"
    title = "a task of the suite on no executor"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE)]

    def lines(self) -> list[Line]:
        about = {
            "bare": "nothing noted",
            "noted": "with records",
            "moved": "with a transformer that picks nothing",
        }
        return [
            Line(f"{self.title}, {text}", ALONE, "lower", ours=key, must=Goal(MUST_S))
            for key, text in about.items()
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        missing = [one for one in ("pydantic", "tomli_w") if importlib.util.find_spec(one) is None]
        if missing:
            raise Unavailable(f"{missing[0]} is not installed")
        engine_of = importlib.import_module("gristmill.bench").Engine
        here = importlib.import_module("gristmill.bench.executors.here")
        lines = importlib.import_module("gristmill.bench.records.lines")
        files = importlib.import_module("gristmill.bench.transformers.files")
        filters = importlib.import_module("gristmill.bench.filters")
        backend = here.Inline().open()

        def bare(count: int) -> None:
            run(engine_of(backend), count)

        def noted(count: int) -> None:
            records = lines.JsonLines().open(folder)
            run(engine_of(backend, records=records), count)
            records.close()

        def moved(count: int) -> None:
            run(engine_of(backend, filter=filters.Never(), transformer=transformer), count)

        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="gb-")))
            transformer = files.PickledFiles().open(folder)
            sides: dict[str, Callable[[int], None]] = {"bare": bare, "noted": noted, "moved": moved}
            counts = {key: sized(settings, side) for key, side in sides.items()}
            recording = Recording(parameters={"tasks": counts})
            costs = [cost(key, side, counts[key]) for key, side in sides.items()]
            recording.add("s", alternate(settings, *costs))
        return recording


def run(engine: object, count: int) -> None:
    """Submits that many tasks that do nothing, and takes their results."""
    submit = engine.submit  # type: ignore[attr-defined]
    tasks = [submit(work.noop, number) for number in range(count)]
    for task in tasks:
        task.result()
