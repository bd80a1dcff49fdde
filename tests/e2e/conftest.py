"""The cluster of a test, the reason where there can be none, and the proof that nothing is left of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster, go_apart, hindrance
from stage import Gate

_HERE = Path(__file__).parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leaves the host's network while this process has one thread, or says why that cannot be."""
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
    """Fails unless all links and mounts are gone in the end."""
    mounts = Path("/proc/self/mounts").read_text()
    yield
    links = json.loads(subprocess.check_output(["ip", "-json", "link"]))
    assert [link["ifname"] for link in links] == ["lo"]
    assert Path("/proc/self/mounts").read_text() == mounts


@pytest.fixture
def folder(cluster: Cluster) -> Path:
    """The folder that all nodes of the cluster see."""
    return cluster.shared


@pytest.fixture
def gate(folder: Path) -> Iterator[Gate]:
    """A gate whose pipes are in that folder."""
    made = Gate(folder)
    yield made
    made.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two nodes, for one test."""
    with Cluster(nodes=2) as made:
        yield made
