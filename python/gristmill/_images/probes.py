"""Ways to open an image, and tests of whether each works on this node. Each test opens a small image."""

from __future__ import annotations

import base64
import functools
import os
import shutil

from gristmill._errors import ImageError
from gristmill._images import mounts, squashfs
from gristmill._images.locks import Lock

#: Environment variable that forces one way: for tests, and for nodes where a working way is unwanted.
WAY_VARIABLE = "GRISTMILL_IMAGE_WAY"
#: Description of each way. The best comes first, by the cost of opening once per node and then of each import.
WAYS = {
    "loop": "mounted by the kernel",
    "unpack": "unpacked to the node's own disk",
    "unsquash": "unpacked to the node's own disk by unsquashfs",
    "squashfuse": "mounted by squashfuse, which makes imports slower",
}
#: Ways that can open each format.
WAYS_OF = {"squashfs": ("loop", "unsquash", "squashfuse"), "tar": ("unpack",)}
#: A squashfs image of one file, compressed with zstd: a kernel may support squashfs without zstd.
_TINY = (
    "XmfFM0ssI200000000620RR911^^KNzy<*T1ONa4AOHXW000004FLcE000001pxp600000|NsC0|NsC0fdBvi00000umAu600000-2eap00000"
    "_W%F@000001b_no001bpFa2PE0gV6vP-k*!b98NKY-}I_0CQRuBrO0awJ-f3KqUbHumS+20RVsk00031?EwND000030000504qk&Bn)z}6p#Te"
    "8Grx)000000003100000000621ORYyZ(?N-fMx&y0000002=@R000000LuUX0000001$ux000000000W000000002x0000000004fB*mh0RI30"
    "0000000"
)
_TINY_SIZE = 4096
_TEXT = b"gristmill " * 64


def fault_of(way: str, folder: str) -> str | None:
    """Returns the reason why a way does not work for images in a folder; ``None`` if it works.

    Each process tests a way once per folder.
    """
    forced = os.environ.get(WAY_VARIABLE)
    if forced:
        if forced not in WAYS:
            raise ImageError(f"{WAY_VARIABLE}={forced}: the ways are {', '.join(WAYS)}")
        if forced != way:
            return f"{WAY_VARIABLE} is {forced}"
    return _try(way, folder, os.getpid())


@functools.lru_cache
def _try(way: str, folder: str, _: int) -> str | None:
    if way == "unpack":
        return None if os.access(folder, os.W_OK | os.X_OK) else f"{folder} cannot be written to"
    if way == "unsquash":
        fault = squashfs.fault_of_reader()
        return fault or _try_tiny(way, folder)
    return _try_tiny(way, folder)


def _try_tiny(way: str, folder: str) -> str | None:
    place = os.path.join(folder, "probe")
    image, at = os.path.join(place, "image"), os.path.join(place, "at")
    with Lock(os.path.join(folder, "probe.lock")) as lock:
        lock.take()
        try:
            _clear(place, at)  # of a process that died during its test
            os.makedirs(place)
            with open(image, "wb") as file:
                file.write(base64.b85decode(_TINY).ljust(_TINY_SIZE, b"\0"))
            if way == "unsquash":
                squashfs.unpack(image, at)
            else:
                os.mkdir(at)
                mounts.mount(way, image, at)
            return _compare(at)
        except (ImageError, OSError) as error:
            return str(error)
        finally:
            _clear(place, at)


def _clear(place: str, at: str) -> None:
    if mounts.is_mounted(at):
        mounts.unmount(at)
    shutil.rmtree(place, ignore_errors=True)


def _compare(folder: str) -> str | None:
    with open(os.path.join(folder, "probe"), "rb") as file:
        return None if file.read() == _TEXT else "the bytes read differ from those written"


def choose(form: str, folder: str) -> str:
    """Returns the best way that opens a format on this node."""
    faults = []
    for way in WAYS_OF[form]:
        fault = fault_of(way, folder)
        if fault is None:
            return way
        faults.append(f"{way}: {fault}")
    advice = ": pack the image as tar, which needs no other program" if form == "squashfs" else ""
    raise ImageError(f"{form} images cannot be opened on this node: {'; '.join(faults)}{advice}")
