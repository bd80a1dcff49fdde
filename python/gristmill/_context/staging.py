"""Staging of contexts on a node: images of environments, and files, received once and kept for later contexts.

The node's file stager calls these functions in one thread per lease. ``look`` returns what must be sent to the node.
``provide`` prepares what was received. ``let_go`` releases it. Opened files are on the node's own disk. All processes
of the node share them. They are removed when the disk needs the space and no process uses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gristmill._context import held, layers
from gristmill._images import opening
from gristmill._images.node import Node
from gristmill._images.sources import Source

if TYPE_CHECKING:
    from gristmill import _native
    from gristmill._images.opening import Opened

#: Opened files by ticket and digest. A ticket is one context's use of its files.
_open: dict[int, dict[str, Opened]] = {}


def look(ticket: int, description: bytes) -> list[str]:
    """Returns the digests of what this node lacks. Everything else is already here, and is kept from now on."""
    _, described = held.read(description)
    kept = _open.setdefault(ticket, {})
    lacking = []
    for node, needed in _needs(described):
        for digest in needed:
            opened = opening.find(digest, node)
            if opened is None:
                lacking.append(digest)
            else:
                kept[digest] = opened
    return lacking


def provide(ticket: int, description: bytes, brought: list[_native.BroughtFile]) -> bytes:
    """Prepares what was received. Returns the description with the paths of this node.

    Raises ``ImageError`` if an image cannot be used on this node, or if the disk is full.
    """
    key, described = held.read(description)
    kept = _open.setdefault(ticket, {})
    by_digest = {one.digest: one for one in brought}
    for node, needed in _needs(described):
        for digest, path in needed.items():
            if digest not in kept:
                source = Source(path, by_digest[digest], is_run=False)
                kept[digest] = opening.open_source(source, digest, node)
    described["files"] = {
        name: (kept[digest].path, digest, None)
        for name, (_, digest, _) in described["files"].items()
    }
    if described["parts"] is not None:
        _, digest, layout = described["parts"]
        described["parts"] = (kept[digest].path, digest, layout)
    if described["environment"] is not None and described["environment"][1]:
        described["environment"] = (kept[described["environment"][1]].path, "")
    described["layers"] = [
        (digest, kept[digest].path, named)
        for digest, _, named in described["layers"]
        if digest in kept
    ]
    return held.write(key, described)


def let_go(ticket: int) -> None:
    """Releases the files of a context."""
    for opened in _open.pop(ticket, {}).values():
        opened.close()


def _needs(described: dict[str, Any]) -> list[tuple[Node, dict[str, str]]]:
    """Returns the digests that a context needs, per kind of storage, with the paths where it was declared."""
    files = {digest: path for path, digest, _ in described["files"].values()}
    if described["parts"] is not None:
        files[described["parts"][1]] = described["parts"][0]
    environment = described["environment"]
    images = {environment[1]: environment[0]} if environment and environment[1] else {}
    images.update((layer[0], layer[1]) for layer in described["layers"] if layers.is_needed(layer))
    return [(Node(is_for_files=True), files), (Node(), images)]
