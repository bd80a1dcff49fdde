"""Files and environments of contexts, which nodes are brought and keep."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Context, ContextError, Executor, context_file, on

import calls
from blobs import counts
from stage import Gate

StartNode = Callable[..., str]
#: Enough that pieces of it come one after the other.
SIZE = 1 << 20


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A file of bytes that compress badly."""
    path = tmp_path / "weights.bin"
    path.write_bytes(os.urandom(SIZE))
    return path


@pytest.fixture
def start_own(
    keys: tuple[str, str], start_node: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], str]:
    """Starts a node with a disk of its own."""

    def start(name: str) -> str:
        disk = tmp_path / name
        disk.mkdir()
        monkeypatch.setenv("GRISTMILL_LOCAL_DIR", str(disk))
        return start_node(keys[1], "--workers", "1", "--name", name)

    return start


def load() -> dict[str, object]:
    path = context_file("weights.bin")
    return {"node": os.environ["GRISTMILL_NODE"], "path": path, "bytes": Path(path).read_bytes()}


def test_each_node_is_brought_a_file_once_and_keeps_it(
    keys: tuple[str, str],
    start_own: Callable[[str], str],
    weights: Path,
    tmp_path: Path,
    gate: Gate,
) -> None:
    addresses = [start_own(name) for name in ("one", "two")]
    context = Context(load, files=[weights])

    def look(gate: str) -> tuple[str, str, bool]:
        calls.enter_if_path(gate)
        same = Path(context_file("weights.bin")).read_bytes() == context["bytes"]
        return context["node"], context["path"], same

    with Executor(nodes=on.hosts(*addresses, key=keys[0])) as executor:
        futures = [executor.options(context=context).submit(look, gate.path) for _ in range(2)]
        assert gate.wait_entered() != gate.wait_entered()
        gate.open(2)
        found = {future.result() for future in futures}
        sent = counts(executor)
        assert sent["given"] + sent["fetched"] == 2 * SIZE
    assert {node for node, _, _ in found} == {"one", "two"}
    for node, path, same in found:
        assert same
        assert path.startswith(str(tmp_path / node))
    with Executor(nodes=on.hosts(*addresses, key=keys[0])) as executor:
        options = executor.options(context=Context(load, files=[weights], name="another"))
        assert options.submit(lambda: load()["bytes"]).result() == weights.read_bytes()
        assert counts(executor)["given"] == 0, "what a node has is not sent again"


def test_nodes_are_brought_an_environment_as_an_image(
    keys: tuple[str, str],
    start_own: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    environment = tmp_path / "env"
    venv.create(environment, symlinks=True, with_pip=False)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    module = environment / "lib" / version / "site-packages" / "husk.py"
    module.write_text("version = '7'\n")
    address = start_own("one")

    def load_husk() -> dict[str, str]:
        import husk  # type: ignore[import-not-found] # the environment has it

        return {"version": husk.version, "path": husk.__file__}

    context = Context(load_husk, environment=environment)
    with Executor(nodes=on.hosts(address, key=keys[0])) as executor:
        options = executor.options(context=context)
        version, path = options.submit(lambda: (context["version"], context["path"])).result()
    assert version == "7"
    assert path.startswith(str(tmp_path / "one"))


def test_a_file_that_was_changed_since_fails_its_context_alone(
    keys: tuple[str, str], start_own: Callable[[str], str], weights: Path
) -> None:
    address = start_own("one")
    context = Context(load, files=[weights], name="model")
    assert context.key
    weights.write_bytes(os.urandom(SIZE))
    with Executor(nodes=on.hosts(address, key=keys[0])) as executor:
        with pytest.raises(ContextError, match=r'(?s)on node one.*"model".*was changed after'):
            executor.options(context=context).submit(abs, -1).result()
        assert executor.submit(abs, -1).result() == 1
        context.release()
        options = executor.options(context=context)
        assert options.submit(lambda: context["bytes"]).result() == weights.read_bytes()


def test_a_node_without_room_for_a_file_says_so(
    keys: tuple[str, str], start_node: StartNode, weights: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = 'mount -t tmpfs -o size=256k none "$0" && GRISTMILL_LOCAL_DIR="$0" exec "$@"'
    root = ["--map-root-user"] if os.getuid() else []
    before = ["unshare", "--mount", *root, "sh", "-c", mount, str(small)]
    if subprocess.run([*before, "true"], capture_output=True).returncode:
        pytest.skip("no small disk can be mounted: it needs root, or namespaces of users")
    address = start_node(keys[1], "--workers", "1", "--name", "small", before=before)
    context = Context(load, files=[weights], name="model")
    with Executor(nodes=on.hosts(address, key=keys[0])) as executor:
        why = r'(?s)on node small.*"model".*no space left to open .*weights.bin'
        with pytest.raises(ContextError, match=why):
            executor.options(context=context).submit(abs, -1).result()
        assert executor.submit(abs, -1).result() == 1
