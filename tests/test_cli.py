"""The command ``gristmill``: its end where the reader of its output is gone, and commands of other distributions."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from gristmill import _cli


def test_a_reader_that_leaves_ends_it_without_a_word() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        found = subprocess.run(
            [sys.executable, "-m", "gristmill._cli", "doctor"],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write)
    assert (found.returncode, found.stderr) == (141, "")


def provide(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    """Makes these the only entry points of all distributions."""

    def selected(group: str, name: str) -> list[EntryPoint]:
        return [point for point in points if (point.group, point.name) == (group, name)]

    monkeypatch.setattr("importlib.metadata.entry_points", selected)


@pytest.mark.parametrize(
    "words", [["bench"], ["bench", "run", "--app", "fib"], ["bench", "--help"]]
)
def test_without_its_distribution_the_bench_command_says_what_to_install(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    provide(monkeypatch)
    assert _cli.main(words) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        "gristmill bench: the command is not installed: pip install gristmill-bench\n",
    )


def test_a_distribution_provides_the_bench_command_by_an_entry_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provide(monkeypatch, EntryPoint("bench", "operator:length_hint", "gristmill.command"))
    assert _cli.main(["bench", "run", "--app.size", "3"]) == 3


def test_the_help_lists_commands_of_other_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _cli.main(["--help"])
    assert ended.value.code == 0
    assert "measure task engines" in capsys.readouterr().out
