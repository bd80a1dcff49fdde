"""The cost of the suite itself: seconds for each task on no executor at all."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from benches import work
from benches.harness import alternate, cost, sized
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings
from gristmill_bench import Engine
from gristmill_bench.executors.here import Inline
from gristmill_bench.filters import Never
from gristmill_bench.records.lines import JsonLines
from gristmill_bench.transformers.files import PickledFiles

#: The limit, seconds: with it an engine that takes 10 us a task can be measured.
MUST_S = 5e-6


class SuiteCostRow(Row):
    """`gristmill_bench` with the executor `inline`: bare, with records, and with a transformer that selects nothing."""

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
        backend = Inline().open()

        def bare(count: int) -> None:
            run(Engine(backend), count)

        def noted(count: int) -> None:
            records = JsonLines().open(folder)
            run(Engine(backend, records=records), count)
            records.close()

        def moved(count: int) -> None:
            run(Engine(backend, filter=Never(), transformer=transformer), count)

        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="gb-")))
            transformer = PickledFiles().open(folder)
            sides: dict[str, Callable[[int], None]] = {"bare": bare, "noted": noted, "moved": moved}
            counts = {key: sized(settings, side) for key, side in sides.items()}
            recording = Recording(parameters={"tasks": counts})
            costs = [cost(key, side, counts[key]) for key, side in sides.items()]
            recording.add("s", alternate(settings, *costs))
        return recording


def run(engine: Engine, count: int) -> None:
    """Submits `count` tasks that do nothing, and takes their results."""
    submit = engine.submit
    tasks = [submit(work.noop, number) for number in range(count)]
    for task in tasks:
        task.result()
