"""What ``gristmill`` has where its engine does not run: names that say so when they are used."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from gristmill._errors import StartError


def _refuse() -> NoReturn:
    raise StartError(
        f"Gristmill's engine runs on Linux; {sys.platform} lacks memfd, futex and pidfd"
    )


class Executor:
    """Cannot be made on this platform."""

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        _refuse()


class TaskOptions:
    """Cannot be made on this platform."""

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        _refuse()


class Future:
    """Cannot be made on this platform."""

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        _refuse()


def wait_any(*_arguments: Any, **_named: Any) -> NoReturn:
    """There is nothing to wait for on this platform."""
    _refuse()


def build_info() -> NoReturn:
    """There is no native part on this platform."""
    _refuse()


def __getattr__(name: str) -> Any:
    """Every other public name: a class of which nothing can be made, so that ``import *`` works."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return type(name, (), {"__init__": lambda *_arguments, **_named: _refuse()})
