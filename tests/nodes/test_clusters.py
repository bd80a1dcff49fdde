"""Agents in the clusters of other systems, which stand-ins play. The tests check which requests each system gets and
which losses are reported.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor, StartError
from gristmill._nodes.dask import DaskNodes
from gristmill._nodes.hosted import HostedAgent
from gristmill._nodes.network import Network
from gristmill._nodes.outside_calls import CallLimit
from gristmill._nodes.pauses import Pauses
from gristmill._nodes.ray import RayNodes

import calls
from stage import Gate


class Actor:
    """An actor in this process. It is made once Ray has room for it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make: Callable[[], Any] | None = make
        self.agent: Any = None
        self.error: Exception | None = None
        self.condition = types.SimpleNamespace(remote=lambda: self)

    def begin(self) -> None:
        make, self._make = self._make, None
        if make is not None:
            try:
                self.agent = make()
            except Exception as error:
                self.error = error


class Ray:
    """A stand-in for the parts of Ray that are used, with a settable number of nodes."""

    exceptions = types.SimpleNamespace(ActorUnavailableError=KeyError)

    def __init__(self, *names: str, fails: str = "") -> None:
        self.alive = list(names)
        self.fails = fails
        self.is_busy = False
        self.actors: dict[str, list[Actor]] = {}
        self.options: list[dict[str, Any]] = []
        affinity = lambda node, soft: node  # noqa: E731
        self.util = types.SimpleNamespace(
            scheduling_strategies=types.SimpleNamespace(NodeAffinitySchedulingStrategy=affinity)
        )

    def nodes(self) -> list[dict[str, Any]]:
        usable = [
            {
                "NodeID": f"id-{name}",
                "Alive": True,
                "NodeManagerHostname": name,
                "Resources": {"CPU": 1.0, "GPU": 2.0},
            }
            for name in self.alive
        ]
        head = {"NodeID": "head", "Alive": True, "NodeManagerHostname": "head", "Resources": {}}
        return [head, *usable]

    def remote(self, kind: type[HostedAgent]) -> Any:
        def options(**given: Any) -> Any:
            self.options.append(given)
            node = given["scheduling_strategy"]
            return types.SimpleNamespace(
                remote=lambda *arguments: self._make(node, kind, arguments)
            )

        return types.SimpleNamespace(options=options)

    def _make(self, node: str, kind: type[HostedAgent], arguments: tuple[Any, ...]) -> Actor:
        def make() -> HostedAgent:
            if self.fails:
                raise RuntimeError(self.fails)
            return kind(*arguments)

        actor = Actor(make)
        if not self.is_busy:
            actor.begin()
        self.actors.setdefault(node, []).append(actor)
        return actor

    def wait(self, answers: list[Actor], timeout: float) -> tuple[list[Actor], list[Actor]]:
        if self.is_busy:
            return [], answers
        for actor in answers:
            actor.begin()
        return answers, []

    def get(self, actor: Actor) -> Any:
        if actor.error is not None:
            raise actor.error
        assert actor.agent is not None, "it was ended"
        return actor.agent.condition()

    def kill(self, actor: Actor, no_restart: bool) -> None:
        assert no_restart
        if actor.agent is not None:
            actor.agent.stop()
        actor.agent = None


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill._nodes.ray._LOOK_S", 0.01)
    monkeypatch.setattr("gristmill._nodes.dask._LOOK_S", 0.01)
    monkeypatch.setattr("gristmill._nodes.ray.Pauses", lambda: Pauses(0.01, 0.01, 3))


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Lets agents find no client and end; they are abandoned soon. Returns the program that replaces the agents."""
    path = tmp_path / "lost"
    path.write_text("#!/bin/sh\necho gave up: no client answers >&2\nexit 1\n")
    path.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(path))
    monkeypatch.setattr(
        "gristmill._nodes.supervised_process.Pauses", lambda: Pauses(0.01, 0.01, 3, calm_s=0.0)
    )
    return str(path)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Lets agents be refused for good; returns the file that gets a line for each started agent."""
    path = tmp_path / "refused"
    path.write_text('#!/bin/sh\necho x >>"$0.log"\necho gave up: another key >&2\nexit 77\n')
    path.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(path))
    return tmp_path / "refused.log"


def on_ray(ray: Ray, nodes: int | None = None) -> RayNodes:
    return RayNodes(
        ray, False, nodes, None, None, {"resources": {"special": 1}}, Network(group=str.upper)
    )


def names(executor: Executor) -> list[str]:
    return sorted(node.name for node in executor.nodes() if node.connected)


