"""What an image is made of: an environment, or some distributions of it, and files of the user.

A recipe is looked at without reading what is in it (``look``): that gives a key, which changes whenever the image
would. Only when there is no image for that key, its contents are put together (``gather``).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat

from gristmill._errors import ImageError
from gristmill._images import bytecode, interpreter, listing, relocation, whole
from gristmill._images.contents import MANIFEST, Contents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gristmill._images.interpreter import Interpreter
    from gristmill._images.listing import Found

#: Of the rules of this package: what was built by others is built anew.
_RULES = 1


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What goes into an image."""

    #: An environment: what ``python -m venv``, ``uv venv`` or conda made; empty: none.
    prefix: str
    #: Of the running interpreter's packages these only, below ``site-packages``; the prefix is not looked at then.
    distributions: tuple[str, ...] = ()
    #: Files and folders of the user: where in the image, and where they are.
    files: tuple[tuple[str, str], ...] = ()
    #: The interpreter goes in too, for nodes that have none at the same place.
    with_python: bool = False
    #: What the image is of, for people; the distributions or the environment if not given.
    name: str = ""


@dataclasses.dataclass
class Look:
    """A recipe and what was seen of it."""

    recipe: Recipe
    python: str
    interpreter: Interpreter
    found: list[Found]
    #: Files that are not what they were, and what they say in the image.
    changed: dict[str, bytes]
    key: str = ""


def look(recipe: Recipe) -> Look:
    """Looks at what a recipe names: names, sizes and times, and the few bytes that decide on more."""
    if recipe.distributions or not recipe.prefix:
        import sys

        made = Look(recipe, sys.executable, interpreter.ask(sys.executable), [], {})
        made.found += _distributions(recipe.distributions)
    else:
        made = _environment(recipe)
    for place, path in recipe.files:
        made.found += _own(place, path)
    text = hashlib.blake2b(digest_size=20)
    said = (_RULES, dataclasses.astuple(made.interpreter), recipe.with_python)
    text.update(json.dumps(said).encode())
    for found in sorted(made.found):
        line = "\0".join(
            map(str, (found.name, found.mode, found.size, found.modified_ns, found.target))
        )
        text.update(line.encode("utf-8", "surrogateescape") + b"\n")
    for name, new in sorted(made.changed.items()):
        text.update(name.encode("utf-8", "surrogateescape") + b"\0" + new + b"\n")
    made.key = text.hexdigest()
    return made


def _environment(recipe: Recipe) -> Look:
    prefix = os.path.realpath(recipe.prefix)
    if prefix in ("/", "/usr", "/usr/local"):
        raise ImageError(f"{prefix} cannot be packed: it is the system; make an environment")
    said = interpreter.of_prefix(prefix)
    made = Look(recipe, os.path.join(prefix, "bin", "python"), said, [], {})
    sources: dict[str, str] = {}
    for found in listing.walk(prefix, "", relocation.is_left_out):
        if found.name == "pyvenv.cfg":
            with open(found.path) as file:
                made.changed[found.name] = relocation.settings(file.read(), prefix)
        elif relocation.is_path_file(found.name):
            made.changed[found.name] = relocation.path_file(found, prefix, sources)
        made.found.append(found)
    for path, place in sources.items():
        made.found += relocation.importable(path, place)
    if recipe.with_python:
        whole.add(made.found, made.changed, said, prefix)
    return made


def _distributions(names: tuple[str, ...]) -> Iterator[Found]:
    """The files of installed distributions, without their scripts."""
    import importlib.metadata

    for name in names:
        try:
            files = importlib.metadata.files(name)
        except importlib.metadata.PackageNotFoundError:
            raise ImageError(f"{name} cannot be packed: it is not installed") from None
        for file in files or ():
            path = str(file.locate())
            if ".." not in file.parts and "__pycache__" not in file.parts and os.path.isfile(path):
                yield _plain("site-packages/" + str(file), path)


def _own(place: str, path: str) -> Iterator[Found]:
    place = os.path.normpath(place)
    if os.path.isabs(place) or place.startswith(".."):
        raise ImageError(f"{path} cannot be packed as {place}: that is not in the image")
    if os.path.isdir(path):
        yield from listing.walk(path, place)
    elif os.path.isfile(path):
        yield _plain(place, path)
    else:
        raise ImageError(f"{path} cannot be packed: it is no file and no folder")


def _plain(place: str, path: str) -> Found:
    status = os.stat(path)
    return listing.Found(place, path, status.st_mode, status.st_size, status.st_mtime_ns, "")


def gather(seen: Look, folder: str) -> Contents:
    """Puts the contents together; ``folder`` takes what is made for them until the image is written."""
    made = Contents()
    sources = []
    for found in seen.found:
        is_executable = bool(found.mode & 0o100)
        new = seen.changed.get(found.name)
        if new is None and found.name.startswith("bin/"):
            new = relocation.script(found)
        if new is not None:
            made.made.append((found.name, new, is_executable))
        elif found.target:
            made.links.append((found.name, found.target))
        elif stat.S_ISDIR(found.mode):
            made.folders.append(found.name)
        else:
            made.files.append((found.name, found.path, None, found.size, is_executable))
            if found.name.endswith(".py") and not found.name.startswith("bin/"):
                sources.append(found)
    bytecode.add(made, sources, seen.python, seen.interpreter, folder)
    made.made.append((MANIFEST, manifest(seen), False))
    made.add_parents()
    return made


def manifest(seen: Look) -> bytes:
    """What the image says of itself."""
    said = {
        "python": seen.interpreter.version,
        "machine": seen.interpreter.machine,
        "interpreter": "" if seen.recipe.with_python else seen.interpreter.executable,
        "environment": bool(seen.recipe.prefix) and not seen.recipe.distributions,
    }
    return json.dumps(said, indent=1, sort_keys=True).encode() + b"\n"
