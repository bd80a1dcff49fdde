"""Mounting squashfs images: by the kernel, or by squashfuse.

Mounts are seen by the processes of one mount namespace: who is in another does not find them, and makes its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from gristmill._errors import ImageError

#: Nothing in an image gives rights or is a device, and nothing of it changes.
_OPTIONS = "ro,nosuid,nodev"


def mount(way: str, image: str, folder: str) -> None:
    """Mounts an image at an empty folder."""
    if way == "loop":
        _run(["mount", "-t", "squashfs", "-o", f"loop,{_OPTIONS}", image, folder])
        return
    if not os.path.exists("/dev/fuse"):
        raise ImageError("there is no /dev/fuse")
    _run(["squashfuse", "-o", _OPTIONS, image, folder])


def unmount(folder: str) -> None:
    """Takes a mount away; who has a file of it open keeps that."""
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
    """Whether something is mounted there that answers; what does not is taken away."""
    try:
        if not os.path.ismount(folder):
            # `ismount` takes a mount that does not answer for none.
            os.listdir(folder)
            return False
        os.listdir(folder)
        return True
    except FileNotFoundError:
        return False
    except OSError:
        # The process that served it has died.
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
