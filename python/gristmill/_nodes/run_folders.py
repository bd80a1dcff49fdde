"""The numbered folders of runs: ``runinfo/000``, ``runinfo/001`` and so on."""

from __future__ import annotations

import os
from pathlib import Path


def make_run_folder(runs: str) -> str:
    """Makes the next numbered folder below ``runs``, and returns its absolute path. Each program gets its own folder.

    Raises ``OSError``, which names ``run_dir``.
    """
    try:
        return _next_folder(Path(runs))
    except OSError as error:
        reason = f"no folder can be made in run_dir: {error.strerror}"
        raise OSError(error.errno, reason, runs) from error


def _next_folder(parent: Path) -> str:
    parent.mkdir(parents=True, exist_ok=True)
    number = 1 + max(
        (int(path.name) for path in parent.iterdir() if path.name.isdecimal()), default=-1
    )
    while True:
        try:
            folder = parent / f"{number:03}"
            folder.mkdir()
            return os.path.abspath(folder)
        except FileExistsError:
            number += 1
