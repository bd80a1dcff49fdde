"""Programs in C beside the engine, compiled when a row needs them."""

import subprocess
from pathlib import Path

from benches import machine
from benches.model import Unavailable


def compiled(source: Path) -> Path:
    """Compiles a program if it is missing or outdated. Returns its path.

    Raises ``Unavailable`` if it cannot be compiled.
    """
    program = machine.ROOT / "target" / "benches" / source.stem
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    try:
        command = ["cc", "-O2", "-o", str(program), str(source)]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"{source.name} cannot be compiled: {error}") from error
    return program
