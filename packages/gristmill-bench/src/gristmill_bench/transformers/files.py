"""Objects as files: the simplest way around an executor's own transport, wherever workers share a file system."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from gristmill_bench import run_names
from gristmill_bench.errors import BenchError
from gristmill_bench.interfaces import Transformer
from gristmill_bench.plugins import AbsolutePath
from gristmill_bench.transformers.base import TransformerPlugin


class FileName(NamedTuple):
    """The name of an object that is in a file."""

    path: str


class PickledFiles(TransformerPlugin):
    """A pickle for each object, in a folder of the run unless another is named."""

    folder: AbsolutePath | None = None

    def open(self, folder: Path) -> Transformer:
        """Makes a folder inside the chosen one, which is removed when the transformer is closed."""
        return _Pickles((self.folder or folder).absolute())

    def sweep(self, folder: Path, run: str) -> None:
        """Removes the folders of a run that was killed."""
        for left in (self.folder or folder).glob(f"{run_names.begins(run)}*"):
            shutil.rmtree(left, ignore_errors=True)


class Folder:
    """A folder with a file for each object. Workers get it by its path."""

    def __init__(self, parent: Path) -> None:
        path = parent / f"{run_names.here()}{uuid4().hex[:12]}"
        try:
            path.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise BenchError(f"transformer: {path}: {error.strerror}") from error
        self._path = str(path)

    def new_path(self) -> str:
        """Returns the path of the next object."""
        return os.path.join(self._path, uuid4().hex)

    def close(self) -> None:
        """Removes the folder with all of its files."""
        shutil.rmtree(self._path)


class _Pickles(Folder):
    def transform(self, value: Any) -> FileName:
        name = FileName(self.new_path())
        with open(name.path, "wb") as file:
            pickle.dump(value, file, protocol=5)
        return name

    def resolve(self, name: FileName) -> Any:
        with open(name.path, "rb") as file:
            return pickle.load(file)

    def is_name(self, value: Any) -> bool:
        return type(value) is FileName
