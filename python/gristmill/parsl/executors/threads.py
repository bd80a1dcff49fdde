"""Parsl's ``parsl.executors.threads``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.executors.base import ParslExecutor as ParslExecutor
from gristmill.parsl._kernel.executors.threads import ThreadPoolExecutor as ThreadPoolExecutor

__getattr__, __dir__ = _fallback.lookups(__name__)
