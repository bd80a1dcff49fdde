"""New interpreters: the time to the end of `import`, and to the first result."""

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from benches.engines import ENGINES, PEERS
from benches.engines.base import share_paths
from benches.harness import Measure, alternate
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings, Unavailable
from gristmill_bench.executors.base import scratch

_TIMED = """
import sys
from time import perf_counter
from benches.work import noop
start = perf_counter()
{opening}
took = perf_counter() - start
with open(sys.argv[1], "w") as file:
    file.write(repr(took))
"""


def interpreter(script: str, folder: str) -> float:
    """Runs a script in a new interpreter. Returns the wall time of the whole process.

    There is no timeout, which would poll in steps as long as the start itself: the time limit of the block ends a start
    that hangs.
    """
    command = [sys.executable, "-c", script, f"{folder}/took"]
    # An installed package is compiled; with this variable each start would compile a source tree.
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    start = perf_counter()
    subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=sys.stderr,
        check=True,
    )
    return perf_counter() - start


def opening(key: str, statements: str) -> Measure:
    """Makes a side that times statements from inside a new interpreter."""
    script = _TIMED.format(opening=statements)

    def sample() -> dict[str, float]:
        with scratch() as folder:
            interpreter(script, folder)
            return {key: float(Path(folder, "took").read_text())}

    return sample


class ImportRow(Row):
    """`import gristmill`, timed inside the interpreter, and as process time beyond that of a bare one."""

    key = "import"
    title = "import"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE)]

    def lines(self) -> list[Line]:
        whole = f"{self.title}, process time beyond a bare interpreter"
        return [
            Line(self.title, ALONE, "lower", must=Goal(15e-3), moonshot=Goal(8e-3)),
            Line(whole, ALONE, "lower", "ours beyond bare"),
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        share_paths()
        statement = f"import {ENGINES[settings.ours].module}"

        def whole(key: str, script: str) -> Measure:
            def sample() -> dict[str, float]:
                with scratch() as folder:
                    return {key: interpreter(script, folder)}

            return sample

        recording = Recording()
        series = alternate(
            settings,
            opening("ours", statement),
            whole("ours whole", statement),
            whole("bare", "pass"),
        )
        series["ours beyond bare"] = [
            ours - bare for ours, bare in zip(series["ours whole"], series["bare"], strict=True)
        ]
        recording.add("s", series)
        return recording


class FirstRow(Row):
    """The time from before the import to the first result on two workers, in a new interpreter."""

    key = "first"
    title = "import to first result"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE), *(Block(peer, timeout_s=600) for peer in PEERS)]

    def lines(self) -> list[Line]:
        ours = Line(self.title, ALONE, "lower", must=Goal(100e-3), moonshot=Goal(40e-3))
        return [
            ours,
            *(
                Line(self.title, peer, "lower", "ours", "peer", engine.name)
                for peer, engine in PEERS.items()
            ),
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        share_paths()
        sides = [opening("ours", ENGINES[settings.ours].opening)]
        if block != ALONE:
            if PEERS[block].version() is None:
                raise Unavailable("not installed")
            sides.append(opening("peer", PEERS[block].opening))
        recording = Recording(parameters={"workers": 2})
        recording.add("s", alternate(settings, *sides))
        return recording
