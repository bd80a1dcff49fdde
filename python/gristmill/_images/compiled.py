"""Compiler of many source files for an image. The environment's interpreter runs this file by path; nothing imports it.

The argument is the name of the output file. Standard input names one source file per line. The program writes all
bytecode into the output file, without gaps. It prints one line per source: its number, and the offset and size of its
bytecode in bytes.

Python never checks bytecode in an image against its source: an image does not change, and the times of its sources mean
nothing. Existing bytecode of the environment is reused with a new header. Other sources are compiled, except those that
are not valid Python.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
import warnings

#: Flags in the header: hash-based and unchecked.
_UNCHECKED = (1).to_bytes(4, "little")
_HEAD_SIZE = 16


def bytecode_of(path: str) -> bytes | None:
    """Returns the bytecode of a source file with its header; ``None`` if the source is not valid Python."""
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
    """Returns the environment's bytecode of this source without its header; ``None`` if it is missing or outdated."""
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
    """Compiles all sources on standard input."""
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
