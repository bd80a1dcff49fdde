"""Stand-ins for the public names on platforms where the engine does not run. They raise when they are used."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from gristmill._errors import StartError


def _refuse() -> NoReturn:
    raise StartError(
        f"Gristmill's engine runs on Linux; {sys.platform} lacks memfd, futex and pidfd"
    )


class Executor:
    """Stand-in that raises ``StartError`` when it is made."""

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        _refuse()


class Future:
    """Stand-in that raises ``StartError`` when it is made."""

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        _refuse()


def wait_any(*_arguments: Any, **_named: Any) -> NoReturn:
    """Raises ``StartError``: there is nothing to wait for on this platform."""
    _refuse()


def build_info() -> NoReturn:
    """Raises ``StartError``: there is no native part on this platform."""
    _refuse()


def __getattr__(name: str) -> Any:
    """Returns, for every other public name, a class that cannot be instantiated, so that ``import *`` works."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return type(name, (), {"__init__": lambda *_arguments, **_named: _refuse()})
