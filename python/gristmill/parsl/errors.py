"""Parsl's ``parsl.errors``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.errors import ConfigurationError as ConfigurationError
from gristmill.parsl._kernel.errors import InternalConsistencyError as InternalConsistencyError
from gristmill.parsl._kernel.errors import NoDataFlowKernelError as NoDataFlowKernelError
from gristmill.parsl._kernel.errors import OptionalModuleMissing as OptionalModuleMissing
from gristmill.parsl._kernel.errors import ParslError as ParslError

__getattr__, __dir__ = _fallback.lookups(__name__)
