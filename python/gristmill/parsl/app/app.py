"""Parsl's ``parsl.app.app``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.apps import AppBase as AppBase
from gristmill.parsl._kernel.apps import bash_app as bash_app
from gristmill.parsl._kernel.apps import join_app as join_app
from gristmill.parsl._kernel.apps import python_app as python_app

__getattr__, __dir__ = _fallback.lookups(__name__)
