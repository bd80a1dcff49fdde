"""Images in the squashfs format, which the kernel mounts. The programs of ``squashfs-tools`` write and read them."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading

from gristmill._errors import ImageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill._images.contents import Contents

_WRITER, _READER = "mksquashfs", "unsquashfs"
#: First bytes of a squashfs file.
MAGIC = b"hsqs"
#: Options that make the same content give the same bytes: fixed times and owners. Level 3 takes a fourteenth of the
#: time of the default, for an eighth more bytes.
_OPTIONS = (
    "-comp", "zstd", "-Xcompression-level", "3", "-b", "256K", "-all-root", "-all-time", "315532800",
    "-mkfs-time", "315532800", "-root-mode", "755", "-no-xattrs", "-exit-on-error", "-quiet", "-no-progress",
)  # fmt: skip


def check_program() -> None:
    """Raises ``ImageError`` if this machine cannot write squashfs images."""
    if shutil.which(_WRITER) is None:
        raise ImageError(
            f"squashfs images cannot be built here: {_WRITER} is missing: install squashfs-tools 4.5 or newer, or "
            "build a tar"
        )


def write(contents: Contents, path: str) -> str:
    """Writes an image. Returns its digest."""
    from gristmill import _native

    read, write = os.pipe()
    failures: list[BaseException] = []

    def feed() -> None:
        try:
            _native.image_write_tar(contents, write)
        except BaseException as error:
            failures.append(error)

    with subprocess.Popen(
        [_WRITER, "-", path, "-tar", *_OPTIONS],
        stdin=read,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as run:
        os.close(read)
        feeder = threading.Thread(target=feed, name="gristmill-image")
        feeder.start()
        said = run.communicate()[1].decode(errors="replace")
        feeder.join()
    if run.returncode != 0:
        if "No space left" in said:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        # This error comes first: if ``mksquashfs`` dies, the feeder only reports a broken pipe.
        raise ImageError(
            f"{_WRITER} failed: {said.strip().rpartition(chr(10))[2] or run.returncode}"
        )
    if failures:
        raise failures[0]
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return _native.image_digest(path)


def fault_of_reader() -> str | None:
    """Returns the reason why this node cannot unpack squashfs images; ``None`` if it can."""
    return None if shutil.which(_READER) else f"{_READER} is missing: install squashfs-tools"


def unpack(path: str, folder: str) -> None:
    """Unpacks an image into a new folder."""
    from gristmill import _native

    count = str(_native.cpu_count())
    command = [
        _READER,
        "-no-xattrs",
        "-no-progress",
        "-quiet",
        "-processors",
        count,
        "-dest",
        folder,
        path,
    ]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    said = (run.stderr + run.stdout).decode(errors="replace")
    if "No space left" in said:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)
    if run.returncode != 0:
        raise ImageError(
            f"{_READER} failed: {said.strip().rpartition(chr(10))[2] or run.returncode}"
        )
