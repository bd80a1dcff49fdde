"""Waits for clusters, hosts and commands that do not answer: each has a limit, and ``explain`` names it."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import types
from typing import Any

import pytest

from gristmill import Executor, StartError, on
from gristmill._nodes import cluster_trouble, dask, outside_calls, ray, supervisor
from gristmill._nodes.command import IN_VAIN
from gristmill._nodes.dask import DaskNodes
from gristmill._nodes.outside_calls import CallLimit
from gristmill._nodes.pauses import Pauses
from gristmill._nodes.ray import RayNodes

import calls


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes pauses short, and reports waits at once."""
    monkeypatch.setattr(cluster_trouble, "Pauses", lambda: Pauses(0.01, 0.01, 5))
    monkeypatch.setattr("gristmill._nodes.supervised_process.Pauses", lambda: Pauses(0.01, 0.01, 2))
    monkeypatch.setattr(outside_calls, "_REPORTED_S", 0.0)
    monkeypatch.setattr(supervisor, "_REPORTED_S", 0.0)
    monkeypatch.setattr(dask, "_LOOK_S", 0.01)
    monkeypatch.setattr(ray, "_LOOK_S", 0.01)


def _limit(
    monkeypatch: pytest.MonkeyPatch, module: Any, usual_s: float, only: str | None = None
) -> None:
    """Replaces the limits of all calls; the usual one of a single call if its name is given."""
    limits = {
        name: CallLimit(usual_s if only in (None, name) else one.usual_s, 0.01, one.is_last)
        for name, one in module._LIMITS.items()
    }
    monkeypatch.setattr(module, "_LIMITS", limits)


def test_a_call_is_made_where_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    outside = outside_calls.OutsideCalls("the provider", {"cancel": CallLimit(1.0, 1.0)})
    assert [outside.call("cancel", abs, -number) for number in (1, 2)] == [1, 2]


def test_a_call_has_its_time_again_while_it_makes_progress() -> None:
    goes_on = threading.Event()
    steps: list[int] = []

    def progress() -> int:
        steps.append(len(steps))
        if len(steps) > 3:
            goes_on.set()
        return len(steps)

    outside = outside_calls.OutsideCalls("the client", {"register": CallLimit(0.001, 0.001)})
    assert outside.call("register", goes_on.wait, progress=progress)
    goes_on.clear()
    with pytest.raises(TimeoutError, match=r"register\(\) of the client has not returned"):
        outside.call("register", goes_on.wait, progress=lambda: 1)
    goes_on.set()


def test_a_cluster_that_hangs_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    trouble = cluster_trouble.ClusterTrouble("the Ray cluster", 1.0)
    for seconds in (60, 130, 1000):
        error = TimeoutError(f"nodes() of Ray has not returned for {seconds} s")
        assert trouble.note(error, 60.0, has_node=True) == 1.0
    assert len(caplog.records) == 1
    assert "for 1000 s" in trouble.text
    trouble.clear()
    trouble.note(TimeoutError("nodes() of Ray has not returned for 60 s"), 60.0, has_node=True)
    assert len(caplog.records) == 2, "it had answered"
    for status in (1, 1, 137):
        trouble.note(OSError(f"exit status {status} after 0.5 s"), 60.0, has_node=True)
    assert len(caplog.records) == 4, "another number is another trouble, unless it is a time"


class DaskClient:
    """A client of a Dask cluster whose scheduler raises, or does not answer until the test ends."""

    status = "running"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.is_over = threading.Event()

    def register_plugin(self, plugin: object, name: str) -> None: ...

    def unregister_worker_plugin(self, name: str) -> None:
        self.nthreads()

    def nthreads(self) -> dict[str, int]:
        if self.error is None:
            self.is_over.wait()
            return {}
        raise self.error


