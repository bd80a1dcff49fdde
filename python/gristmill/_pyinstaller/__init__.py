"""Part of Gristmill for PyInstaller, which finds it through an entry point and takes the hooks of this folder."""

from __future__ import annotations

import os


def hook_folders() -> list[str]:
    """Returns the folders with hooks."""
    return [os.path.dirname(os.path.abspath(__file__))]
