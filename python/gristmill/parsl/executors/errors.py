"""Parsl's ``parsl.executors.errors``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.errors import BadStateException as BadStateException
from gristmill.parsl._kernel.errors import ExecutorError as ExecutorError
from gristmill.parsl._kernel.errors import (
    InvalidResourceSpecification as InvalidResourceSpecification,
)
from gristmill.parsl._kernel.errors import ParslError as ParslError
from gristmill.parsl._kernel.errors import ScalingFailed as ScalingFailed
from gristmill.parsl._kernel.errors import UnsupportedFeatureError as UnsupportedFeatureError

__getattr__, __dir__ = _fallback.lookups(__name__)
