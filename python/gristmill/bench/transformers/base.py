"""What all transformers have."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from gristmill.bench.interfaces import Transformer
from gristmill.bench.plugins import Kind, Plugin


class TransformerPlugin(Plugin):
    """A transformer, not yet open."""

    kind: ClassVar[Kind] = "transformer"

    @abstractmethod
    def open(self, folder: Path) -> Transformer:
        """Starts what it needs; what it writes may go to the folder."""

    def sweep(self, folder: Path, run: str) -> None:
        """Removes what is left of it of a run in that folder, which has ended, by the name of the run."""
