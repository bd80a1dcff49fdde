"""The order for a client's process: an engine, the location of its workers, the measurement."""

import json
from dataclasses import asdict, dataclass, field

from benches.model import Settings

#: The prefix of a client's last line if it fails; the reason follows.
FAILED = "failed: "


@dataclass(frozen=True)
class Place:
    """A cluster as a client on its login machine sees it."""

    #: The address of the login machine.
    address: str
    #: The names of the nodes; each has one worker.
    hosts: list[str]
    #: A program with the command line of `ssh`.
    shell: str
    #: The addresses of the engine's own processes, in its terms; empty if its client starts them.
    meeting: list[str] = field(default_factory=list)
    #: The file with the key that admits a client, if one is needed.
    key: str = ""


@dataclass(frozen=True)
class Order:
    """The measurement that a client must make."""

    engine: str
    work: str
    place: Place
    settings: Settings

    def text(self) -> str:
        """Serializes the order."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> "Order":
        """Parses the output of `text`."""
        fields = json.loads(text)
        place, settings = Place(**fields.pop("place")), Settings(**fields.pop("settings"))
        return cls(**fields, place=place, settings=settings)
