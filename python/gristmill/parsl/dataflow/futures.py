"""Parsl's ``parsl.dataflow.futures``."""

from concurrent.futures._base import CANCELLED as CANCELLED
from concurrent.futures._base import CANCELLED_AND_NOTIFIED as CANCELLED_AND_NOTIFIED
from concurrent.futures._base import FINISHED as FINISHED
from concurrent.futures._base import PENDING as PENDING

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.futures import AppFuture as AppFuture
from gristmill.parsl._kernel.futures import DataFuture as DataFuture

__getattr__, __dir__ = _fallback.lookups(__name__)
