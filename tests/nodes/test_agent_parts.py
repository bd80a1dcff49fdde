"""The parts of an agent: its share of a node, cores, keys, pauses, and the search for its client."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from gristmill._nodes import affinity, key_input
from gristmill._nodes.command import AgentCommand
from gristmill._nodes.pauses import Pauses
from gristmill._nodes.probe import find_reachable
from gristmill._nodes.share import fitting
from gristmill._nodes.supervised_process import SupervisedProcess
from gristmill._nodes.supervisor import Supervisor

from staged import WATCHDOG_S


@pytest.mark.parametrize(
    ("policy", "sets"),
    [
        ("none", None),
        ("block", [[0, 1], [2, 3]]),
        ("block-reverse", [[2, 3], [0, 1]]),
        ("alternating", [[0, 2], [1, 3]]),
        ("list:0:1,3", [[0], [1, 3]]),
    ],
)
def test_workers_are_bound_to_cores(policy: str, sets: list[list[int]] | None) -> None:
    assert affinity.core_sets(policy, [0, 1, 2, 3], 2) == sets


@pytest.mark.parametrize("policy", ["block", "block-reverse", "alternating"])
def test_more_workers_than_cores_share_them(policy: str) -> None:
    sets = affinity.core_sets(policy, [4, 5], 3)
    assert sets is not None
    assert len(sets) == 3
    assert {core for one in sets for core in one} == {4, 5}
    assert all(sets)


def test_workers_are_bound_to_the_parts_of_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(affinity, "FOLDER", str(tmp_path))
    for number, cores in enumerate(("0-1,8-9", "2-3", "")):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "cpulist").write_text(cores + "\n")
    assert affinity.numa_parts([0, 1, 2, 9]) == [[0, 1, 9], [2]]
    monkeypatch.setattr(affinity, "FOLDER", str(tmp_path / "nothing"))
    assert affinity.numa_parts([0, 1]) == [[0, 1]]


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("blocks", "is none of"),
        ("list:a", "not a list of cores"),
        ("list:9", r"this process may not use cores \[9\]"),
    ],
)
def test_cores_that_cannot_be_are_refused(policy: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        affinity.core_sets(policy, [0, 1], 1)


def test_as_many_workers_fit_as_cores_and_memory_allow() -> None:
    assert fitting(8, 16e9, 1.0, None) == 8
    assert fitting(8, 16e9, 2.0, None) == 4
    assert fitting(8, 16e9, 0.5, 4.0) == 4
    assert fitting(1, 1e9, 4.0, 4.0) == 1, "one at least"
    with pytest.raises(ValueError, match="needs a part of a core"):
        fitting(8, 16e9, 0.0, None)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "key")
    key_input.write_key(path, "secret")
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert key_input.read_key(path) == "secret"
    os.chmod(path, 0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        key_input.read_key(path)
    with pytest.raises(ValueError, match="cannot be read"):
        key_input.read_key(f"{path}s")


def test_a_key_in_the_environment_does_not_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_NODE_KEY", "secret")
    assert key_input.read_key(None) == "secret"
    with pytest.raises(ValueError, match="--key FILE"):
        key_input.read_key(None)


def test_pauses_double_until_there_were_too_many() -> None:
    pauses = Pauses(first_s=1.0, longest_s=5.0, failures_max=6, calm_s=60.0)
    assert [pauses.after(0.1) for _ in range(6)] == [1.0, 2.0, 4.0, 5.0, 5.0, None]


def test_what_ran_for_long_begins_anew() -> None:
    pauses = Pauses(first_s=1.0, longest_s=60.0, failures_max=3, calm_s=60.0)
    assert [pauses.after(seconds) for seconds in (1, 1, 61, 1, 1)] == [1.0, 2.0, 1.0, 2.0, None]


def test_who_says_that_it_failed_is_believed_however_long_it_looked() -> None:
    pauses = Pauses(first_s=1.0, longest_s=60.0, failures_max=3, calm_s=60.0, proof_s=600.0)
    waits = [pauses.after(121.0, says_failed=True) for _ in range(3)]
    assert waits == [1.0, 2.0, None]
    pauses.failures = 2
    assert pauses.after(601.0, says_failed=True) == 1.0, "it worked before it lost its client"


def test_what_looks_in_vain_for_minutes_is_tried_no_longer_than_what_fails_at_once() -> None:
    pauses = Pauses()
    assert [pauses.after(121.0, says_failed=True) for _ in range(3)] == [1.0, 2.0, None]
    pauses = Pauses()
    waits = [pauses.after(seconds, says_failed=True) for seconds in (601, 121, 121, 121)]
    assert waits == [1.0, 2.0, 4.0, None], "what has worked is tried once more"
    pauses = Pauses()
    assert len(list(iter(lambda: pauses.after(1.0), None))) == 9


def test_the_address_that_answers_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # no process listens: connections are refused
        closed = f"127.0.0.1:{silent.getsockname()[1]}"
        there = f"127.0.0.1:{listener.getsockname()[1]}"
        assert find_reachable([closed, "no-such-host.invalid:1", there], 10.0) == there


class Running(SupervisedProcess):
    """A process that runs and whose node has not joined."""

    def __init__(self, number: int) -> None:
        super().__init__(f"n{number}", ["true"])
        self.process = types.SimpleNamespace(  # type: ignore[assignment]
            terminate=lambda: None, kill=lambda: None, stdin=None
        )


def test_nodes_are_listed_once_for_all_processes() -> None:
    looks: list[str] = []

    def listed(what: str) -> set[str]:
        looks.append(what)
        return {"n7"}

    supervisor = Supervisor(
        [Running(number) for number in range(1000)],
        leaving=lambda: listed("leaving"),
        connected=lambda: listed("connected"),
        start_limit_s=1e9,
    )
    assert len(supervisor.failures()) == 999
    supervisor._check_starts()
    supervisor._check_starts()
    supervisor.begin_end()
    assert not supervisor._is_done()
    assert looks == ["connected", "connected", "leaving"]
    for opened in (supervisor._selector, supervisor._waker, supervisor._bell):
        opened.close()


def test_a_command_names_what_was_given_and_nothing_else() -> None:
    words = AgentCommand(["a:1", "b:1"], key="-", python="python", is_leashed=True).arguments()
    assert words[:6] == ["python", "-P", "-m", "gristmill._cli", "node", "--quiet"]
    assert words[6:] == ["--join", "a:1", "--join", "b:1", "--key", "-", "--name", "%h", "--leash"]


def agent(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs an agent to its end."""
    command = [sys.executable, "-m", "gristmill._cli", "node", *options]
    surroundings = {**os.environ, **environment}
    return subprocess.run(
        command, env=surroundings, capture_output=True, text=True, input="secret\n"
    )


