"""Mounts of squashfs images, by the kernel or by squashfuse.

Only the processes of one mount namespace see a mount. A process in another namespace makes its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from gristmill._errors import ImageError

#: Mount options: read-only, no set-user-ID programs, no devices.
_OPTIONS = "ro,nosuid,nodev"


def mount(way: str, image: str, folder: str) -> None:
    """Mounts an image at an empty folder."""
    if way == "loop":
        _run(["mount", "-t", "squashfs", "-o", f"loop,{_OPTIONS}", image, folder])
        return
    if not os.path.exists("/dev/fuse"):
        raise ImageError("/dev/fuse does not exist")
    _run(["squashfuse", "-o", _OPTIONS, image, folder])


def unmount(folder: str) -> None:
    """Unmounts a folder. Processes with open files in it keep them."""
    faults = []
    for command in (
        ["umount", folder],
        ["fusermount3", "-u", folder],
        ["fusermount", "-u", folder],
    ):
        try:
            _run(command)
            return
        except ImageError as error:
            faults.append(str(error))
    if is_mounted(folder):
        raise ImageError(f"{folder} cannot be unmounted: {faults[0]}")


def is_mounted(folder: str) -> bool:
    """Returns whether a working mount is at the folder. Unmounts one that does not answer."""
    try:
        if not os.path.ismount(folder):
            # `ismount` returns false for a mount that does not answer, but `listdir` raises.
            os.listdir(folder)
            return False
        os.listdir(folder)
        return True
    except FileNotFoundError:
        return False
    except OSError:
        # The process that served the mount has died.
        subprocess.run(["umount", "-l", folder], capture_output=True)
        for name in ("fusermount3", "fusermount"):
            if shutil.which(name):
                subprocess.run([name, "-u", "-z", folder], capture_output=True)
        return False


def _run(command: list[str]) -> None:
    try:
        run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    except OSError as error:
        raise ImageError(f"{command[0]} cannot be run: {error.strerror}") from error
    if run.returncode != 0:
        said = run.stderr.decode(errors="replace").strip()
        raise ImageError(f"{command[0]}: {said.partition(chr(10))[0] or run.returncode}")
