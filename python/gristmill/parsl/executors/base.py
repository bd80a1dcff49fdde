"""Parsl's ``parsl.executors.base``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.executors.base import ParslExecutor as ParslExecutor

__getattr__, __dir__ = _fallback.lookups(__name__)
