"""What nodes are told of a context, and sent with it: an image of its environment, and its files."""

from __future__ import annotations

import os

from gristmill._context import held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill._executor import Executor

    #: Digests and paths of what nodes are to have.
    Parcel = Sequence[tuple[str, str]]


def pack_for(executor: Executor, description: bytes) -> tuple[bytes, Parcel]:
    """The description of a context for an executor's workers, and what its nodes are to have first.

    An environment that is a folder becomes an image, once: that takes seconds, and the next time it is there. Workers
    on this machine use folder and files where they are, and so does a context of which nothing is reused.
    """
    key, told = held.read(description)
    placement = executor._placement
    if placement is None or placement.is_here or told["reuse"] == "none":
        return description, ()
    parcel = {digest: path for path, digest, _ in told["files"].values()}
    if told["environment"] is not None:
        path, digest = told["environment"]
        if not digest:
            path, digest = _image_of(path)
            told["environment"] = (path, digest)
        parcel[digest] = path
    return held.write(key, told), tuple(parcel.items())


def _image_of(prefix: str) -> tuple[str, str]:
    from gristmill._images import build
    from gristmill._images.recipe import Recipe

    made = build.build(Recipe(os.path.realpath(prefix)))
    return made.path, made.digest
