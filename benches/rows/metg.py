"""METG(50 %): the task length at which half of the workers' time is still useful.

The work of a task is a fixed count of turns of a loop: a task that ran until a clock said so would count the time in
which it was preempted as useful.

Source: Slaughter et al., "Task Bench", SC 2020, section IV: minimum effective task granularity.
"""

from collections.abc import Callable

from benches.engines import PEERS
from benches.engines.base import Engine
from benches.harness import Measure, seconds, turns_per_second
from benches.model import Goal, Recording, Settings
from benches.rows.contests import ContestRow
from benches.work import turn

#: The limits of the search for a task length, seconds.
SHORTEST_S = 0.25e-6
LONGEST_S = 0.2
TASKS_MIN = 24
TASKS_MAX = 200_000
#: The share of the time that is useful.
USEFUL = 0.5
#: The first length of a sweep relative to the crossing that the warm-up found.
HEADROOM = 4.0


class MetgRow(ContestRow):
    """Tasks of decreasing length, submitted one by one; lower is better."""

    key = "metg"
    title = "METG(50 %)"
    workers = 2
    unit = "s"
    better = "lower"
    peers = tuple(PEERS)
    must = Goal(10e-6)
    moonshot = Goal(3e-6)

    def side(self, settings: Settings, key: str, engine: Engine, recording: Recording) -> Measure:
        efficiency = useful_share(settings, engine)
        expected = coarse(efficiency)
        recording.parameters[f"{key} expected"] = expected

        def sample() -> dict[str, float]:
            return {key: crossing(efficiency, HEADROOM * expected)}

        return sample


def useful_share(settings: Settings, engine: Engine) -> Callable[[float], float]:
    """Returns a function from task length to the share of the workers' time spent in tasks."""
    submit, collect, workers = engine.submit, engine.collect, engine.workers
    speed = turns_per_second()

    def run(tasks: int, length: float) -> float:
        turns = round(speed * length)

        def burst(count: int) -> object:
            return collect([submit(turn, turns) for _ in range(count)])

        return seconds(burst, tasks)

    def efficiency(length: float) -> float:
        # The probe sizes the burst for this engine, so that it fills a sample at any cost of a task.
        each = run(TASKS_MIN, length) / TASKS_MIN
        tasks = max(TASKS_MIN, min(TASKS_MAX, round(settings.sample_s / each)))
        return tasks * length / workers / run(tasks, length)

    return efficiency


def coarse(efficiency: Callable[[float], float]) -> float:
    """Doubles the length from the shortest until half of the time is useful. This is also the warm-up."""
    length = SHORTEST_S
    while length < LONGEST_S and efficiency(length) < USEFUL:
        length *= 2
    return length


def crossing(efficiency: Callable[[float], float], start: float) -> float:
    """Finds the length at which efficiency falls below 50 %, between measured lengths on a log scale.

    Starts at a useful length, a longer one if necessary, and halves it until it is not useful.
    """
    length, share = start, efficiency(start)
    while share < USEFUL and length < LONGEST_S:
        length *= 2
        share = efficiency(length)
    while length > SHORTEST_S:
        shorter = length / 2
        below = efficiency(shorter)
        if below < USEFUL <= share:
            return float(length * 0.5 ** ((share - USEFUL) / (share - below)))
        length, share = shorter, below
    return length
