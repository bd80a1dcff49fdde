"""An image is opened once on a node, by each way that works there, and only if all of its bytes are right."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import SimpleQueue

import pytest

from gristmill._errors import AlteredImageError, ImageError
from gristmill._images import mounts, probes
from gristmill._images.build import Image
from gristmill._images.node import Node, Record
from gristmill._images.opening import Opened, open_image

from packing import ANSWER, leftovers, locks, run

EVERY_WAY = [(way, form) for form, ways in probes.WAYS_OF.items() for way in ways]


@pytest.fixture
def image(request: pytest.FixtureRequest) -> Image:
    """Returns the image in the format that the test's parameters name."""
    form = request.getfixturevalue("form") if "form" in request.fixturenames else "tar"
    made: Image = request.getfixturevalue(form)
    return made


@pytest.fixture
def forced(node: Node, way: str, form: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes a way the only one that is used, and returns it; skips the test if the way does not work here."""
    fault = probes.fault_of(way, node.folder)
    if fault is not None:
        pytest.skip(fault)
    monkeypatch.setenv(probes.WAY_VARIABLE, way)
    return way


@pytest.mark.parametrize(("way", "form"), EVERY_WAY)
def test_what_was_packed_is_there_by_every_way(image: Image, node: Node, forced: str) -> None:
    with open_image(image.path, image.digest, node=node) as opened:
        assert opened.way == forced
        folder = Path(opened.path)
        assert run(folder / "bin/grain") == ANSWER
        with open_image(image.path, image.digest, node=node) as again:
            assert again.path == opened.path
        assert not node.forget(image.digest), "it is used"
        assert [record.way for record in node.records()] == [forced]
    assert node.forget(image.digest)
    assert not mounts.is_mounted(str(folder))
    assert leftovers(node) == []


@pytest.mark.parametrize(("way", "form"), EVERY_WAY)
@pytest.mark.parametrize("damage", ["cut", "altered"])
def test_a_damaged_image_is_refused_before_it_is_used(
    image: Image, node: Node, tmp_path: Path, damage: str, forced: str
) -> None:
    path = tmp_path / "image"

    def spoil() -> None:
        shutil.copyfile(image.path, path)
        if damage == "cut":
            os.truncate(path, image.size - 10)
        else:
            with open(path, "r+b") as file:
                file.seek(image.size // 2)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 1]))

    spoil()
    with pytest.raises(AlteredImageError, match="is truncated or altered"):
        open_image(str(path), image.digest, node=node)
    assert leftovers(node) == locks(image)
    assert path.exists(), "it is its owner's"
    shutil.copyfile(image.path, path)
    with open_image(str(path), image.digest, node=node) as opened:
        assert run(Path(opened.path) / "bin/grain") == ANSWER
    node.forget(image.digest)
    with pytest.raises(AlteredImageError):
        open_image(image.path, "0" * 64, node=node)


def test_what_is_no_image_is_said_to_be_none(node: Node, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no image")
    with pytest.raises(ImageError, match="text is not an image"):
        open_image(str(tmp_path / "text"), node=node)
    with pytest.raises(ImageError, match="missing cannot be opened"):
        open_image(str(tmp_path / "missing"), node=node)
    with pytest.raises(ImageError, match="missing cannot be opened"):
        open_image(str(tmp_path / "missing"), "0" * 64, node=node)


#: A program that opens an image, prints the outcome, and keeps the image open until its input ends.
_OPEN = """
import os, sys
from gristmill._images.node import Node
from gristmill._images.opening import open_image
with open_image(sys.argv[1], sys.argv[2], node=Node(sys.argv[3])) as opened:
    print(opened.way, os.stat(opened.path).st_ino, flush=True)
    sys.stdin.read()
"""


def opener(image: Image, node: Node, *prefix: str) -> subprocess.Popen[str]:
    command = [*prefix, sys.executable, "-c", _OPEN, image.path, image.digest, node.folder]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(run: subprocess.Popen[str]) -> str:
    assert run.stdout is not None
    return run.stdout.readline().strip()


def test_processes_of_a_node_share_one_and_it_is_kept_while_any_lives(
    tar: Image, node: Node
) -> None:
    runs = [opener(tar, node) for _ in range(3)]
    assert len({said(one) for one in runs}) == 1
    for one in runs[:2]:
        one.kill()
        one.communicate()
    assert not node.forget(tar.digest), "one is left"
    runs[2].communicate()
    assert node.forget(tar.digest)


class Twins(Node):
    """A node on which two threads have both looked for an image before either continues."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._looked: set[int] = set()
        self._both = threading.Barrier(2)

    def find(self, digest: str) -> Record | None:
        found = super().find(digest)
        if threading.get_ident() not in self._looked:
            self._looked.add(threading.get_ident())
            self._both.wait()
        return found


def test_two_who_find_nothing_at_once_both_have_it(tar: Image, node: Node) -> None:
    twins = Twins(node.folder)
    came: SimpleQueue[Opened] = SimpleQueue()

    def open_it() -> None:
        came.put(open_image(tar.path, tar.digest, node=twins))

    for _ in range(2):
        threading.Thread(target=open_it, daemon=True).start()
    opened = [came.get() for _ in range(2)]
    assert opened[0].path == opened[1].path
    for one in opened:
        assert not node.forget(tar.digest)
        one.close()
    assert node.forget(tar.digest)
    assert leftovers(node) == []


def test_a_forked_child_keeps_what_its_parent_opened(tar: Image, node: Node) -> None:
    opened = open_image(tar.path, tar.digest, node=node)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    opened.close()
    assert not node.forget(tar.digest)
    os.close(write)
    os.waitpid(child, 0)
    assert node.forget(tar.digest)


#: A program that kills itself at a step of opening.
_DIE = """
import os, signal, sys
from gristmill._images import opening, node
from gristmill._images.node import Node
step = sys.argv[4]
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if step == "note":
    Node.note = die
else:
    real = os.rename
    os.rename = lambda one, other: (real(one, other) if step == "renamed" else None, die())
opening.open_image(sys.argv[1], sys.argv[2], node=Node(sys.argv[3]))
"""


@pytest.mark.parametrize("step", ["coming", "renamed", "note"])
@pytest.mark.parametrize(("way", "form"), EVERY_WAY)
def test_what_a_process_leaves_that_dies_is_not_trusted_and_removed(
    image: Image, node: Node, step: str, forced: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _DIE, image.path, image.digest, node.folder, step]
    assert subprocess.run(command).returncode == -9
    assert node.records() == []
    assert leftovers(node) != locks(image), "it has left something"
    node.sweep()
    assert leftovers(node) == []
    assert subprocess.run(command).returncode == -9
    with open_image(image.path, image.digest, node=node) as opened:
        assert run(Path(opened.path) / "bin/grain") == ANSWER


def test_what_was_opened_before_the_machine_started_anew_is_not_trusted(
    tar: Image, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_image(tar.path, tar.digest, node=node).close()
    tree = Path(node.path("trees", tar.digest))
    (tree / "bin/grain").chmod(0o600)
    (tree / "bin/grain").write_text("torn")
    monkeypatch.setattr("gristmill._images.node._boot", lambda: "another")
    assert node.records() == []
    with open_image(tar.path, tar.digest, node=node) as opened:
        assert run(Path(opened.path) / "bin/grain") == ANSWER


def test_a_mount_that_another_namespace_does_not_see_is_made_there_too(
    squashfs: Image, node: Node
) -> None:
    fault = probes.fault_of("loop", node.folder)
    if fault is not None:
        pytest.skip(fault)
    with open_image(squashfs.path, squashfs.digest, node=node) as opened:
        mounts.unmount(opened.path)
        inside = opener(squashfs, node, "unshare", "--mount", "--propagation", "private")
        assert said(inside).startswith("loop ")
        assert not mounts.is_mounted(opened.path), "it was made in the other namespace"
        with open_image(squashfs.path, squashfs.digest, node=node) as again:
            assert run(Path(again.path) / "bin/grain") == ANSWER
        inside.communicate()


def servers_of(folder: str) -> list[int]:
    """Returns the squashfuse processes that serve a folder."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"squashfuse" and os.fsencode(folder) in words:
            found.append(int(number))
    return found


def test_a_file_server_that_died_is_started_again(
    squashfs: Image, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = probes.fault_of("squashfuse", node.folder)
    if fault is not None:
        pytest.skip(fault)
    monkeypatch.setenv(probes.WAY_VARIABLE, "squashfuse")
    with open_image(squashfs.path, squashfs.digest, node=node) as opened:
        (server,) = servers_of(opened.path)
        os.kill(server, signal.SIGKILL)
        while mounts.is_mounted(opened.path):
            pass
        with open_image(squashfs.path, squashfs.digest, node=node) as again:
            assert run(Path(again.path) / "bin/grain") == ANSWER


def test_without_rights_to_mount_the_next_way_is_used(squashfs: Image, node: Node) -> None:
    setpriv = shutil.which("setpriv")
    if os.getuid() != 0 or setpriv is None:
        pytest.skip("rights can only be given up by who has them, with setpriv")
    if probes.fault_of("unsquash", node.folder) is not None:
        pytest.skip("unsquashfs is missing")
    run = opener(squashfs, node, setpriv, "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    assert said(run).startswith("unsquash ")
    run.communicate()


def test_a_node_that_can_open_nothing_says_why(
    squashfs: Image, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(probes.WAY_VARIABLE, "unpack")
    with pytest.raises(
        ImageError,
        match=r"squashfs images cannot be opened on this node: loop: .*pack the image as tar",
    ):
        open_image(squashfs.path, squashfs.digest, node=node)
    monkeypatch.setenv(probes.WAY_VARIABLE, "magic")
    with pytest.raises(ImageError, match="the ways are loop, unpack, unsquash, squashfuse"):
        open_image(squashfs.path, squashfs.digest, node=node)


def test_a_hostile_file_system_with_devices_is_not_unpacked(
    squashfs: Image, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if probes.fault_of("unsquash", node.folder) is not None:
        pytest.skip("unsquashfs is missing")
    monkeypatch.setenv(probes.WAY_VARIABLE, "unsquash")
    (tmp_path / "content").mkdir()
    for number, what in enumerate(("null c 666 0 0 1 3", "rights m 4755 0 0")):
        (tmp_path / "content" / "rights").write_text("")
        path = str(tmp_path / f"hostile-{number}")
        subprocess.run(
            ["mksquashfs", tmp_path / "content", path, "-quiet", "-no-progress", "-p", what],
            check=True,
        )
        with pytest.raises(ImageError, match=r"is hostile|unsquashfs failed"):
            open_image(path, node=node)
        assert node.records() == []


def test_a_full_disk_makes_unused_images_go_and_is_said_when_that_is_not_enough(
    tar: Image, node: Node, tmp_path: Path
) -> None:
    code = (
        "import sys\n"
        "from gristmill._images import opening\n"
        "from gristmill._images.node import Node\n"
        "try: opening.open_image(sys.argv[1], sys.argv[2], node=Node(sys.argv[3]), budget=1 << 40)\n"
        "except opening.ImageError as error: print(error)\n"
        "import os; print(sorted(os.listdir(sys.argv[3] + '/coming') + os.listdir(sys.argv[3] + '/trees')))\n"
    )
    small = tmp_path / "small"
    small.mkdir()
    mount = 'mount -t tmpfs -o size=16k none "$0" && exec "$@"'
    command = [
        "unshare",
        "--mount",
        *(["--map-root-user"] if os.getuid() else []),
        "sh",
        "-c",
        mount,
        small,
    ]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("no small disk can be mounted: it needs root, or namespaces of users")
    arguments = [sys.executable, "-c", code, tar.path, tar.digest, small / "node"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True)
    text, left = done.stdout.splitlines()
    assert text.startswith(f"no space left to open {tar.path} in {small}/node: up to "), done.stderr
    assert left == "[]"
