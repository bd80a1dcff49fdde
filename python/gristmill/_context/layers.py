"""Layers: images of the caller's packages and modules that a context needs, for nodes that lack them.

All distributions form one layer. The user's own code forms another, because it is small and changes more often.
"""

from __future__ import annotations

import functools
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from gristmill._context.discovery import Discovery
    from gristmill._context.distributions import Distribution

    #: Digest, path of the image or of the opened image, and the distributions in it; no distributions for the user's
    #: code.
    Layer = tuple[str, str, list[tuple[str, str]]]

#: Folder of importable files in an image.
_PLACE = "site-packages"


def pack(setup: Callable[..., Any], preload: Sequence[str]) -> list[Layer]:
    """Returns the layers of what a setup and its program import. Packs each layer unless its image exists already."""
    from gristmill._context import discovery
    from gristmill._images import build
    from gristmill._images.recipe import Recipe

    found = discovery.of_caller(setup, preload)
    layers: list[Layer] = []
    distributions = [needed.distribution for needed in found.distributions.values()]
    if distributions:
        named = [(one.name, one.version) for one in distributions]
        files = tuple(entry for one in distributions for entry in _files_of(one))
        name = f"{len(named)} distributions of {sys.prefix}"
        made = build.build(Recipe("", files=files, name=name))
        layers.append((made.digest, made.path, named))
    code = tuple(_own_code(found))
    if code:
        made = build.build(Recipe("", files=code, name=f"code beside {code[0][1]}"))
        layers.append((made.digest, made.path, []))
    return layers


def enter(layers: Sequence[Layer]) -> None:
    """Makes this process import the content of the layers from their folders."""
    for _, path, _ in reversed(layers):
        sys.path.insert(0, os.path.join(path, _PLACE))


def is_needed(layer: Layer) -> bool:
    """Returns whether this node needs a layer.

    It does if the layer is the user's own code, or if the node lacks one of the layer's distributions or has it in
    another version.
    """
    from gristmill._context.difference import difference

    _, _, named = layer
    return not named or bool(difference(named, _installed()))


@functools.cache
def _installed() -> list[tuple[str, str]]:
    from gristmill._context.distributions import Installed

    return [(one.name, one.version) for one in Installed(sys.path, sys.prefix).all()]


def _files_of(distribution: Distribution) -> Iterator[tuple[str, str]]:
    """Yields the path in the image and the local path of each file of a distribution, without scripts."""
    roots = [distribution.root, *map(os.path.dirname, distribution.tops)]
    for path, _ in distribution.files():
        root = next((root for root in roots if path.startswith(root + os.sep)), None)
        if root is not None and os.path.isfile(path):
            yield os.path.join(_PLACE, os.path.relpath(path, root)), path


def _own_code(found: Discovery) -> Iterator[tuple[str, str]]:
    """Yields the path in the image and the local path of each of the user's modules that is sent as a file."""
    for file in found.files:
        if file.how != "as a file":
            continue
        last = os.path.basename(file.path)
        parts = file.module.split(".")
        folders = parts if last.startswith("__init__.") else parts[:-1]
        yield os.path.join(_PLACE, *folders, last), file.path
