"""Base class of all transformers."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from gristmill_bench.interfaces import Transformer
from gristmill_bench.plugins import Kind, Plugin


class TransformerPlugin(Plugin):
    """A transformer that is not open yet."""

    kind: ClassVar[Kind] = "transformer"

    @abstractmethod
    def open(self, folder: Path) -> Transformer:
        """Starts the transformer, whose files may go to the folder."""

    def sweep(self, folder: Path, run: str) -> None:
        """Removes what an ended run, with that folder and name, has left; nothing by default."""
