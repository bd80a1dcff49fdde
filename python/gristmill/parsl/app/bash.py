"""Parsl's ``parsl.app.bash``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.apps import AppBase as AppBase
from gristmill.parsl._kernel.apps import BashApp as BashApp

__getattr__, __dir__ = _fallback.lookups(__name__)
