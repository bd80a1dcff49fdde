"""Base class of all records."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from gristmill_bench.folder import CONFIGURATION, ENVIRONMENT, LOG, SUMMARY
from gristmill_bench.interfaces import Records
from gristmill_bench.plugins import Kind, Plugin


def _own(name: str) -> str:
    if name in (CONFIGURATION, ENVIRONMENT, LOG, SUMMARY):
        raise ValueError(f"{name} is a file of the run itself")
    return name


#: Name of a records file in the folder of a run.
OwnFile = Annotated[str, AfterValidator(_own)]


class RecordsPlugin(Plugin):
    """A kind of records that is not open yet."""

    kind: ClassVar[Kind] = "records"

    #: True if the sizes of results are recorded, for which each worker pickles its results once more.
    sizes: bool = False

    @abstractmethod
    def open(self, folder: Path) -> Records:
        """Makes the files of the records in the folder of a run."""
