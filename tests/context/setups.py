"""Setups of contexts that append a line to a file each time they run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gristmill import Context, context_file, current_executor

import calls


class Log:
    """A file that processes append lines to."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "log")

    def add(self, word: str) -> None:
        """Appends the word and the id of this process."""
        with open(self._path, "a") as file:
            file.write(f"{word} {os.getpid()}\n")

    def note(self, text: str) -> None:
        """Appends a text."""
        with open(self._path + ".notes", "a") as file:
            file.write(text + "\n")

    def notes(self) -> list[str]:
        """Returns the texts."""
        return Path(self._path + ".notes").read_text().split("\n")[:-1]

    def pids(self, word: str) -> list[int]:
        """Returns the processes that have appended the word."""
        path = Path(self._path)
        lines = path.read_text().split("\n") if path.exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith(word + " ")]


def load(log: Log, size: int = 10) -> dict[str, Any]:
    """Provides a list and the id of the process that made it."""
    log.add("load")
    return {"model": list(range(size)), "maker": os.getpid()}


def open_and_close(log: Log) -> Iterator[dict[str, Any]]:
    """Provides a context, and appends a line when the context is closed."""
    log.add("open")
    yield {"maker": os.getpid()}
    log.add("close")


def fill(size: int) -> dict[str, bytearray]:
    return {"filled": bytearray(range(256)) * (size // 256)}


def word(text: str) -> dict[str, str]:
    """Provides a word."""
    return {"word": text}


def load_grain() -> dict[str, str]:
    """Provides the version of a package that it found."""
    import grain  # type: ignore[import-not-found]

    return {"version": grain.version}


#: Contexts that workers find when they import this module.
hello = Context(word, "hello")
goodbye = Context(word, "goodbye")


def greet(name: str) -> str:
    """Uses a context of this module."""
    return f"{hello['word']}, {name}"


def greet_in_turn(names: list[str]) -> list[str]:
    """Maps ``greet`` over the names in the context of this module."""
    return list(hello.map(greet, names))


def part(name: str) -> str:
    """Uses the other context of this module."""
    return f"{goodbye['word']}, {name}"


def is_made_here(context: Context) -> bool:
    """Returns whether the context was set up in this process."""
    return bool(context["maker"] == os.getpid())


def read_thrice(context: Context, place: int) -> list[int]:
    """Submits three tasks that read one index of the list in the context. This task may be outside the context."""
    options = current_executor().options(context=context)
    children = [options.submit(lambda at: context["model"][at], place) for _ in range(3)]
    return [child.result() for child in children]


def see_gpus(log: Log) -> dict[str, str]:
    """Provides, and notes, the GPUs that a library would see."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
    log.note(seen)
    return {"gpus": seen}


def read_words() -> dict[str, str]:
    return {"text": Path(context_file("words.txt")).read_text()}


def no_weights() -> dict[str, Any]:
    raise ValueError("no weights")


def enter_with(path: str, context: Context) -> int:
    """Waits at a gate, in a context."""
    calls.enter(path)
    return int(context["maker"])
