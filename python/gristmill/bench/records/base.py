"""What all records have."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from gristmill.bench.folder import CONFIGURATION, ENVIRONMENT, LOG, SUMMARY
from gristmill.bench.interfaces import Records
from gristmill.bench.plugins import Kind, Plugin


def _own(name: str) -> str:
    if name in (CONFIGURATION, ENVIRONMENT, LOG, SUMMARY):
        raise ValueError(f"{name} is a file of the run itself")
    return name


#: A file of theirs in the folder of a run.
OwnFile = Annotated[str, AfterValidator(_own)]


class RecordsPlugin(Plugin):
    """A kind of records, not yet open."""

    kind: ClassVar[Kind] = "records"

    #: Whether the sizes of results are noted, which costs a pickling of each in its worker.
    sizes: bool = False

    @abstractmethod
    def open(self, folder: Path) -> Records:
        """Makes its files in the folder of a run."""