@pytest.fixture
def distributed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Provides the part of Dask that the plugin needs."""
    monkeypatch.setitem(sys.modules, "distributed", types.SimpleNamespace(WorkerPlugin=object))


def test_tasks_fail_when_a_dask_cluster_is_gone(distributed: None) -> None:
    client = DaskClient(OSError("the scheduler is gone"))
    with (
        Executor(nodes=DaskNodes(client, 1)) as executor,
        pytest.raises(StartError, match="the Dask cluster: its state cannot be read: the sched"),
    ):
        executor.submit(calls.nothing).result()


def test_tasks_fail_when_the_dask_client_is_closed(distributed: None) -> None:
    client = DaskClient()
    client.status = "closed"
    client.is_over.set()
    with (
        Executor(nodes=DaskNodes(client, 1)) as executor,
        pytest.raises(StartError, match="the Dask client is closed"),
    ):
        executor.submit(calls.nothing).result()


def test_tasks_fail_when_a_dask_cluster_does_not_answer(
    distributed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _limit(monkeypatch, dask, usual_s=0.01, only="nthreads")
    client = DaskClient()
    said = r"nthreads\(\) of the Dask client has not returned for"
    with Executor(nodes=DaskNodes(client, 1)) as executor:
        with pytest.raises(StartError, match=said):
            executor.submit(calls.nothing).result()
        executor.shutdown()
    client.is_over.set()


def test_the_end_does_not_wait_for_a_dask_cluster_and_explain_names_the_wait(
    distributed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _limit(monkeypatch, dask, usual_s=10_000.0)
    monkeypatch.setattr(dask, "_LAST_LOOK_S", 0.01)
    client = DaskClient()
    executor = Executor(nodes=DaskNodes(client, 1))
    future = executor.submit(calls.nothing)
    said = "the Dask cluster: nthreads() of the Dask client has not returned for"
    while said not in executor.explain(future):
        assert not future.done()
    executor.shutdown(cancel_futures=True)
    client.is_over.set()


def test_workers_of_dask_may_take_long_to_start_agents_while_nodes_join(
    distributed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _limit(monkeypatch, dask, usual_s=0.001, only="register_plugin")
    client = DaskClient()
    joined: list[None] = []
    is_done = threading.Event()

    def nodes(_: object) -> list[None]:
        joined.append(None)
        if len(joined) > 3:
            is_done.set()
        return list(joined)

    monkeypatch.setattr("gristmill._nodes.view.ClientView.nodes", nodes)
    monkeypatch.setattr(client, "register_plugin", lambda plugin, name: is_done.wait())
    monkeypatch.setattr(dask.DaskNodes, "_run", lambda *_: None)
    client.is_over.set()
    executor = Executor(nodes=DaskNodes(client, 1))
    future = executor.submit(calls.nothing)
    assert is_done.is_set()
    assert not future.done()
    monkeypatch.undo()
    executor.shutdown(cancel_futures=True)


def test_explain_tells_of_a_dask_cluster_without_workers(distributed: None) -> None:
    client = DaskClient()
    client.is_over.set()
    executor = Executor(nodes=DaskNodes(client, 1))
    future = executor.submit(calls.nothing)
    while "the Dask cluster: it has no workers" not in executor.explain(future):
        assert not future.done()
    executor.shutdown(cancel_futures=True)


class Ray:
    """A cluster of Ray whose head raises, or does not answer until the test ends."""

    exceptions = types.SimpleNamespace(ActorUnavailableError=KeyError)

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.is_over = threading.Event()

    def nodes(self) -> list[dict[str, Any]]:
        if self.error is None:
            self.is_over.wait()
            return []
        raise self.error


@pytest.mark.parametrize("error", [OSError("the head is gone"), None])
def test_tasks_fail_when_a_ray_cluster_is_gone(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _limit(monkeypatch, ray, usual_s=0.01)
    cluster = Ray(error)
    said = r"the Ray cluster: .*(the head is gone|nodes\(\) of Ray has not returned)"
    placement = RayNodes(cluster, False, None, None, None, {})
    with Executor(nodes=placement) as executor, pytest.raises(StartError, match=said):
        executor.submit(calls.nothing).result()
    cluster.is_over.set()


@pytest.mark.usefixtures("bare_home")
def test_commands_before_an_agent_do_not_take_its_key(shell: list[str]) -> None:
    placement = on.ssh(["one"], workers=1, shell=shell, worker_init="cat; cat >/dev/null")
    with Executor(nodes=placement) as executor:
        assert executor.submit(calls.same, 1).result() == 1


@pytest.mark.usefixtures("bare_home")
def test_explain_names_a_host_whose_agent_has_not_joined_and_it_is_given_up(
    shell: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = "echo waiting for a licence >&2; exec sleep 100000"
    placement = on.ssh(["one"], workers=1, shell=shell, worker_init=stuck)
    with Executor(nodes=placement) as executor:
        future = executor.submit(calls.nothing)
        said = r"one: started \d+ s ago, and its node has not joined yet"
        while not re.search(said, executor.explain(future)):
            assert not future.done()
        placement.supervisor._start_limit_s = 0.05  # type: ignore[attr-defined]
        placement.supervisor._waker.send(b".")  # type: ignore[attr-defined]
        with pytest.raises(
            StartError, match=r"one was ended: its node had not joined after 0\.05 s"
        ):
            future.result()


def test_an_agent_whose_key_was_taken_gives_up() -> None:
    program = (
        "import sys; from gristmill._nodes import key_input; key_input._LINE_S = 0.01; "
        "sys.argv[1:] = ['node', '--join', '127.0.0.1:1', '--key', '-', '--name', 'n1']; "
        "from gristmill._cli import main; sys.exit(main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stderr is not None
        said = started.stderr.read()
        assert started.wait() == IN_VAIN
    assert "gristmill node n1: gave up: no key has come on standard input within 0.01 s" in said
    assert "start-up file of the login shell" in said
