"""What tags cost: the `submit` row with and without them."""

from benches import adapters
from benches.harness import alternate, opened, rate, sized
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings
from benches.rows.throughput import burst

WORKERS = 2
#: More than usual: the difference looked for is smaller than the spread of one sample.
SAMPLES = 100


class TagsRow(Row):
    """Rate with tags divided by the rate without; 0.98 is a cost of 2 %."""

    key = "tags"
    title = "submit with tags"
    unit = "/s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE)]

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
        without = adapters.ours_without_tags(settings.ours, WORKERS)
        tagged = adapters.ours(settings.ours, WORKERS)
        with opened(without, tagged):
            runs = burst(tagged), burst(without)
            count = sized(settings, runs[0])
            sized(settings, runs[1])
            recording = Recording(parameters={"workers": WORKERS, "tasks": count})
            sides = rate("ours", runs[0], count), rate("without", runs[1], count)
            recording.add("/s", alternate(settings, *sides, samples=SAMPLES))
        return recording
