"""What tags cost: the `submit` row with them and with tags compiled out."""

from benches import adapters, builds
from benches.harness import Measure, alternate, sized
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings, Unavailable

WORKERS = 2
#: More than usual: the difference looked for is smaller than the spread of one sample.
SAMPLES = 200
#: The first run compiles the second build.
TIMEOUT_S = 900.0


class TagsRow(Row):
    """Rate with tags divided by the rate without; 0.98 is a cost of 2 %."""

    key = "tags"
    title = "submit with tags"
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
                reference_name="ours without tags",
                must=Goal(0.98, "ratio"),
                moonshot=Goal(0.99, "ratio"),
            )
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        if settings.ours != adapters.OURS:
            raise Unavailable("only ours has tags")
        with (
            builds.opened(builds.without_tags(), WORKERS) as without,
            builds.opened(None, WORKERS) as tagged,
        ):
            if without.has_tags or not tagged.has_tags:
                raise Unavailable("the two builds do not differ by their tags")
            count = sized(settings, tagged.seconds)
            sized(settings, without.seconds)
            recording = Recording(parameters={"workers": WORKERS, "tasks": count})
            sides = rate("ours", tagged, count), rate("without", without, count)
            recording.add("/s", alternate(settings, *sides, samples=SAMPLES))
        return recording


def rate(key: str, side: builds.Side, count: int) -> Measure:
    """Makes a side whose samples are tasks a second."""
    return lambda: {key: count / side.seconds(count)}
