"""What the process of a client is told: an engine, where its workers are, what is measured."""

import json
from dataclasses import asdict, dataclass, field

from benches.model import Settings

#: What a client's last line begins with if it fails; the reason follows.
FAILED = "failed: "


@dataclass(frozen=True)
class Place:
    """A cluster as a client at its login end sees it."""

    #: Address of the login end.
    address: str
    #: Names of the nodes; each has one worker.
    hosts: list[str]
    #: A program that is called as `ssh` is.
    shell: str
    #: Where the engine's own processes are met, in its terms; empty where its client starts them.
    meeting: list[str] = field(default_factory=list)
    #: File with the key that lets a client in, where one is needed.
    key: str = ""


@dataclass(frozen=True)
class Order:
    """What a client is to measure."""

    engine: str
    work: str
    place: Place
    settings: Settings

    def text(self) -> str:
        """Writes it down."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> "Order":
        """Reads what `text` wrote."""
        fields = json.loads(text)
        place, settings = Place(**fields.pop("place")), Settings(**fields.pop("settings"))
        return cls(**fields, place=place, settings=settings)
