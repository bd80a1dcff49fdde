"""The structure of most rows: our engine alone, then beside each peer, one series a side."""

from abc import abstractmethod
from typing import ClassVar

from benches.engines import PEERS
from benches.engines.base import Engine
from benches.harness import Measure, alternate, contest
from benches.model import ALONE, Better, Block, Goal, Line, Recording, Row, Settings


class ContestRow(Row):
    """A row whose sides are measured the same way on every engine."""

    workers: ClassVar[int]
    better: ClassVar[Better]
    peers: ClassVar[tuple[str, ...]] = ()
    #: The goals of the line of ours alone, and of the lines beside the peers.
    must: ClassVar[Goal | None] = None
    moonshot: ClassVar[Goal | None] = None
    peer_musts: ClassVar[dict[str, Goal]] = {}
    peer_moonshots: ClassVar[dict[str, Goal]] = {}
    #: The number of samples of a series; 0 for the usual number.
    samples: ClassVar[int] = 0

    @abstractmethod
    def side(self, settings: Settings, key: str, engine: Engine, recording: Recording) -> Measure:
        """Chooses the sizes of one side and warms it up; records its parameters."""

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE), *(Block(peer) for peer in self.peers)]

    def lines(self) -> list[Line]:
        alone = Line(self.title, ALONE, self.better, must=self.must, moonshot=self.moonshot)
        return [alone, *(self.peer_line(peer) for peer in self.peers)]

    def peer_line(self, peer: str) -> Line:
        """Makes the line beside one peer."""
        return Line(
            self.title,
            peer,
            self.better,
            reference="peer",
            reference_name=PEERS[peer].name,
            must=self.peer_musts.get(peer),
            moonshot=self.peer_moonshots.get(peer),
        )

    def measure(self, block: str, settings: Settings) -> Recording:
        recording = Recording(parameters={"workers": self.workers})
        peer = None if block == ALONE else block
        with contest(settings, peer, self.workers) as sides:
            measures = [self.side(settings, key, engine, recording) for key, engine in sides]
            recording.add(self.unit, alternate(settings, *measures, samples=self.samples))
        return recording
