"""Launchers for programs without Parsl. Gristmill's engine ignores those that start a worker pool unchanged."""

from __future__ import annotations

from gristmill.parsl._kernel.parsl_detection import missing
from gristmill.parsl._kernel.representation import RepresentationMixin

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
    """A launcher that starts workers without any wrapper."""

    def __init__(self, debug: bool = True) -> None:
        self.debug = debug


class SingleNodeLauncher(RepresentationMixin):
    """A launcher that starts workers on the node that the program runs on."""

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
