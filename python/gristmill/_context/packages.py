"""Environment of a context: a folder of packages, or an image of one, that replaces the caller's packages."""

from __future__ import annotations

import os
import site
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill._images.opening import Opened

#: Folder of importable packages in an environment.
_PACKAGES = os.path.join(
    "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages"
)
#: Image that this process imports from.
_opened: Opened | None = None


def describe(environment: str | os.PathLike[str] | None) -> tuple[str, str] | None:
    """Describes an environment for workers: its path, and the digest of its image or an empty string for a folder.

    Raises ``ValueError`` if the path does not exist or is no environment for this interpreter.
    """
    if environment is None:
        return None
    path = os.path.abspath(os.fspath(environment))
    if os.path.isdir(path):
        _packages_of(path)
        return path, ""
    if not os.path.exists(path):
        raise ValueError(f"the environment {path} does not exist")
    from gristmill import _native

    return path, _native.image_digest(path)


def enter(described: tuple[str, str]) -> None:
    """Makes this process import from an environment, and find programs there.

    Raises ``ImageError`` if an image cannot be opened, and ``ValueError`` if the folder is no environment.
    """
    global _opened
    # Gristmill's own needs are loaded from the caller's packages first; everything else comes from the environment.
    import cloudpickle  # noqa: F401
    import threadpoolctl  # noqa: F401

    from gristmill import _pickling, _remote  # noqa: F401

    path, digest = described
    if digest:
        from gristmill._images.opening import open_image

        _opened = open_image(path, digest)
        path = _opened.path
    packages = _packages_of(path)
    sys.path[:] = [entry for entry in sys.path if not _is_of_callers(entry)]
    site.addsitedir(packages)
    os.environ["PATH"] = os.path.join(path, "bin") + os.pathsep + os.environ.get("PATH", "")
    os.environ["VIRTUAL_ENV"] = path


def _packages_of(path: str) -> str:
    packages = os.path.join(path, _PACKAGES)
    if not os.path.isdir(packages):
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise ValueError(f"{path} is not an environment of Python {version}: it has no {_PACKAGES}")
    return packages


def _is_of_callers(entry: str) -> bool:
    return os.path.basename(entry) in ("site-packages", "dist-packages")
