"""What nodes are told of a context, and sent with it: an image of its environment, and its files."""

from __future__ import annotations

import os

from gristmill._context import held, layers
from gristmill._images import storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill._context.declare import Context
    from gristmill._executor import Executor

    #: Digests and paths of what nodes are to have.
    Parcel = Sequence[tuple[str, str]]


def pack_for(executor: Executor, context: Context) -> tuple[bytes, Parcel]:
    """The description of a context for an executor's workers, and what its nodes are to have first.

    An environment that is a folder becomes an image, once: that takes seconds, and the next time it is there. Workers
    on this machine use files where they are, and the folder too, unless it is on a shared file system. A context of
    which nothing is reused has no images.
    """
    description = context.description
    key, told = held.read(description)
    placement = executor._placement
    if told["reuse"] == "none":
        return description, ()
    is_here = placement is None or placement.is_here
    is_changed = False
    if told["environment"] is not None:
        path, digest = told["environment"]
        if not digest and (not is_here or storage.is_worth_an_image(path)):
            told["environment"] = _image_of(path)
            is_changed = True
    if is_here:
        # What has not changed is the same to the byte: so a worker tells of it that has made the same context.
        return held.write(key, told) if is_changed else description, ()
    parcel = {digest: path for path, digest, _ in told["files"].values()}
    if told["parts"] is not None:
        path, digest, _ = told["parts"]
        parcel[digest] = path
    if told["environment"] is not None:
        path, digest = told["environment"]
        parcel[digest] = path
    if told["is_auto"]:
        told["layers"] = layers.pack(context.setup, context.preload)
        parcel.update((digest, path) for digest, path, _ in told["layers"])
    return held.write(key, told), tuple(parcel.items())


def _image_of(prefix: str) -> tuple[str, str]:
    from gristmill._images import build
    from gristmill._images.recipe import Recipe

    made = build.build(Recipe(os.path.realpath(prefix)))
    return made.path, made.digest
