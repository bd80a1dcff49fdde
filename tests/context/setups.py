"""Setups of contexts, which leave a line in a file for each time they run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gristmill import Context, context_file, current_executor

import calls


class Log:
    """Lines that processes append to one file."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "log")

    def add(self, word: str) -> None:
        """Appends the word and this process."""
        with open(self._path, "a") as file:
            file.write(f"{word} {os.getpid()}\n")

    def note(self, text: str) -> None:
        """Appends a text."""
        with open(self._path + ".notes", "a") as file:
            file.write(text + "\n")

    def notes(self) -> list[str]:
        """The texts."""
        return Path(self._path + ".notes").read_text().split("\n")[:-1]

    def pids(self, word: str) -> list[int]:
        """The processes that have appended the word."""
        path = Path(self._path)
        lines = path.read_text().split("\n") if path.exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith(word + " ")]


def load(log: Log, size: int = 10) -> dict[str, Any]:
    """Leaves a list behind, and the process that it is from."""
    log.add("load")
    return {"model": list(range(size)), "maker": os.getpid()}


def open_and_close(log: Log) -> Iterator[dict[str, Any]]:
    """Has something to do at the end."""
    log.add("open")
    yield {"maker": os.getpid()}
    log.add("close")


def fill(size: int) -> dict[str, bytearray]:
    return {"filled": bytearray(range(256)) * (size // 256)}


def word(text: str) -> dict[str, str]:
    """Leaves a word behind."""
    return {"word": text}


def load_grain() -> dict[str, str]:
    """Leaves behind which version of a package it found."""
    import grain  # type: ignore[import-not-found]

    return {"version": grain.version}


#: Contexts that workers find when they import this module.
hello = Context(word, "hello")
goodbye = Context(word, "goodbye")


def greet(name: str) -> str:
    """Uses a context of this module."""
    return f"{hello['word']}, {name}"


def greet_in_turn(names: list[str]) -> list[str]:
    """Has tasks greet, in the context of this module."""
    return list(hello.map(greet, names))


def part(name: str) -> str:
    """Uses the other one."""
    return f"{goodbye['word']}, {name}"


def is_made_here(context: Context) -> bool:
    """Whether the context was set up in this process."""
    return bool(context["maker"] == os.getpid())


def read_thrice(context: Context, place: int) -> list[int]:
    """Has tasks read a place of the list, in the context that this one need not be in."""
    options = current_executor().options(context=context)
    children = [options.submit(lambda at: context["model"][at], place) for _ in range(3)]
    return [child.result() for child in children]


def see_gpus(log: Log) -> dict[str, str]:
    """Leaves behind, and notes, which GPUs a library would see."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
    log.note(seen)
    return {"gpus": seen}


def read_words() -> dict[str, str]:
    return {"text": Path(context_file("words.txt")).read_text()}


def no_weights() -> dict[str, Any]:
    raise ValueError("no weights")


def enter_with(path: str, context: Context) -> int:
    """Stands at a gate, in a context."""
    calls.enter(path)
    return int(context["maker"])
