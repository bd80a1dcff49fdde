"""Parsl's ``parsl.app.futures``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.futures import DataFuture as DataFuture

__getattr__, __dir__ = _fallback.lookups(__name__)
