"""Parsl's ``parsl.app.python``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.apps import AppBase as AppBase
from gristmill.parsl._kernel.apps import PythonApp as PythonApp

__getattr__, __dir__ = _fallback.lookups(__name__)
