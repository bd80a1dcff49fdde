"""Parsl's ``parsl.concurrent``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.apps import PythonApp as PythonApp
from gristmill.parsl._kernel.pool import ParslPoolExecutor as ParslPoolExecutor

__getattr__, __dir__ = _fallback.lookups(__name__)
