"""A search for molecules by quantum chemistry and machine learning, with and without a context that is kept."""

import importlib
from collections.abc import Callable
from typing import Any

from benches.contexts import environment
from benches.contexts.levels import REUSE, Level
from benches.harness import Measure, alternate, opened
from benches.model import ALONE, Block, Line, Recording, Row, Settings
from benches.rows.context_inference import timed

WORKERS = 2


class ChemistryRow(Row):
    """The whole search at each level, with warm workers if there is something to keep."""

    key = "context-chemistry"
    title = "search for molecules"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE, timeout_s=1200)]

    def lines(self) -> list[Line]:
        label = f"{self.title} at L3"
        return [Line(label, ALONE, "lower", "L3", level, f"at {level}") for level in ("L1", "L2")]

    def measure(self, block: str, settings: Settings) -> Recording:
        environment.needed("molecular_screen", "rdkit", "tblite", "sklearn")
        examol = importlib.import_module("gristmill_bench.apps.examol")
        app = examol.ExaMol()
        levels = {name: Level(settings, name, examol.ready, workers=WORKERS) for name in REUSE}
        with opened(*(level.engine for level in levels.values())):
            found = {searched(app, levels["L3"])}

            def side(name: str) -> Measure:
                return timed(name, lambda: found.add(searched(app, levels[name])))

            series = alternate(settings, *(side(name) for name in levels))
        if len(found) != 1:
            raise RuntimeError(f"the levels found different molecules: {found}")
        calls = app.rounds * (app.batch + 1 + app.shares)
        recording = Recording(parameters={"workers": WORKERS, "calls": calls, "found": found.pop()})
        recording.add(self.unit, series)
        return recording


def searched(app: Any, level: Level) -> str:
    """Runs the suite's search at one level. Returns the simulated molecule with the lowest value."""

    def submit(function: Callable[..., Any], *arguments: Any) -> Any:
        return level.submit(function, level.context, *arguments)

    known: dict[str, float] = app.search(submit).known
    return min(known, key=known.__getitem__)