def test_nodes_of_ray_come_and_go_with_the_cluster() -> None:
    ray = Ray("n1", "n2")
    with Executor(nodes=on_ray(ray)) as executor:
        assert executor.submit(calls.same, 1).result() == 1
        while names(executor) != ["n1", "n2"]:
            pass
        ray.alive.append("n3")
        while names(executor) != ["n1", "n2", "n3"]:
            pass
        ray.alive.remove("n1")
        while names(executor) != ["n2", "n3"]:
            pass
        assert executor.submit(calls.same, 2).result() == 2
        groups = {node.labels["group"] for node in executor.nodes() if node.connected}
        assert groups == {"N2", "N3"}
    first = ray.options[0]
    assert first["num_cpus"] == 1
    assert first["num_gpus"] == 2
    assert first["max_restarts"] == -1
    assert first["resources"] == {"special": 1}
    assert all(actor.agent is None for actors in ray.actors.values() for actor in actors)


def test_no_more_nodes_of_ray_are_used_than_were_asked_for() -> None:
    ray = Ray("n1", "n2", "n3")
    with Executor(nodes=on_ray(ray, 1)) as executor:
        executor.submit(calls.nothing).result()
    assert len(ray.actors) == 1


def test_an_actor_that_ray_gives_up_is_made_anew(gate: Gate) -> None:
    ray = Ray("n1")
    with Executor(nodes=on_ray(ray)) as executor:
        held = executor.options(loss_retries=1).submit(calls.enter, gate.path)
        gate.wait_entered()
        (actor,) = ray.actors["id-n1"]
        actor.error = RuntimeError("the actor died")
        assert actor.agent is not None
        actor.agent.stop()
        gate.wait_entered()
        gate.open(2)
        assert held.result() is None
        assert len(ray.actors["id-n1"]) == 2


def test_tasks_fail_when_no_actor_can_be_made() -> None:
    ray = Ray("n1", "n2", fails="there is no module gristmill")
    with (
        Executor(nodes=on_ray(ray)) as executor,
        pytest.raises(StartError, match="there is no module gristmill"),
    ):
        executor.submit(calls.nothing).result()


def test_a_poll_that_goes_on_after_the_end_makes_no_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"nodes": CallLimit(100.0, 0.01), "kill": CallLimit(100.0, 100.0, is_last=True)}
    monkeypatch.setattr("gristmill._nodes.ray._LIMITS", limits)
    ray = Ray("n1")
    nodes, hangs, goes_on = ray.nodes, threading.Event(), threading.Event()

    def hang() -> list[dict[str, Any]]:
        hangs.set()
        goes_on.wait()
        return nodes()

    monkeypatch.setattr(ray, "nodes", hang)
    executor = Executor(nodes=on_ray(ray))
    executor.submit(calls.nothing)
    hangs.wait()
    polls = [one for one in threading.enumerate() if one.name == "gristmill-ask"]
    executor.shutdown(cancel_futures=True)
    goes_on.set()
    for poll in polls:
        poll.join()
    assert not ray.actors


#: Workers of a Dask cluster as its scheduler describes them.
ON_TWO_HOSTS = {
    "tcp://n1:1": {"host": "n1", "name": 10},
    "tcp://n1:2": {"host": "n1", "name": 9},
    "tcp://n2:1": {"host": "n2", "name": 11},
}


def test_tasks_fail_when_no_agent_of_ray_finds_the_program(lost: str) -> None:
    ray = Ray("n1", "n2")
    with (
        Executor(nodes=on_ray(ray)) as executor,
        pytest.raises(StartError, match="n1: ended with exit status 1: gave up: no client answers"),
    ):
        executor.submit(calls.nothing).result()


def test_agents_of_ray_that_are_refused_for_good_are_not_started_again(refused: Path) -> None:
    ray = Ray("n1", "n2")
    with (
        Executor(nodes=on_ray(ray)) as executor,
        pytest.raises(StartError, match="n1: ended with exit status 77: gave up: another key"),
    ):
        executor.submit(calls.nothing).result()
    assert len(refused.read_text().split()) == 2
    assert [len(actors) for actors in ray.actors.values()] == [1, 1]


def test_an_actor_that_ray_does_not_start_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("gristmill._nodes.ray._PENDING_S", 0.0)
    ray = Ray("n1")
    ray.is_busy = True
    with Executor(nodes=on_ray(ray)) as executor:
        waiting = executor.submit(calls.same, 7)
        while not executor._node_failures():
            assert not waiting.done()
        (failure,) = executor._node_failures()
        assert failure[0] == "n1"
        assert "other programs use 1 CPUs and 2 GPUs of Ray" in failure[1]
        assert failure[1] in executor.explain(waiting)
        ray.is_busy = False
        assert waiting.result() == 7
    assert len([one for one in caplog.records if "has not started an agent" in one.message]) == 1