@pytest.fixture(scope="module")
def key() -> str:
    from gristmill import _native

    return _native.Fleet().node_key()


def test_an_agent_leaves_before_its_time_is_over(key: str) -> None:
    options = ["--join", "127.0.0.1:9", "--walltime"]
    assert agent(*options, "20", GRISTMILL_NODE_KEY=key).returncode == 0
    ends_at = str(int(time.time()) + 15)
    done = agent(*options, "3600", GRISTMILL_NODE_KEY=key, SLURM_JOB_END_TIME=ends_at)
    assert done.returncode == 0, "what the batch system says counts"
    done = agent(*options[:2], GRISTMILL_NODE_KEY=key, SLURM_JOB_END_TIME=ends_at)
    assert done.returncode == 0, "also if no other party sends anything"


def test_an_agent_that_hangs_on_its_input_ends_with_it(key: str) -> None:
    assert agent("--join", "127.0.0.1:9", "--leash", GRISTMILL_NODE_KEY=key).returncode == 0


def test_an_agent_says_that_no_client_answers(key: str) -> None:
    join = ["--join", "127.0.0.1:9", "--join", "127.0.0.1:10", "--name", "%h.rank-%r"]
    done = agent(*join, "--patience", "0", GRISTMILL_NODE_KEY=key, PMI_RANK="7")
    assert done.returncode == 1
    refused = "127.0.0.1:9: Connection refused; 127.0.0.1:10: Connection refused"
    assert f"rank-7: gave up: no client answers: {refused}" in done.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--join", "a:1", "--key", "-"], "does not begin with gristmill-node-"),
        (["--join", "a:1", "--workers", "0"], "at least one worker"),
        (["--join", "a:1", "--walltime=-1"], "--walltime: '-1' is not a number of seconds"),
        (["--join", "a:1", "--part", "2/2"], "not a part of a node"),
        (["--join", "a:1", "--cpu-affinity", "nowhere"], "is none of none, numa, block"),
        (["--join", "a:1", "--label", "fast"], "the label 'fast' is not NAME=VALUE on one line"),
        (["--join", "a:1", "--group", "a\nb"], "is not NAME=VALUE on one line"),
        ([], "name a client with --join"),
    ],
)
def test_an_agent_says_what_it_cannot_be(key: str, options: list[str], why: str) -> None:
    done = agent(*options, GRISTMILL_NODE_KEY=key)
    assert done.returncode == 2
    assert why in done.stderr


class Asking(logging.Handler):
    """A log handler that asks the supervisor for its failures and processes while it handles a record."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__()
        self._supervisor = supervisor
        self.heard = threading.Event()
        self.failures: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.failures += self._supervisor.failures()
        assert not self._supervisor.processes()
        self.heard.set()


def test_a_handler_of_the_log_may_ask_what_keeps_an_agent_from_running(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Supervisor([SupervisedProcess("agent", [str(tmp_path / "missing")])])
    asking, log = Asking(supervisor), logging.getLogger("gristmill.nodes")
    # A logger remembers which levels it is enabled for: `log.level = ...` would not clear that, `set_level` does.
    caplog.set_level(logging.INFO, log.name)
    log.addHandler(asking)
    try:
        supervisor.start()
        assert asking.heard.wait(WATCHDOG_S), "the thread that looks after agents waits for itself"
        supervisor.end()
    finally:
        log.removeHandler(asking)
    assert "missing" in dict(asking.failures)["agent"]
