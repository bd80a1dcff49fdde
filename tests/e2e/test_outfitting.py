"""The environment and the files of a context on nodes that have neither: each is sent once from the program, then from
node to node.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster
from placing import surroundings, write_shell

PROGRAM = Path(__file__).with_name("outfitting.py")
#: Nodes, and bytes of the file.
COUNT, SIZE = 4, 8 << 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Yields a cluster of four nodes and one for the program, each with a disk of its own."""
    with Cluster(nodes=COUNT + 1) as made:
        yield made


def test_each_node_has_them_on_its_own_disk_and_most_have_them_from_another(
    cluster: Cluster,
) -> None:
    *nodes, program = cluster.nodes
    environment: Path = cluster.shared / "env"
    venv.create(environment, symlinks=True, with_pip=False)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (environment / "lib" / version / "site-packages" / "husk.py").write_text("grains = 1\n")
    file: Path = cluster.shared / "weights.bin"
    file.write_bytes(bytes(SIZE))
    words = [sys.executable, str(PROGRAM), write_shell(cluster), str(environment), str(file)]
    started = program.start(
        [*words, *(node.name for node in nodes)],
        env=surroundings({"XDG_CACHE_HOME": str(cluster.shared / "cache")}),
        cwd=cluster.shared,
        stdout=subprocess.PIPE,
    )
    printed, _ = started.communicate()
    print(printed)
    assert started.wait() == 0
    said = json.loads(printed.splitlines()[-1])
    assert sorted(one[0] for one in said["found"]) == sorted(node.name for node in nodes)
    for _, module, path, size in said["found"]:
        assert module.startswith("/tmp/"), "a node's own disk"
        assert path.startswith("/tmp/")
        assert size == SIZE
    assert said["given"] + said["fetched"] > COUNT * SIZE, "the image as well"
    assert said["given"] < said["fetched"] + SIZE, "two of four get it from the program"