class DaskClient:
    """A stand-in for the parts of Dask's client that are used, with one of the workers that its scheduler describes."""

    def __init__(self, fails: str = "", cluster: Mapping[str, Any] = ON_TWO_HOSTS) -> None:
        self.fails = fails
        self.cluster = cluster
        #: The last replies of workers, by the name of the function.
        self.told: dict[str, Any] = {}
        self.plugins: dict[str, Any] = {}
        self.worker = types.SimpleNamespace(
            name="10",
            address="tcp://n1:1",
            state=types.SimpleNamespace(nthreads=2),
            scheduler=types.SimpleNamespace(identity=self.identity),
        )

    async def identity(self) -> dict[str, Any]:
        return {"workers": self.cluster}

    def register_plugin(self, plugin: Any, name: str) -> None:
        if self.fails:
            raise RuntimeError(self.fails)
        self.plugins[name] = plugin
        asyncio.run(plugin.setup(self.worker))

    def unregister_worker_plugin(self, name: str) -> None:
        self.plugins.pop(name).teardown(self.worker)

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(self.cluster, 2)

    def run(self, function: Callable[..., Any], *arguments: Any, on_error: str) -> dict[str, Any]:
        assert on_error == "return"
        self.worker.plugins = self.plugins
        answer = function(*arguments, dask_worker=self.worker)
        if inspect.iscoroutine(answer):
            answer = asyncio.run(answer)
        self.told[function.__name__] = answer
        return {"tcp://n1:1": answer}

    def part(self) -> str:
        """Returns the part of its host that the agent offers."""
        (plugin,) = self.plugins.values()
        (post,) = plugin._agent._supervisor._posts
        return str(post._command[post._command.index("--part") + 1])


def test_workers_of_dask_have_agents_while_they_are_needed() -> None:
    pytest.importorskip("distributed")
    client = DaskClient()
    with Executor(nodes=DaskNodes(client, None, Network(), cpu_affinity="block")) as executor:
        assert executor.submit(calls.same, 1).result() == 1
        assert names(executor) == ["dask-10"]
        (plugin,) = client.plugins.values()
        (post,) = plugin._agent._supervisor._posts
        told = ["--cpu-affinity", "block", "--part", "1/2", "--drain", "20", "--leash"]
        assert post._command[-7:] == told
        assert len(client.plugins) == 1
    assert not client.plugins


def test_an_agent_of_dask_offers_its_new_part_when_it_has_nothing_to_do(gate: Gate) -> None:
    pytest.importorskip("distributed")
    alone = {address: facts for address, facts in ON_TWO_HOSTS.items() if facts["name"] != 9}
    client = DaskClient(cluster=alone)
    with Executor(nodes=DaskNodes(client, 1, Network())) as executor:
        held = executor.submit(calls.enter, gate.path, "the same process")
        gate.wait_entered()
        assert client.part() == "0/1"
        client.told.clear()
        client.cluster = ON_TWO_HOSTS
        while client.told.get("fit_agent") is not False:
            pass
        assert client.part() == "0/1", "it runs a task"
        gate.open()
        assert held.result() == "the same process", "it was not lost"
        while client.part() != "1/2":
            pass
        assert executor.submit(calls.same, 1).result() == 1
        while client.told["fit_agent"] is not True:
            pass


def test_workers_of_dask_share_their_host() -> None:
    pytest.importorskip("distributed")
    plugins = importlib.import_module("gristmill._nodes.dask_plugin")
    parts = [plugins.part_of_worker(ON_TWO_HOSTS, address) for address in ON_TWO_HOSTS]
    assert list(map(str, parts)) == ["1/2", "0/2", "0/1"]


def test_tasks_fail_when_no_agent_of_dask_finds_the_program(lost: str) -> None:
    pytest.importorskip("distributed")
    with (
        Executor(nodes=DaskNodes(DaskClient(), None, Network())) as executor,
        pytest.raises(StartError, match="tcp://n1:1: ended with exit status 1: gave up"),
    ):
        executor.submit(calls.nothing).result()


def test_the_plugin_of_dask_goes_when_a_program_that_did_not_wait_is_done() -> None:
    pytest.importorskip("distributed")
    client = DaskClient()
    executor = Executor(nodes=DaskNodes(client, None, Network()))
    last = executor.submit(calls.same, 1)
    executor.shutdown(wait=False)
    assert last.result() == 1
    while client.plugins:
        pass


def test_tasks_fail_when_dask_refuses_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = types.SimpleNamespace(AgentPlugin=lambda *arguments: None)
    known = importlib.import_module
    monkeypatch.setattr(
        "gristmill._nodes.dask.importlib.import_module",
        lambda name: plugins if name.endswith("dask_plugin") else known(name),
    )
    client = DaskClient("there is no module gristmill")
    with (
        Executor(nodes=DaskNodes(client, None, Network())) as executor,
        pytest.raises(StartError, match="there is no module gristmill"),
    ):
        executor.submit(calls.nothing).result()


def test_what_is_no_client_of_dask_is_refused() -> None:
    from gristmill import on

    with pytest.raises(TypeError, match="not a Dask client"):
        on.dask(object())
