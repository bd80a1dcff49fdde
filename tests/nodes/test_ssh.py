"""Agents behind a program that is called as ``ssh`` is, and runs everything on this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gristmill import Executor, StartError, on
from gristmill._nodes.pauses import Pauses
from gristmill._nodes.ssh import SshNodes

import calls
from stage import Gate, Script, descent, lives

#: Options end at the dashes; every host is this one.
_SHELL = """#!/bin/sh
echo "$@" >>{log}
while [ "$1" != -- ]; do shift; done
shift 2
exec sh -c "$*"
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts such a program in the place of ``ssh``; returns the file that it writes its arguments to."""
    log = tmp_path / "log"
    shell = tmp_path / "ssh"
    shell.write_text(_SHELL.format(log=log))
    shell.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return log


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes pauses short and few."""
    monkeypatch.setattr("gristmill._nodes.supervised_process.Pauses", lambda: Pauses(0.01, 0.01, 2))


@pytest.fixture
def nodes(log: Path) -> Iterator[tuple[Executor, SshNodes]]:
    placement = on.ssh(["one", "user@two"], workers=1)
    assert isinstance(placement, SshNodes)
    with Executor(nodes=placement) as executor:
        yield executor, placement


def test_hosts_become_nodes_by_their_names(nodes: tuple[Executor, SshNodes], gate: Gate) -> None:
    executor, _ = nodes
    held = [executor.submit(calls.enter, gate.path) for _ in range(2)]
    gate.wait_entered()
    gate.wait_entered()
    assert sorted(node.name for node in executor.nodes()) == ["one", "two"]
    gate.open(2)
    assert [future.result() for future in held] == [None, None]


def test_the_key_is_on_no_command_line(nodes: tuple[Executor, SshNodes], log: Path) -> None:
    executor, _ = nodes
    executor.submit(calls.nothing).result()
    assert "gristmill-node-" not in log.read_text()
    assert "BatchMode=yes" in log.read_text()


@pytest.mark.slow
def test_an_agent_that_is_killed_is_started_again(
    hasty: None, nodes: tuple[Executor, SshNodes], gate: Gate
) -> None:
    executor, placement = nodes
    submit = executor.options(loss_retries=1).submit
    held = [submit(calls.enter, gate.path) for _ in range(2)]
    gate.wait_entered()
    gate.wait_entered()
    assert placement.supervisor is not None
    os.kill(placement.supervisor.processes()["one"], signal.SIGKILL)
    gate.wait_entered()  # the lost task runs again; with one worker a node it can only run on a new agent
    gate.open(3)
    assert [future.result() for future in held] == [None, None]


def test_hosts_that_keep_failing_are_left_alone_and_tasks_say_why(hasty: None, log: Path) -> None:
    placement = on.ssh(["one", "two"], python="/there/is/no/python")
    with Executor(2, nodes=placement) as executor:
        futures = [executor.submit(calls.same, number) for number in range(10)]
        for future in futures:
            with pytest.raises(StartError, match="/there/is/no/python: not found"):
                future.result()
        with pytest.raises(StartError, match="one ended with exit status 127"):
            executor.submit(calls.nothing).result()
        assert {"one", "two"} <= {name for name, _ in executor._node_failures()}


#: A replacement for OpenSSH: it fails for a name that it cannot look up; other hosts are this one.
_SHELL_WITH_NAMES = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
if [ "$2" = mistyped ]; then
  echo "ssh: Could not resolve hostname mistyped: Name or service not known" >&2
  exit 255
fi
shift 2
exec sh -c "$*"
"""


@pytest.mark.parametrize("beside", [[], ["one"]])
def test_a_mistyped_host_is_named_and_left_alone(
    beside: list[str], log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (log.parent / "ssh").write_text(_SHELL_WITH_NAMES)
    # This test needs more than ten failures in a row.
    monkeypatch.setattr(
        "gristmill._nodes.supervised_process.Pauses", lambda: Pauses(0.01, 1000, 10**6)
    )
    with Executor(nodes=on.ssh([*beside, "mistyped"], workers=1)) as executor:
        future = executor.submit(calls.same, 1)
        if beside:
            assert future.result() == 1
        else:
            with pytest.raises(StartError, match="Could not resolve hostname mistyped"):
                future.result()
        while "mistyped is not started again, its host is unknown" not in caplog.text:
            time.sleep(0.001)


def test_shutdown_does_not_wait_for_a_host_that_never_came(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that processes have to leave is longer than the watchdog of the tests."""
    (log.parent / "ssh").write_text("#!/bin/sh\nexec sleep 100000\n")
    placement = on.ssh(["silent"])
    assert isinstance(placement, SshNodes)
    executor = Executor(nodes=placement)
    future = executor.submit(calls.nothing)
    assert placement.supervisor is not None
    leave_s = 100_000.0
    monkeypatch.setattr(placement, "end", lambda: placement.supervisor.end(leave_s))
    while not placement.supervisor.running():
        time.sleep(0.001)
    executor.shutdown(cancel_futures=True)
    assert future.cancelled()
    assert not placement.supervisor.running()


@pytest.mark.usefixtures("bare_home")
def test_commands_come_before_the_agent(log: Path) -> None:
    with Executor(nodes=on.ssh(["one"], worker_init="export ROASTED='coffee beans'")) as executor:
        assert executor.submit(os.getenv, "ROASTED").result() == "coffee beans"


def test_agents_end_with_the_client_that_is_killed(log: Path, script: Script, gate: Gate) -> None:
    program = """
        import sys
        import calls
        from gristmill import Executor, on
        executor = Executor(nodes=on.ssh(["one"], workers=1))
        executor.submit(calls.enter, sys.argv[1])
        sys.stdin.read()
    """
    client = script.start(program, gate.path)
    gate.wait_entered()
    below = descent(client.pid)
    client.kill()
    client.communicate()
    while any(lives(process) for process in below):
        pass


def test_nothing_is_left_after_shutdown(nodes: tuple[Executor, SshNodes]) -> None:
    executor, placement = nodes
    executor.submit(calls.nothing).result()
    assert placement.supervisor is not None
    agents = placement.supervisor.processes().values()
    below = [process for agent in agents for process in [agent, *descent(agent)]]
    executor.shutdown()
    assert not [process for process in below if lives(process)]


@pytest.mark.parametrize("hosts", [[], "one", ["-oProxyCommand=anything"]])
def test_what_are_no_hosts_is_refused(hosts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"hosts must be a list|must not begin"):
        on.ssh(hosts)
