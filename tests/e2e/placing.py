"""Starting ``placed.py`` on a cluster, and what it has to print."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from cluster import Cluster, Process
from placed import SHORT

PROGRAM = Path(__file__).with_name("placed.py")
_TESTS = Path(__file__).parents[1]


def command(*arguments: str) -> list[str]:
    """What runs the program."""
    return [sys.executable, str(PROGRAM), *arguments]


def surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program, which finds the tests' tasks with it."""
    return {**environment, "PYTHONPATH": str(_TESTS)}


def start(cluster: Cluster, environment: Mapping[str, str], folder: Path, *words: str) -> Process:
    """Starts a command at the login end of which the program is the last part."""
    return cluster.login.start(
        words, env=surroundings(environment), cwd=folder, stdout=subprocess.PIPE
    )


def finish(program: Process) -> list[str]:
    """Lets the program come to a good end; gives the hosts that held tasks have run on."""
    printed, _ = program.communicate()
    print(printed)
    assert program.wait() == 0
    # Engines say what they will in between.
    *_, total, hosts = printed.splitlines()
    assert int(total) == sum(range(SHORT))
    return hosts.split()
