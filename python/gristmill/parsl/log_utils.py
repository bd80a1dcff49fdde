"""Parsl's ``parsl.log_utils``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.run_folder import DEFAULT_FORMAT as DEFAULT_FORMAT
from gristmill.parsl._kernel.run_folder import set_file_logger as set_file_logger
from gristmill.parsl._kernel.run_folder import set_stream_logger as set_stream_logger

__getattr__, __dir__ = _fallback.lookups(__name__)
