"""Bytecode in an image."""

from __future__ import annotations

import os
import subprocess

from gristmill._errors import ImageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill._images.contents import Contents
    from gristmill._images.interpreter import Interpreter
    from gristmill._images.listing import Found

_PROGRAM = os.path.join(os.path.dirname(__file__), "compiled.py")


def add(
    contents: Contents, sources: list[Found], python: str, interpreter: Interpreter, folder: str
) -> None:
    """Adds the bytecode of source files. ``folder`` holds the bytecode until the image is written."""
    from gristmill import _native

    # The compiler reads one path per line, so a path with a line break gets no bytecode in the image.
    sources = [source for source in sources if "\n" not in source.path]
    count = min(_native.cpu_count(), max(1, len(sources) // 500))
    runs = []
    try:
        for number in range(count):
            path = os.path.join(folder, f"bytecode-{number}")
            part = sources[number::count]
            runs.append((_start(python, path, part), path, part))
        for run, path, part in runs:
            _gather(contents, run, path, part, interpreter.tag)
    finally:
        for run, _, _ in runs:
            run.kill()
            run.wait()


def _start(python: str, path: str, part: list[Found]) -> subprocess.Popen[bytes]:
    names = path + "-names"
    with open(names, "wb") as file:
        file.writelines(os.fsencode(source.path) + b"\n" for source in part)
    with open(names, "rb") as file, open(path + "-places", "wb") as places:
        return subprocess.Popen(
            [python, "-I", "-S", _PROGRAM, path], stdin=file, stdout=places, stderr=subprocess.PIPE
        )


def _gather(
    contents: Contents, run: subprocess.Popen[bytes], path: str, part: list[Found], tag: str
) -> None:
    _, said = run.communicate()
    if run.returncode != 0:
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        if "No space left" in last:
            import errno

            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        raise ImageError(f"the bytecode cannot be made: {last or run.returncode}")
    with open(path + "-places") as places:
        for line in places:
            number, offset, size = map(int, line.split())
            parent, name = os.path.split(part[number].name)
            stem = name.removesuffix(".py")
            place = os.path.join(parent, "__pycache__", f"{stem}.{tag}.pyc")
            contents.files.append((place, path, offset, size, False))
