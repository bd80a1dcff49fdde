"""The cost of timings: the `submit` row with them and with timings compiled out."""

from benches import builds, engines
from benches.harness import Measure, alternate, sized
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings, Unavailable

WORKERS = 2
#: The number of samples, more than usual: the expected difference is smaller than the spread of one sample.
SAMPLES = 200
#: The time limit, seconds: the first run compiles the second build.
TIMEOUT_S = 900.0


class TimingsRow(Row):
    """The rate with timings divided by the rate without; 0.98 is a cost of 2 %."""

    key = "timings"
    title = "submit with timings"
    unit = "/s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE, timeout_s=TIMEOUT_S)]

    def lines(self) -> list[Line]:
        return [
            Line(
                self.title,
                ALONE,
                "higher",
                reference="without",
                reference_name="ours without timings",
                must=Goal(0.98, "ratio"),
                moonshot=Goal(0.99, "ratio"),
            )
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        if settings.ours != engines.OURS:
            raise Unavailable("only ours has timings")
        with (
            builds.opened(builds.without_timings(), WORKERS) as without,
            builds.opened(None, WORKERS) as timed,
        ):
            if without.has_timings or not timed.has_timings:
                raise Unavailable("the two builds do not differ by their timings")
            count = sized(settings, timed.seconds)
            sized(settings, without.seconds)
            recording = Recording(parameters={"workers": WORKERS, "tasks": count})
            sides = rate("ours", timed, count), rate("without", without, count)
            recording.add("/s", alternate(settings, *sides, samples=SAMPLES))
        return recording


def rate(key: str, side: builds.Side, count: int) -> Measure:
    """Makes a side whose samples are tasks a second."""
    return lambda: {key: count / side.seconds(count)}
