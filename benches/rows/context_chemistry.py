"""A search for molecules by quantum chemistry and machine learning, with and without a context that is kept."""

from benches.contexts import chemistry, environment
from benches.contexts.levels import REUSE, Level
from benches.harness import Measure, alternate, opened
from benches.model import ALONE, Block, Line, Recording, Row, Settings
from benches.rows.context_inference import timed

WORKERS = 2


class ChemistryRow(Row):
    """The whole search at each level, workers warm where there is something to keep."""

    key = "context-chemistry"
    title = "search for molecules"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE, timeout_s=1200)]

    def lines(self) -> list[Line]:
        label = f"{self.title} at L3"
        return [Line(label, ALONE, "lower", "L3", level, f"at {level}") for level in ("L1", "L2")]

    def measure(self, block: str, settings: Settings) -> Recording:
        environment.needed("rdkit", "tblite", "sklearn")
        levels = {name: Level(settings, name, chemistry.ready, workers=WORKERS) for name in REUSE}
        with opened(*(level.engine for level in levels.values())):
            found = {chemistry.searched(levels["L3"])}

            def side(name: str) -> Measure:
                return timed(name, lambda: found.add(chemistry.searched(levels[name])))

            series = alternate(settings, *(side(name) for name in levels))
        if len(found) != 1:
            raise RuntimeError(f"the levels found different molecules: {found}")
        calls = chemistry.ROUNDS * (chemistry.BATCH + 1 + chemistry.SHARES)
        recording = Recording(parameters={"workers": WORKERS, "calls": calls, "found": found.pop()})
        recording.add(self.unit, series)
        return recording
