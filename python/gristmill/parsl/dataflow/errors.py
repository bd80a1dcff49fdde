"""Parsl's ``parsl.dataflow.errors``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.errors import BadCheckpoint as BadCheckpoint
from gristmill.parsl._kernel.errors import DataFlowException as DataFlowException
from gristmill.parsl._kernel.errors import DependencyError as DependencyError
from gristmill.parsl._kernel.errors import JoinError as JoinError
from gristmill.parsl._kernel.errors import ParslError as ParslError
from gristmill.parsl._kernel.errors import PropagatedException as PropagatedException

__getattr__, __dir__ = _fallback.lookups(__name__)
