"""Builds images, each once: what was built is kept in a cache, by what it was built of.

Any number of processes may ask for one image at once: one builds it, the others wait for that. Nothing that is not
whole has a name that anybody looks for; what a process leaves that dies while it builds is removed by the next one.
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
    from gristmill._images.recipe import Look, Recipe

#: Formats, and how the names of their files end.
FORMATS = {"tar": ".tar.zst", "squashfs": ".squashfs"}
#: Images of one recipe that stay: what runs now may still be sent the one before.
_KEPT = 2
#: How hard is compressed: a tenth fewer bytes than at level 1 for a third more of the processor.
_LEVEL = 3


@dataclasses.dataclass(frozen=True)
class Image:
    """An image in the cache."""

    path: str
    digest: str
    format: str
    #: Bytes of the file, of what is in it, and how many files and links that is.
    size: int
    content_size: int
    count: int
    #: The environment, or the distributions, that it is of.
    of: str


def build(recipe: Recipe, form: str = "tar", cache: str | None = None) -> Image:
    """Gives the image of a recipe: from the cache if nothing has changed, else it is built."""
    if form not in FORMATS:
        raise ImageError(f"there is no format {form}: {', '.join(FORMATS)}")
    if form == "squashfs":
        squashfs.check_program()
    folder = _folder(cache)
    seen = recipes.look(recipe)
    with Lock(os.path.join(folder, f"{seen.key}-{form}.lock")) as lock:
        lock.take()
        there = _find(folder, seen.key, form)
        if there is not None:
            return there
        # Where there are no locks others may be building the same: each has a folder of its own then.
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


def _build(seen: Look, form: str, folder: str, work: str) -> Image:
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
    """A record whose image is there with all its bytes; these are hashed when it is opened."""
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
    """Removes what was left by processes that died while they built."""
    for name in os.listdir(folder):
        if not name.startswith("coming-"):
            continue
        key, form = name.split("-")[1:3]
        with Lock(os.path.join(folder, f"{key}-{form}.lock")) as lock:
            if lock.try_take() and lock.is_real:
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def built(cache: str | None = None) -> list[Image]:
    """The images in the cache, the ones used last first."""
    folder = _folder(cache)
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".json")]
    paths.sort(key=lambda path: -os.stat(path).st_mtime_ns)
    found = [made for made in map(_read_record, paths) if made is not None]
    return list({made.digest: made for made in reversed(found)}.values())[::-1]


def forget(digest: str, cache: str | None = None) -> bool:
    """Removes an image from the cache; whether it was there. Who has it open keeps it."""
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
    """Removes the images of the same environment before the last one."""
    alike = [one for one in built(folder) if (one.of, one.format) == (made.of, made.format)]
    for old in alike[_KEPT:]:
        forget(old.digest, folder)
