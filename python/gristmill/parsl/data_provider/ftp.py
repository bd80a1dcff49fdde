"""Parsl's ``parsl.data_provider.ftp``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.staging.ftp import FTPInTaskStaging as FTPInTaskStaging
from gristmill.parsl._kernel.staging.ftp import FTPSeparateTaskStaging as FTPSeparateTaskStaging

__getattr__, __dir__ = _fallback.lookups(__name__)
