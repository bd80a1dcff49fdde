"""An environment, a node and a cache for tests of images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gristmill._images import build, probes
from gristmill._images.build import Image
from gristmill._images.node import Node
from gristmill._images.recipe import Recipe

from packing import make_environment


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a virtual environment that tests do not change."""
    return make_environment(tmp_path_factory.mktemp("environment") / "env")


@pytest.fixture(scope="session")
def tar(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Returns the image of the environment as a tar archive."""
    return build.build(Recipe(str(environment)), "tar", str(tmp_path_factory.mktemp("tar")))


@pytest.fixture(scope="session")
def squashfs(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Returns the image of the environment as a file system."""
    import shutil

    if shutil.which("mksquashfs") is None:
        pytest.skip("mksquashfs is missing: apt-get install squashfs-tools")
    return build.build(Recipe(str(environment)), "squashfs", str(tmp_path_factory.mktemp("sq")))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """Yields a node without images; its images are forgotten when the test ends."""
    monkeypatch.delenv(probes.WAY_VARIABLE, raising=False)
    made = Node(str(tmp_path / "node"))
    yield made
    for record in made.records():
        made.forget(record.digest)
