"""Starting ``placed.py`` on a cluster, what it has to print, and killing what runs for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from cluster import Cluster, Node, Process, until
from placed import SHORT

PROGRAM = Path(__file__).with_name("placed.py")
_TESTS = Path(__file__).parents[1]
#: Options come before the dashes, as ``ssh`` takes them.
_SHELL = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec {shell} "$@"
"""


def command(*arguments: str) -> list[str]:
    """What runs the program."""
    return [sys.executable, str(PROGRAM), *arguments]


def surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program, which finds the tests' tasks with it, and the same Gristmill as the tests."""
    paths = [str(_TESTS), os.environ.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def write_shell(cluster: Cluster) -> str:
    """Writes a program that is called as ``ssh`` is; gives its path."""
    path: Path = cluster.shared / "ssh"
    path.write_text(_SHELL.format(shell=cluster.shell))
    path.chmod(0o755)
    return str(path)


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
    said = dict(line.partition(" ")[::2] for line in printed.splitlines())
    assert int(said["sum"]) == sum(range(SHORT))
    return said["on"].split()


def agent_on(node: Node) -> int:
    """The process id, on the host, of the agent on a node."""
    lines = {one: Path(f"/proc/{one}/cmdline").read_text() for one in node.processes()}
    (agent,) = [one for one, line in lines.items() if "gristmill._cli" in line]
    return agent


def kill(node: Node, process: int) -> None:
    """Kills a process on a node, whose id is the one on the host; what it had started ends before this returns."""
    started = descent(process, node.processes())
    node.run(["kill", "-KILL", of_process(process, "NSpid")])
    until(lambda: not started.intersection(node.processes()))


def descent(first: int, processes: Iterable[int]) -> set[int]:
    """A process, and those of others that it or one of these has started."""
    parents = {one: parent(one) for one in processes}
    found = {first}
    while more := {one for one, by in parents.items() if by in found} - found:
        found |= more
    return found


def parent(process: int) -> int:
    """Who has started a process."""
    return int(of_process(process, "PPid"))


def of_process(process: int, field: str) -> str:
    """The last word of what the kernel says of a process: of several ids that in the innermost namespace."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{field}:")).split()[-1]
