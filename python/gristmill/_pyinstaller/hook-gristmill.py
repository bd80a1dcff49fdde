"""The modules that a frozen program contains for its workers and agents. Gristmill imports most of them by name."""

from PyInstaller.utils.hooks import collect_submodules

hiddenimports = collect_submodules("gristmill", on_error="ignore")
