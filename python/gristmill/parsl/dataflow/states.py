"""Parsl's ``parsl.dataflow.states``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.states import FINAL_FAILURE_STATES as FINAL_FAILURE_STATES
from gristmill.parsl._kernel.states import FINAL_STATES as FINAL_STATES
from gristmill.parsl._kernel.states import States as States

__getattr__, __dir__ = _fallback.lookups(__name__)
