"""Helpers that start ``placed.py`` on a cluster, check its output, and kill its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from cluster import Cluster, Node, Process, until
from placed import SHORT
from stage import text_of

PROGRAM = Path(__file__).with_name("placed.py")
_TESTS = Path(__file__).parents[1]
#: Options come before the dashes, in the syntax of ``ssh``.
_SHELL = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec {shell} "$@"
"""


def command(*arguments: str) -> list[str]:
    """Returns the command that runs the program."""
    return [sys.executable, str(PROGRAM), *arguments]


def surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment in which the program finds the tests' tasks, and the same Gristmill as the tests."""
    paths = [str(_TESTS), os.environ.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def write_shell(cluster: Cluster) -> str:
    """Writes a program that is called as ``ssh`` is; returns its path."""
    path: Path = cluster.shared / "ssh"
    path.write_text(_SHELL.format(shell=cluster.shell))
    path.chmod(0o755)
    return str(path)


def start(cluster: Cluster, environment: Mapping[str, str], folder: Path, *words: str) -> Process:
    """Starts a command at the login end; its last part is the program."""
    return cluster.login.start(
        words, env=surroundings(environment), cwd=folder, stdout=subprocess.PIPE
    )


def finish(program: Process) -> list[str]:
    """Waits for the program's success; returns the hosts that the held tasks have run on."""
    printed, _ = program.communicate()
    print(printed)
    assert program.wait() == 0
    # Engines print lines of their own in between.
    said = dict(line.partition(" ")[::2] for line in printed.splitlines())
    assert int(said["sum"]) == sum(range(SHORT))
    return said["on"].split()


def agent_on(node: Node) -> int:
    """Returns the process id, on the host, of the agent on a node."""
    (agent,) = [one for one in node.processes() if "gristmill._cli" in text_of(one, "cmdline")]
    return agent


def kill(node: Node, process: int) -> None:
    """Kills a process on a node by its process id on the host. The processes that it had started have ended when this
    returns.
    """
    started = descent(process, node.processes())
    node.run(["kill", "-KILL", of_process(process, "NSpid")])
    until(lambda: not started.intersection(node.processes()))


def descent(first: int, processes: Iterable[int]) -> set[int]:
    """Returns a process and all its descendants among ``processes`` that have not ended."""
    statuses = {one: text_of(one, "status") for one in processes}
    parents = {one: int(_last_word(text, "PPid")) for one, text in statuses.items() if text}
    found = {first}
    while more := {one for one, by in parents.items() if by in found} - found:
        found |= more
    return found


def parent(process: int) -> int:
    """Returns the parent of a process."""
    return int(of_process(process, "PPid"))


def of_process(process: int, field: str) -> str:
    """Returns the last word of a status field of a process: of several ids the one in the innermost namespace."""
    return _last_word(Path(f"/proc/{process}/status").read_text(), field)


def _last_word(status: str, field: str) -> str:
    return next(line for line in status.splitlines() if line.startswith(f"{field}:")).split()[-1]
