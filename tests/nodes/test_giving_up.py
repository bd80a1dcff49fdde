"""Placements whose agents find no client: agents are started again, then abandoned, and the tasks' errors say why."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor, StartError, on
from gristmill._nodes.local import LocalNodes
from gristmill._nodes.pauses import Pauses
from gristmill._nodes.placement import Placement

import calls
from stage import Gate, Script

#: A replacement for the interpreter: an agent that has searched for its client for two minutes.
_LOST = "#!/bin/sh\necho gave up: no client answers >&2\nexit 1\n"
#: Replacements for the interpreter: agents that were refused for good, the second because of its options. They note
#: each start.
_REFUSED = """#!/bin/sh
echo started >>"$0.log"
echo gave up: install the same version of gristmill on both >&2
exit 77
"""
_MISUSED = """#!/bin/sh
echo started >>"$0.log"
echo "usage: gristmill node [-h] [--join HOST:PORT]" >&2
echo "gristmill node: error: a node needs at least one worker" >&2
exit 2
"""
#: Replacements for ``ssh`` and for ``mpiexec -n 1``: each runs the command behind the options on this machine.
_SHELL = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift 2\nexec sh -c "$*"\n'
_LAUNCHER = '#!/bin/sh\n[ "$1" = --version ] && exit\nshift 2\nexec "$@"\n'


@pytest.fixture(autouse=True)
def _calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every lifetime of an agent count as long; makes pauses short and few."""
    monkeypatch.setattr(
        "gristmill._nodes.supervised_process.Pauses", lambda: Pauses(0.01, 0.01, 3, calm_s=0.0)
    )


@pytest.fixture
def lost(tmp_path: Path) -> str:
    return executable(tmp_path / "lost", _LOST)


def executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def local(folder: Path, lost: str) -> Placement:
    placement = LocalNodes(2, 1)
    placement.python = lost
    return placement


def ssh(folder: Path, lost: str) -> Placement:
    return on.ssh(["one", "two"], python=lost, shell=[executable(folder / "ssh", _SHELL)])


def mpi(folder: Path, lost: str) -> Placement:
    launcher = executable(folder / "mpiexec", _LAUNCHER)
    return on.mpi(launcher=[launcher, "-n", "1"], python=lost)


@pytest.mark.parametrize("make", [local, ssh, mpi])
def test_tasks_fail_with_the_last_words_of_agents_that_find_no_client(
    make: Callable[[Path, str], Placement], tmp_path: Path, lost: str
) -> None:
    executor = Executor(nodes=make(tmp_path, lost))
    futures = [executor.submit(calls.same, number) for number in range(3)]
    for future in futures:
        with pytest.raises(
            StartError, match="ended with exit status 1: gave up: no client answers"
        ):
            future.result()
    executor.shutdown()


@pytest.mark.parametrize(("make", "count"), [(local, 2), (ssh, 2), (mpi, 1)])
@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (_REFUSED, "exit status 77: gave up: install the same version of gristmill on both"),
        (_MISUSED, "exit status 2: a node needs at least one worker"),
    ],
)
def test_agents_that_are_refused_for_good_are_not_started_again(
    make: Callable[[Path, str], Placement], count: int, agent: str, words: str, tmp_path: Path
) -> None:
    refused = tmp_path / "refused"
    executable(refused, agent)
    with (
        Executor(nodes=make(tmp_path, str(refused))) as executor,
        pytest.raises(StartError, match=words),
    ):
        executor.submit(calls.nothing).result()
    assert len(Path(f"{refused}.log").read_text().split()) == count


def test_an_agent_whose_options_make_no_sense_on_its_node_says_so_in_one_sentence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        Executor(nodes=on.local(1, cpu_affinity="list:9999")) as executor,
        pytest.raises(StartError, match=r"exit status 2: this process may not use cores \[9999\]"),
    ):
        executor.submit(calls.nothing).result()
    said = [one.getMessage() for one in caplog.records if one.name == "gristmill.nodes"]
    assert any(
        "local0 is not started again, its command line was refused: ended" in one for one in said
    )


def test_an_agent_on_this_machine_that_is_killed_is_started_again(gate: Gate) -> None:
    placement = LocalNodes(1, 1)
    with Executor(nodes=placement) as executor:
        held = executor.options(loss_retries=1).submit(calls.enter, gate.path)
        first = gate.wait_entered()
        placement.agents[0].kill()
        assert gate.wait_entered() != first
        gate.open(2)
        assert held.result() is None


def test_a_program_that_waits_for_nothing_ends_when_its_placement_has_given_up(
    script: Script, lost: str
) -> None:
    program = """
        import sys
        from gristmill import Executor, on
        from gristmill._nodes import supervised_process
        from gristmill._nodes.pauses import Pauses
        supervised_process.Pauses = lambda: Pauses(0.01, 0.01, 3, calm_s=0.0)
        placement = on.local(1)
        placement.python = sys.argv[1]
        executor = Executor(nodes=placement)
        executor.submit(int)
        print("the end")
    """
    assert script.run(program, lost) == "the end\n"


class _Interruption(Exception):
    """The exception of a signal handler."""


def test_a_handler_that_raises_while_nodes_are_placed_costs_no_later_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    placement = on.local(1)
    start, main = placement.start, threading.main_thread().ident
    assert main is not None

    def interrupted(*terms: Any) -> None:
        signal.pthread_kill(main, signal.SIGUSR1)
        start(*terms)

    def handler(_number: int, _frame: object) -> None:
        raise _Interruption

    monkeypatch.setattr(placement, "start", interrupted)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with Executor(nodes=placement) as executor:
            with pytest.raises(_Interruption):
                executor.submit(abs, -1)
            assert executor.submit(abs, -2).result() == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
