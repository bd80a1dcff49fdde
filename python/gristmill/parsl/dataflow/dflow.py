"""Parsl's ``parsl.dataflow.dflow``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.futures import AppFuture as AppFuture
from gristmill.parsl._kernel.futures import DataFuture as DataFuture
from gristmill.parsl._kernel.kernel import DataFlowKernel as DataFlowKernel
from gristmill.parsl._kernel.loader import DataFlowKernelLoader as DataFlowKernelLoader
from gristmill.parsl._kernel.states import States as States
from gristmill.parsl._kernel.usage import UsageTracker as UsageTracker

__getattr__, __dir__ = _fallback.lookups(__name__)
