"""Construction of images. A cache keeps each image under a key of its inputs, so that it is built once.

Any number of processes may request one image at once: one process builds it and the others wait. An unfinished image
never has a name that another process looks for. The next builder removes what a dead builder left behind.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil

from gristmill._errors import ImageError
from gristmill._images import recipe as recipes
from gristmill._images import squashfs, storage
from gristmill._images.locks import Lock, touch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill._images.contents import Contents
    from gristmill._images.recipe import InspectedRecipe, Recipe

#: File suffix of each format.
FORMATS = {"tar": ".tar.zst", "squashfs": ".squashfs"}
#: Number of images kept per environment: a running program may still send the previous one.
_KEPT = 2
#: Compression level: a tenth fewer bytes than at level 1, for a third more CPU time.
_LEVEL = 3


@dataclasses.dataclass(frozen=True)
class Image:
    """An image in the cache."""

    path: str
    digest: str
    format: str
    #: Bytes of the image file.
    size: int
    #: Bytes of its content.
    content_size: int
    #: Number of files and links in it.
    count: int
    #: Environment or distributions that the image contains.
    of: str


def build(recipe: Recipe, form: str = "tar", cache: str | None = None) -> Image:
    """Returns the image of a recipe, from the cache if no input has changed. Otherwise builds it."""
    if form not in FORMATS:
        raise ImageError(f"the format {form} is unknown: {', '.join(FORMATS)}")
    if form == "squashfs":
        squashfs.check_program()
    folder = _folder(cache)
    seen = recipes.inspect(recipe)
    with Lock(os.path.join(folder, f"{seen.key}-{form}.lock")) as lock:
        lock.take()
        there = _find(folder, seen.key, form)
        if there is not None:
            return there
        # Without file locks other processes may build the same image, so each process uses a folder of its own.
        own = "" if lock.is_real else f"-{os.uname().nodename}-{os.getpid()}"
        work = os.path.join(folder, f"coming-{seen.key}-{form}{own}")
        _sweep(folder)
        shutil.rmtree(work, ignore_errors=True)
        try:
            os.mkdir(work, 0o700)
            made = _build(seen, form, folder, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    _forget_old(folder, made)
    return made


def _folder(cache: str | None) -> str:
    if cache is None:
        return storage.cache_folder()
    return storage.own_folder(*os.path.split(os.path.abspath(cache)))


def _build(seen: InspectedRecipe, form: str, folder: str, work: str) -> Image:
    recipe = seen.recipe
    of = recipe.name or ", ".join(recipe.distributions) or os.path.realpath(recipe.prefix)
    needed = sum(found.size for found in seen.found)
    try:
        contents = recipes.gather(seen, work)
        needed = contents.size()
        path = os.path.join(work, "image")
        digest = _write(contents, form, path)
        target = os.path.join(folder, digest + FORMATS[form])
        made = Image(target, digest, form, os.path.getsize(path), needed, contents.count(), of)
        os.rename(path, target)
        _write_record(folder, seen.key, made)
    except ImageError as error:
        raise type(error)(f"the image of {of} cannot be built: {error}") from error
    except OSError as error:
        if storage.is_full(error):
            raise storage.no_space(f"build the image of {of}", folder, needed) from error
        raise ImageError(f"the image of {of} cannot be built: {error}") from error
    return made


def _write(contents: Contents, form: str, path: str) -> str:
    from gristmill import _native

    if form == "squashfs":
        return squashfs.write(contents, path)
    return _native.image_pack(contents, path, _LEVEL, _native.cpu_count())


def _write_record(folder: str, key: str, made: Image) -> None:
    path = os.path.join(folder, f"{key}-{made.format}.json")
    with open(path + ".coming", "w") as file:
        json.dump(dataclasses.asdict(made), file)
    touch(path + ".coming")
    os.rename(path + ".coming", path)


def _read_record(path: str) -> Image | None:
    """Returns the recorded image if its file has the recorded size, else ``None``.

    The digest is checked only when the image is opened.
    """
    try:
        with open(path) as file:
            made = Image(**json.load(file))
        return made if os.path.getsize(made.path) == made.size else None
    except (OSError, ValueError, TypeError):
        return None


def _find(folder: str, key: str, form: str) -> Image | None:
    path = os.path.join(folder, f"{key}-{form}.json")
    made = _read_record(path)
    if made is not None:
        touch(path)
    return made


def _sweep(folder: str) -> None:
    """Removes what processes left behind that died while they built an image."""
    for name in os.listdir(folder):
        if not name.startswith("coming-"):
            continue
        key, form = name.split("-")[1:3]
        with Lock(os.path.join(folder, f"{key}-{form}.lock")) as lock:
            if lock.try_take() and lock.is_real:
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def built(cache: str | None = None) -> list[Image]:
    """Returns the images in the cache, most recently used first."""
    folder = _folder(cache)
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".json")]
    paths.sort(key=lambda path: -os.stat(path).st_mtime_ns)
    found = [made for made in map(_read_record, paths) if made is not None]
    return list({made.digest: made for made in reversed(found)}.values())[::-1]


def forget(digest: str, cache: str | None = None) -> bool:
    """Removes an image from the cache and returns whether it existed. Processes that have the image open keep it."""
    folder = _folder(cache)
    was_there = False
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        made = _read_record(path) if name.endswith(".json") else None
        if made is not None and made.digest == digest:
            os.unlink(path)
            with Lock(path.removesuffix(".json") + ".lock") as lock:
                if lock.try_take():
                    lock.remove()
            was_there = True
    for end in FORMATS.values():
        path = os.path.join(folder, digest + end)
        if os.path.exists(path):
            os.unlink(path)
            was_there = True
    return was_there


def _forget_old(folder: str, made: Image) -> None:
    """Removes all but the ``_KEPT`` most recently used images of the same environment and format."""
    alike = [one for one in built(folder) if (one.of, one.format) == (made.of, made.format)]
    for old in alike[_KEPT:]:
        forget(old.digest, folder)
