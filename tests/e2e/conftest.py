"""The cluster of a test, a skip where none can be made, and a check that the cluster leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster, go_apart, hindrance
from slurm import Slurm, slurm_hindrance
from stage import Gate

_HERE = Path(__file__).parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leaves the host's network while this process has one thread, or skips the tests with the reason."""
    items = [item for item in session.items if item.path.is_relative_to(_HERE)]
    if not items or session.config.option.collectonly:
        return
    if reason := hindrance():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"no cluster can be made here: {reason}"))
    else:
        go_apart()


@pytest.fixture(autouse=True, scope="session")
def _no_leftovers() -> Iterator[None]:
    """Fails unless all links and mounts are gone at the end."""
    mounts = Path("/proc/self/mounts").read_text()
    yield
    links = json.loads(subprocess.check_output(["ip", "-json", "link"]))
    assert [link["ifname"] for link in links] == ["lo"]
    assert Path("/proc/self/mounts").read_text() == mounts


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> Path:
    """Returns a folder that all nodes see: the shared folder of the test's cluster. A cluster with Slurm serves several
    tests, so each test has a folder of its own there.
    """
    if "slurm" not in request.fixturenames:
        shared: Path = request.getfixturevalue("cluster").shared
        return shared
    made: Path = request.getfixturevalue("nodes").shared / request.node.name
    made.mkdir()
    return made


@pytest.fixture
def gate(folder: Path) -> Iterator[Gate]:
    """Yields a gate whose pipes are in that folder."""
    made = Gate(folder)
    yield made
    made.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Yields a cluster of two nodes, for one test."""
    with Cluster(nodes=2) as made:
        yield made


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    """Yields a cluster of four nodes for Slurm, for the tests of a module."""
    if reason := slurm_hindrance():
        pytest.skip(reason)
    with Cluster(nodes=4) as made:
        yield made


@pytest.fixture(scope="module")
def slurm(nodes: Cluster) -> Iterator[Slurm]:
    """Yields a Slurm on those nodes."""
    with Slurm(nodes) as made:
        yield made
