"""Launchers for programs without Parsl: those that start a worker pool as it is mean nothing to Gristmill's engine."""

from __future__ import annotations

from gristmill.parsl.presence import missing
from gristmill.parsl.representation import RepresentationMixin

__all__ = [
    "AprunLauncher",
    "GnuParallelLauncher",
    "JsrunLauncher",
    "MpiExecLauncher",
    "MpiRunLauncher",
    "SimpleLauncher",
    "SingleNodeLauncher",
    "SrunLauncher",
    "SrunMPILauncher",
    "WrappedLauncher",
]


class SimpleLauncher(RepresentationMixin):
    """Starts workers without any wrapper."""

    def __init__(self, debug: bool = True) -> None:
        self.debug = debug


class SingleNodeLauncher(RepresentationMixin):
    """Starts workers on the node that the program runs on."""

    def __init__(self, debug: bool = True, fail_on_any: bool = False) -> None:
        self.debug = debug
        self.fail_on_any = fail_on_any


AprunLauncher = missing("AprunLauncher")
GnuParallelLauncher = missing("GnuParallelLauncher")
JsrunLauncher = missing("JsrunLauncher")
MpiExecLauncher = missing("MpiExecLauncher")
MpiRunLauncher = missing("MpiRunLauncher")
SrunLauncher = missing("SrunLauncher")
SrunMPILauncher = missing("SrunMPILauncher")
WrappedLauncher = missing("WrappedLauncher")
