"""Inputs of an image: an environment, or some of its distributions, and files of the user.

``inspect`` lists the inputs, and reads only the few files that lead to more inputs. It computes a key, which changes
whenever the image would change. ``gather`` collects the contents, only if no image exists for that key.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat

from gristmill import _starting
from gristmill._errors import ImageError
from gristmill._images import bytecode, interpreter, listing, relocation, whole
from gristmill._images.contents import MANIFEST, Contents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gristmill._images.interpreter import Interpreter
    from gristmill._images.listing import Found

#: Version of the rules of this package. Images built with other rules are built again.
_RULES = 1


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Inputs of an image."""

    #: Folder of an environment made by ``python -m venv``, ``uv venv`` or conda; empty for none.
    prefix: str
    #: Distributions of the running interpreter, which go below ``site-packages``. If set, ``prefix`` is ignored.
    distributions: tuple[str, ...] = ()
    #: Files and folders of the user: name in the image, and path.
    files: tuple[tuple[str, str], ...] = ()
    #: True if the image contains the interpreter, for nodes that have none at the same path.
    with_python: bool = False
    #: Name for messages; by default the distributions or the environment.
    name: str = ""


@dataclasses.dataclass
class InspectedRecipe:
    """A recipe with the result of inspecting it."""

    recipe: Recipe
    python: str
    interpreter: Interpreter
    found: list[Found]
    #: New content of files that change in the image, by name.
    changed: dict[str, bytes]
    key: str = ""


def inspect(recipe: Recipe) -> InspectedRecipe:
    """Inspects the inputs of a recipe: names, sizes and times, and the few files that lead to more inputs."""
    if recipe.distributions or not recipe.prefix:
        python = _starting.interpreter()
        made = InspectedRecipe(recipe, python, interpreter.ask(python), [], {})
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


def _environment(recipe: Recipe) -> InspectedRecipe:
    prefix = os.path.realpath(recipe.prefix)
    if prefix in ("/", "/usr", "/usr/local"):
        raise ImageError(
            f"{prefix} cannot be packed: it is the interpreter of the system: make an environment"
        )
    said = interpreter.of_prefix(prefix)
    made = InspectedRecipe(recipe, os.path.join(prefix, "bin", "python"), said, [], {})
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
    """Yields the files of installed distributions, without their scripts."""
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
        raise ImageError(f"{path} cannot be packed as {place}: that path is not inside the image")
    if os.path.isdir(path):
        yield from listing.walk(path, place)
    elif os.path.isfile(path):
        yield _plain(place, path)
    else:
        raise ImageError(f"{path} cannot be packed: it is neither a file nor a folder")


def _plain(place: str, path: str) -> Found:
    status = os.stat(path)
    return listing.Found(place, path, status.st_mode, status.st_size, status.st_mtime_ns, "")


def gather(seen: InspectedRecipe, folder: str) -> Contents:
    """Returns the contents of an image. ``folder`` holds generated files until the image is written."""
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


def manifest(seen: InspectedRecipe) -> bytes:
    """Returns the description of an image that it contains at its root."""
    said = {
        "python": seen.interpreter.version,
        "machine": seen.interpreter.machine,
        "interpreter": "" if seen.recipe.with_python else seen.interpreter.executable,
        "environment": bool(seen.recipe.prefix) and not seen.recipe.distributions,
    }
    return json.dumps(said, indent=1, sort_keys=True).encode() + b"\n"
