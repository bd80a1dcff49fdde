"""Parsl's ``parsl.dataflow.taskrecord``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.states import States as States
from gristmill.parsl._kernel.tasks import TaskRecord as TaskRecord

__getattr__, __dir__ = _fallback.lookups(__name__)
