"""Moves the line tables of wheels' native modules into files of their own.

A wheel goes into a folder with its module stripped; the debug file goes into ``debug/`` below it. The module names its
debug file: the backtrace of a panic, gdb and perf find it beside the module, or in ``.debug`` beside it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, required=True)
    arguments = parser.parse_args()
    for wheel in arguments.wheels:
        separate(wheel, arguments.into)


def separate(wheel: Path, into: Path) -> None:
    """Writes the wheel with a stripped module, and the module's debug file."""
    debug_file = into / "debug" / f"{wheel.stem}.debug"
    debug_file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        _run(sys.executable, "-m", "wheel", "unpack", wheel, "--dest", scratch)
        (content,) = Path(scratch).iterdir()
        (module,) = content.glob("gristmill/_native.*.so")
        _run("objcopy", "--only-keep-debug", "--compress-debug-sections=zlib", module, debug_file)
        debug_file.chmod(0o644)
        _run("objcopy", "--strip-all", f"--add-gnu-debuglink={debug_file}", module)
        packed = Path(scratch) / "packed"
        packed.mkdir()
        _run(sys.executable, "-m", "wheel", "pack", content, "--dest-dir", packed)
        (result,) = packed.iterdir()
        compress(result, into / result.name)


def compress(wheel: Path, into: Path) -> None:
    """Writes a wheel again, as small as its format allows."""
    kind = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(wheel) as found, zipfile.ZipFile(into, "w") as written:
        for part in found.infolist():
            written.writestr(part, found.read(part), compress_type=kind, compresslevel=9)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
