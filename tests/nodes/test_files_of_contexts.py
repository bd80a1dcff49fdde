"""Files and environments of contexts, which nodes receive and keep."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import packaging
import pytest
import threadpoolctl

import gristmill
from gristmill import Context, ContextError, Executor, context_file, on

import calls
from blobs import counts
from stage import Gate

StartNode = Callable[..., str]
#: Size of a file, bytes: enough for several pieces that arrive one after the other.
SIZE = 1 << 20


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Returns a file of bytes that compress badly."""
    path = tmp_path / "weights.bin"
    path.write_bytes(os.urandom(SIZE))
    return path


@pytest.fixture
def start_own(
    keys: tuple[str, str], start_node: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StartNode:
    """Starts a node with a disk of its own; the client uses another one."""
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("GRISTMILL_LOCAL_DIR", str(tmp_path / "here"))

    def start(name: str, **options: object) -> str:
        disk = tmp_path / name
        disk.mkdir()
        with monkeypatch.context() as patch:
            patch.setenv("GRISTMILL_LOCAL_DIR", str(disk))
            return start_node(keys[1], "--workers", "1", "--name", name, **options)

    return start


def load(table: np.ndarray[Any, Any] | None = None) -> dict[str, Any]:
    path = context_file("weights.bin")
    made = {"node": os.environ["GRISTMILL_NODE"], "path": path, "bytes": Path(path).read_bytes()}
    return {**made, "table": table}


def test_each_node_is_brought_a_file_once_and_keeps_it(
    keys: tuple[str, str],
    start_own: StartNode,
    weights: Path,
    tmp_path: Path,
    gate: Gate,
) -> None:
    addresses = [start_own(name) for name in ("one", "two")]
    table = np.arange(SIZE // 8)
    context = Context(load, table, files=[weights])

    def look(gate: str) -> tuple[str, str, bool]:
        calls.enter_if_path(gate)
        same = Path(context_file("weights.bin")).read_bytes() == context["bytes"]
        return context["node"], context["path"], same and bool((context["table"] == table).all())

    with Executor(nodes=on.hosts(*addresses, key=keys[0])) as executor:
        futures = [executor.options(context=context).submit(look, gate.path) for _ in range(2)]
        assert gate.wait_entered() != gate.wait_entered()
        gate.open(2)
        found = {future.result() for future in futures}
        report = context.report(executor)
        assert report is not None
        assert report.disk == SIZE + table.nbytes
        sent = counts(executor)
        assert sent["given"] + sent["fetched"] == 2 * (SIZE + table.nbytes)
    assert {node for node, _, _ in found} == {"one", "two"}
    for node, path, same in found:
        assert same
        assert path.startswith(str(tmp_path / node))
    with Executor(nodes=on.hosts(*addresses, key=keys[0])) as executor:
        options = executor.options(context=Context(load, files=[weights], name="another"))
        assert options.submit(lambda: load()["bytes"]).result() == weights.read_bytes()
        assert counts(executor)["given"] == 0, "what a node has is not sent again"


def test_files_stay_until_a_task_needs_them(
    keys: tuple[str, str], start_own: StartNode, weights: Path
) -> None:
    context = Context(load, files=[weights])

    def has_heard_of_it() -> str:
        return context.name

    def needs_it() -> int:
        return len(context["bytes"])

    with Executor(nodes=on.hosts(start_own("one"), key=keys[0])) as executor:
        assert executor.submit(has_heard_of_it).result() == context.name
        assert counts(executor)["given"] == 0
        submitted = executor.submit(lambda: context.submit(needs_it).result())
        assert submitted.result() == SIZE, "a task of a task is brought them, too"
        assert counts(executor)["given"] == SIZE


def test_nodes_are_brought_an_environment_as_an_image(
    keys: tuple[str, str],
    start_own: StartNode,
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


def test_nodes_are_brought_what_they_lack_of_the_callers_packages(
    keys: tuple[str, str],
    start_own: StartNode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "chaff.py").write_text("import iniconfig\n")
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))

    def load_chaff() -> dict[str, str]:
        import chaff  # type: ignore[import-not-found] # this test has made it

        return {"own": chaff.__file__, "installed": chaff.iniconfig.__file__}

    addresses = [start_own("full"), start_own("bare", by=bare_interpreter(tmp_path))]
    for name, address in zip(("full", "bare"), addresses, strict=True):
        context = Context(load_chaff, environment="auto")
        with Executor(nodes=on.hosts(address, key=keys[0])) as executor:
            options = executor.options(context=context)
            found = options.submit(lambda: (context["own"], context["installed"])).result()  # noqa: B023
        own, installed = (path.startswith(str(tmp_path / name)) for path in found)
        assert own
        assert installed == (name == "bare"), "nothing is sent that is there"


def bare_interpreter(folder: Path) -> list[str]:
    """Returns the command of an interpreter that has only Gristmill and its requirements."""
    venv.create(folder / "bare-env", symlinks=True, with_pip=False)
    (folder / "needed").mkdir()
    for package in (gristmill, cloudpickle, threadpoolctl, packaging):
        place = Path(package.__file__)
        place = place.parent if place.name == "__init__.py" else place
        (folder / "needed" / place.name).symlink_to(place)
    return ["env", f"PYTHONPATH={folder / 'needed'}", str(folder / "bare-env/bin/python")]


def test_a_file_that_was_changed_since_fails_its_context_alone(
    keys: tuple[str, str], start_own: StartNode, weights: Path
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
    by = [*before, sys.executable]
    address = start_node(keys[1], "--workers", "1", "--name", "small", by=by)
    context = Context(load, files=[weights], name="model")
    with Executor(nodes=on.hosts(address, key=keys[0])) as executor:
        why = r'(?s)on node small.*"model".*no space left to open .*weights.bin'
        with pytest.raises(ContextError, match=why):
            executor.options(context=context).submit(abs, -1).result()
        assert executor.submit(abs, -1).result() == 1
