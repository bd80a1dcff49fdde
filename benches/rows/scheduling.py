"""The cost of a scheduling decision, by the number of nodes and by the length of the queue."""

import json
import subprocess

from benches import engines, machine
from benches.model import Block, Goal, Line, Recording, Row, Settings, Unavailable

#: The numbers of nodes, of a hundred workers each, and of queued tasks.
MANY, FEW = (10_000, 10_000_000), (10, 100_000)
#: The number of samples; each is the mean of many decisions.
SAMPLES = 300
#: The time limit, seconds: the first run compiles the program.
TIMEOUT_S = 900.0
BLOCKS = {"many nodes": MANY, "few nodes": FEW}


class SchedulingRow(Row):
    """The time from a node's answer until the tasks that it makes possible are placed, in the state machine itself.

    The algorithm is the same for any number; only the part of the state machine's tables that fits into caches differs.
    """

    key = "scheduling"
    title = "scheduling decision: 10,000 nodes, 10,000,000 queued"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(name, timeout_s=TIMEOUT_S) for name in BLOCKS]

    def lines(self) -> list[Line]:
        many, few = BLOCKS
        return [
            Line(
                self.title,
                many,
                "lower",
                reference="ours",
                reference_name="10 nodes, 100,000 queued",
                reference_block=few,
                must=Goal(2e-6),
                moonshot=Goal(0.5e-6),
            )
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        if settings.ours != engines.OURS:
            raise Unavailable("only ours can be driven without processes")
        nodes, queued = BLOCKS[block]
        samples = settings.samples if settings.quick else SAMPLES
        found = run(nodes, queued, samples)
        nanoseconds = found.pop("ns")
        recording = Recording(parameters=found)
        recording.add(self.unit, {"ours": [one * 1e-9 for one in nanoseconds]})
        return recording


def run(nodes: int, queued: int, samples: int) -> dict[str, list[float]]:
    """Builds and runs the program that counts. Returns its output."""
    command = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "gristmill-core"]
    command += ["--example", "scheduling", "--", str(nodes), str(queued), str(samples)]
    try:
        ran = subprocess.run(command, cwd=machine.ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"the program cannot be run: {error}") from error
    return dict(json.loads(ran.stdout))
