"""What contexts need on a node: images of environments, and files, brought there once and kept for who needs them next.

The node's engine calls this, in a thread of its own for each lease: ``look`` says what is to be brought, ``provide``
makes it ready, and ``let_go`` says that it need not be kept. What is open is on the node's own disk, shared by all its
processes, and goes when its room is needed and nobody uses it.
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

#: What is open, by ticket and digest. A ticket is one context's use of its files.
_open: dict[int, dict[str, Opened]] = {}


def look(ticket: int, description: bytes) -> list[str]:
    """The digests of what is to be brought to this node; all else is here, and is kept from now on."""
    _, told = held.read(description)
    kept = _open.setdefault(ticket, {})
    lacking = []
    for node, needed in _needs(told):
        for digest in needed:
            opened = opening.find(digest, node)
            if opened is None:
                lacking.append(digest)
            else:
                kept[digest] = opened
    return lacking


def provide(ticket: int, description: bytes, brought: list[_native.BroughtFile]) -> bytes:
    """Makes ready what was brought; gives the description with the paths of this node.

    Raises ``ImageError``: an image cannot be used here, or there is no space left.
    """
    key, told = held.read(description)
    kept = _open.setdefault(ticket, {})
    by_digest = {one.digest: one for one in brought}
    for node, needed in _needs(told):
        for digest, path in needed.items():
            if digest not in kept:
                source = Source(path, by_digest[digest], is_run=False)
                kept[digest] = opening.open_source(source, digest, node)
    told["files"] = {
        name: (kept[digest].path, digest, None) for name, (_, digest, _) in told["files"].items()
    }
    if told["parts"] is not None:
        _, digest, layout = told["parts"]
        told["parts"] = (kept[digest].path, digest, layout)
    if told["environment"] is not None and told["environment"][1]:
        told["environment"] = (kept[told["environment"][1]].path, "")
    told["layers"] = [
        (digest, kept[digest].path, named) for digest, _, named in told["layers"] if digest in kept
    ]
    return held.write(key, told)


def let_go(ticket: int) -> None:
    """A context's files are not used any more."""
    for opened in _open.pop(ticket, {}).values():
        opened.close()


def _needs(told: dict[str, Any]) -> list[tuple[Node, dict[str, str]]]:
    """What a context needs, and where that is kept: paths by digest, which those had where it was declared."""
    files = {digest: path for path, digest, _ in told["files"].values()}
    if told["parts"] is not None:
        files[told["parts"][1]] = told["parts"][0]
    environment = told["environment"]
    images = {environment[1]: environment[0]} if environment and environment[1] else {}
    images.update((layer[0], layer[1]) for layer in told["layers"] if layers.is_needed(layer))
    return [(Node(is_for_files=True), files), (Node(), images)]
