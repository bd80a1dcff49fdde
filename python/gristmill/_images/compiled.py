"""Makes the bytecode of many sources for an image. Run by path, by the interpreter of the environment, not imported.

Takes the name of a file to write and, on standard input, one source a line. Writes all bytecode behind each other into
the file and says, a line each, which source it is of, where it begins and how many bytes it has.

Bytecode in an image is never checked against its source: an image does not change, and the time of a source in it means
nothing. What the environment has already is taken over with another head; the rest is compiled, but for what is no
Python.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
import warnings

#: Flags in a head: by hash, and not to be checked.
_UNCHECKED = (1).to_bytes(4, "little")
_HEAD_SIZE = 16


def bytecode_of(path: str) -> bytes | None:
    """The bytecode of a source, with its head; none if it is no Python."""
    with open(path, "rb") as file:
        source = file.read()
    code = _there(path, source)
    if code is None:
        try:
            made = compile(source, path, "exec", dont_inherit=True, optimize=0)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            return None
        code = marshal.dumps(made)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + code


def _there(path: str, source: bytes) -> bytes | None:
    """What the environment has for it, if that is of this source."""
    try:
        with open(importlib.util.cache_from_source(path, optimization=""), "rb") as file:
            found = file.read()
        modified_s = int(os.stat(path).st_mtime)
    except OSError:
        return None
    if len(found) <= _HEAD_SIZE or found[:4] != importlib.util.MAGIC_NUMBER:
        return None
    flags = int.from_bytes(found[4:8], "little")
    said = (modified_s & 0xFFFFFFFF).to_bytes(4, "little") + (len(source) & 0xFFFFFFFF).to_bytes(
        4, "little"
    )
    wanted = importlib.util.source_hash(source) if flags else said
    return found[_HEAD_SIZE:] if found[8:_HEAD_SIZE] == wanted else None


def main() -> None:
    """Does it."""
    warnings.simplefilter("ignore")
    offset = 0
    with open(sys.argv[1], "wb") as file:
        for number, line in enumerate(sys.stdin.buffer):
            made = bytecode_of(os.fsdecode(line.rstrip(b"\n")))
            if made is not None:
                file.write(made)
                print(number, offset, len(made))
                offset += len(made)


if __name__ == "__main__":
    main()
