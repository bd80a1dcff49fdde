"""Packing of a context for nodes: an image of its environment, its files, and its description."""

from __future__ import annotations

import os

from gristmill._context import held, layers
from gristmill._images import storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill._context.declare import Context
    from gristmill._executor import Executor

    #: Digest and path of each file that nodes must have.
    Parcel = Sequence[tuple[str, str]]


def pack_for(executor: Executor, context: Context) -> tuple[bytes, Parcel]:
    """Returns the description of a context for the workers of an executor, and the files that its nodes need first.

    An environment that is a folder is packed into an image once. This takes seconds; later calls find the image.
    Workers on this machine use files in place. They also use the folder in place, unless it is on a shared file system.
    A context without reuse has no images.
    """
    description = context.description
    key, described = held.read(description)
    placement = executor._placement
    if described["reuse"] == "none":
        return description, ()
    is_here = placement is None or placement.is_here
    is_changed = False
    if described["environment"] is not None:
        path, digest = described["environment"]
        if not digest and (not is_here or storage.is_worth_an_image(path)):
            described["environment"] = _image_of(path)
            is_changed = True
    if is_here:
        # The unchanged description stays identical to the byte to that of a worker that makes the same context.
        return held.write(key, described) if is_changed else description, ()
    parcel = {digest: path for path, digest, _ in described["files"].values()}
    if described["parts"] is not None:
        path, digest, _ = described["parts"]
        parcel[digest] = path
    if described["environment"] is not None:
        path, digest = described["environment"]
        parcel[digest] = path
    if described["is_auto"]:
        described["layers"] = layers.pack(context.setup, context.workers.preload)
        parcel.update((digest, path) for digest, path, _ in described["layers"])
    return held.write(key, described), tuple(parcel.items())


def _image_of(prefix: str) -> tuple[str, str]:
    from gristmill._images import build
    from gristmill._images.recipe import Recipe

    made = build.build(Recipe(os.path.realpath(prefix)))
    return made.path, made.digest
