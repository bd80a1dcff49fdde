"""METG(50 %) and METG(95 %): the task length at which half, or nearly all, of the workers' time is still useful.

The work of a task is a fixed count of turns of a loop: a task that ran until a clock said so would count the time in
which it was preempted as useful.

Source: Slaughter et al., "Task Bench", SC 2020, section IV: minimum effective task granularity.
"""

from collections.abc import Callable
from statistics import median

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
HALF = 0.5
NEARLY_ALL = 0.95
#: Pairs of runs whose median is the useful share, where five hundredths decide.
PAIRS = 7
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
        expected = coarse(efficiency, HALF)
        recording.parameters[f"{key} expected"] = expected

        def sample() -> dict[str, float]:
            return {key: crossing(efficiency, HEADROOM * expected, HALF)}

        return sample


class NearlyFullRow(ContestRow):
    """As ``MetgRow``, where nearly all of the time is useful.

    The time of a core that is not disturbed differs by more than the lost time does. So a run is compared with one
    that does the same work in one task a worker, right before it.
    """

    key = "metg-95"
    title = "METG(95 %)"
    workers = 2
    unit = "s"
    better = "lower"
    peers = ("ppe",)
    must = Goal(100e-6)
    moonshot = Goal(20e-6)

    def side(self, settings: Settings, key: str, engine: Engine, recording: Recording) -> Measure:
        share = paired_share(settings, engine)
        expected = coarse(share, NEARLY_ALL)
        recording.parameters[f"{key} expected"] = expected
        return lambda: {key: crossing(share, 2 * expected, NEARLY_ALL)}


def run(engine: Engine, tasks: int, turns: int) -> float:
    """Returns the seconds that tasks of this many turns of a loop take, submitted one by one."""
    submit, collect = engine.submit, engine.collect
    return seconds(lambda count: collect([submit(turn, turns) for _ in range(count)]), tasks)


def burst_size(settings: Settings, engine: Engine, turns: int) -> int:
    """Returns the number of tasks that fill a sample, at any cost of a task of this engine."""
    each = run(engine, TASKS_MIN, turns) / TASKS_MIN
    return max(TASKS_MIN, min(TASKS_MAX, round(settings.sample_s / each)))


def paired_share(settings: Settings, engine: Engine) -> Callable[[float], float]:
    """Returns a function from task length to the time of one long task a worker over that of the same work in tasks."""
    speed, workers = turns_per_second(), engine.workers

    def share(length: float) -> float:
        turns = round(speed * length)
        tasks = burst_size(settings, engine, turns) // workers * workers
        whole = turns * tasks // workers
        return median(run(engine, workers, whole) / run(engine, tasks, turns) for _ in range(PAIRS))

    return share


def useful_share(settings: Settings, engine: Engine) -> Callable[[float], float]:
    """Returns a function from task length to the share of the workers' time spent in tasks."""
    speed, workers = turns_per_second(), engine.workers

    def efficiency(length: float) -> float:
        turns = round(speed * length)
        tasks = burst_size(settings, engine, turns)
        return tasks * length / workers / run(engine, tasks, turns)

    return efficiency


def coarse(efficiency: Callable[[float], float], useful: float) -> float:
    """Doubles the length from the shortest until this share of the time is useful. This is also the warm-up."""
    length = SHORTEST_S
    while length < LONGEST_S and efficiency(length) < useful:
        length *= 2
    return length


def crossing(efficiency: Callable[[float], float], start: float, useful: float) -> float:
    """Finds the length at which efficiency falls below this share, between measured lengths on a log scale.

    Starts at a useful length, a longer one if necessary, and halves it until it is not useful.
    """
    length, share = start, efficiency(start)
    while share < useful and length < LONGEST_S:
        length *= 2
        share = efficiency(length)
    while length > SHORTEST_S:
        shorter = length / 2
        below = efficiency(shorter)
        if below < useful <= share:
            return float(length * 0.5 ** ((share - useful) / (share - below)))
        length, share = shorter, below
    return length
