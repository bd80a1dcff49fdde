"""What all records have."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from gristmill.bench.interfaces import Records
from gristmill.bench.plugins import Kind, Plugin


class RecordsPlugin(Plugin):
    """A kind of records, not yet open."""

    kind: ClassVar[Kind] = "records"

    #: Whether the sizes of results are noted, which costs a pickling of each in its worker.
    sizes: bool = False

    @abstractmethod
    def open(self, folder: Path) -> Records:
        """Makes its files in the folder of a run."""
