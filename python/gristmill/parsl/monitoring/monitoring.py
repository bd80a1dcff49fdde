"""Parsl's ``parsl.monitoring.monitoring``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.monitoring.hub import MonitoringHub as MonitoringHub
from gristmill.parsl._kernel.representation import RepresentationMixin as RepresentationMixin

__getattr__, __dir__ = _fallback.lookups(__name__)
