"""Word counts: each task counts the words of some files, and the last task adds up the counts (TaPS, section III-E).

The text is that of the documentation and sources of installed packages, which every machine has, or generated text,
which is the same everywhere.
"""

from __future__ import annotations

import random
import sysconfig
from collections import Counter
from itertools import islice
from pathlib import Path
from re import finditer
from typing import Annotated, Literal

from pydantic import Field

from gristmill_bench.apps.base import App
from gristmill_bench.engine import Engine
from gristmill_bench.errors import BenchError, WrongResult
from gristmill_bench.plugins import AbsolutePath

#: Words of a generated text; the word of rank ``r`` occurs in proportion to ``1 / r`` (Zipf's law).
_VOCABULARY = 5_000


def count_words(paths: list[str]) -> Counter[str]:
    """Counts the occurrences of each word in some files."""
    counts: Counter[str] = Counter()
    for path in paths:
        counts.update(Path(path).read_text(encoding="utf-8", errors="replace").split())
    return counts


def add_up(*counts: Counter[str]) -> Counter[str]:
    """Adds up all counts."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


class MapReduce(App):
    """Counts of all words in a folder of text."""

    #: Source of the text: ``"installed"``, for Python and the packages installed for it; ``"generated"``; or a folder.
    text: Literal["installed", "generated"] | AbsolutePath = "installed"
    #: Tasks that count.
    maps: Annotated[int, Field(ge=1)] = 32
    #: Largest number of files, or number of generated files, and words of each generated file.
    files: Annotated[int, Field(ge=1)] = 2_000
    words: Annotated[int, Field(ge=1)] = 10_000
    seed: int = 1

    def prepare(self, folder: Path) -> list[str]:
        """Returns the paths of the found or generated files."""
        return self._generate(folder) if self.text == "generated" else self._found()

    def run(self, engine: Engine, folder: Path) -> tuple[list[str], Counter[str]]:
        """Returns the paths of the files and the counts."""
        paths: list[str] = self.inputs(folder)
        shares = [paths[first :: self.maps] for first in range(min(self.maps, len(paths)))]
        counts = [engine.submit(count_words, share) for share in shares]
        return paths, engine.submit(add_up, *counts).result()

    def check(self, result: tuple[list[str], Counter[str]]) -> str:
        """Checks the counts against all files as one text, word by word."""
        paths, counts = result
        text = "\n".join(Path(path).read_text(encoding="utf-8", errors="replace") for path in paths)
        rest = dict(counts)
        for found in finditer(r"\S+", text):
            word = found.group()
            rest[word] = rest.get(word, 0) - 1
        wrong = [word for word, count in rest.items() if count]
        if wrong:
            off = rest[wrong[0]]
            raise WrongResult(
                f"{len(wrong)} words were counted wrong, such as {wrong[0]!r}: {abs(off)} too "
                f"{'many' if off > 0 else 'few'}"
            )
        return f"{counts.total()} words in {len(paths)} files, {len(counts)} different ones"

    def _found(self) -> list[str]:
        root = Path(sysconfig.get_path("stdlib")) if self.text == "installed" else Path(self.text)
        kinds = {".txt", ".md", ".rst", ".py"} if self.text == "installed" else None
        found = (one for one in sorted(root.rglob("*")) if kinds is None or one.suffix in kinds)
        paths = [str(one) for one in islice((one for one in found if one.is_file()), self.files)]
        if not paths:
            raise BenchError(f"app.text: there are no files of text in {root}")
        return paths

    def _generate(self, folder: Path) -> list[str]:
        source = random.Random(self.seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        vocabulary = [
            "".join(source.choices(letters, k=1 + rank % 9)) for rank in range(_VOCABULARY)
        ]
        weights = [1 / rank for rank in range(1, _VOCABULARY + 1)]
        paths = []
        for number in range(self.files):
            path = folder / f"text-{number:05}.txt"
            path.write_text(" ".join(source.choices(vocabulary, weights, k=self.words)))
            paths.append(str(path))
        return paths
