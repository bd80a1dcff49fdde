"""Objects as files: the simplest way past an executor's own, wherever workers share a file system."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from gristmill.bench.interfaces import Transformer
from gristmill.bench.plugins import AbsolutePath
from gristmill.bench.transformers.base import TransformerPlugin


class FileName(NamedTuple):
    """The name of an object that is in a file."""

    path: str


class PickledFiles(TransformerPlugin):
    """A pickle for each object, in a folder of the run unless another is named."""

    folder: AbsolutePath | None = None

    def open(self, folder: Path) -> Transformer:
        """Makes a folder of its own there, which goes with it."""
        mine = (self.folder or folder).absolute() / f"objects-{uuid4().hex[:8]}"
        mine.mkdir(parents=True)
        return _Folder(str(mine))


class _Folder:
    """Goes to workers by the name of the folder."""

    def __init__(self, path: str) -> None:
        self._path = path

    def transform(self, value: Any) -> FileName:
        name = FileName(os.path.join(self._path, uuid4().hex))
        with open(name.path, "wb") as file:
            pickle.dump(value, file, protocol=5)
        return name

    def resolve(self, name: FileName) -> Any:
        with open(name.path, "rb") as file:
            return pickle.load(file)

    def is_name(self, value: Any) -> bool:
        return type(value) is FileName

    def close(self) -> None:
        shutil.rmtree(self._path)
