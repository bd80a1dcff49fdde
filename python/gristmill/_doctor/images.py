"""Checks of how this machine would open images of environments, and of the folder for them."""

from __future__ import annotations

from gristmill._doctor.findings import Finding, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: File systems in memory: unpacked files take memory that is missing elsewhere.
_IN_MEMORY = ("tmpfs", "ramfs")


def disk() -> Iterator[Finding]:
    """Checks the folder for open images."""
    from gristmill import _filesystem
    from gristmill._errors import ImageError
    from gristmill._images import storage
    from gristmill._images.node import Node

    try:
        node = Node()
        budget = node.budget()
    except ImageError as error:
        yield note("image folder", str(error))
        return
    kind, free = _filesystem.of(node.folder).name, storage.free_size(node.folder)
    text = (
        f"{node.folder} ({kind}): {free / 1e9:.1f} GB free, images take up to {budget / 1e9:.1f} GB"
    )
    if kind in _IN_MEMORY:
        yield note(
            "image folder",
            f"{text}: this folder is in memory: set {storage.LOCAL_VARIABLE} to a disk",
        )
    else:
        yield ok("image folder", text)


def ways() -> Iterator[Finding]:
    """Finds the way to open each format, and the reasons against better ways."""
    from gristmill._errors import ImageError
    from gristmill._images import probes
    from gristmill._images.node import Node

    try:
        node = Node()
    except ImageError:
        return  # ``disk`` has reported the error
    for form, possible in probes.WAYS_OF.items():
        what = f"{form} images"
        faults: list[str] = []
        for way in possible:
            fault = probes.fault_of(way, node.folder)
            if fault is None:
                text = probes.WAYS[way]
                yield note(what, f"{text}; {'; '.join(faults)}") if faults else ok(what, text)
                break
            faults.append(f"not by {way}: {fault}")
        else:
            yield note(what, f"cannot be opened: {'; '.join(faults)}")
