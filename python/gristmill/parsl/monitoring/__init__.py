"""Parsl's ``parsl.monitoring``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.monitoring.hub import MonitoringHub as MonitoringHub

__getattr__, __dir__ = _fallback.lookups(__name__)
