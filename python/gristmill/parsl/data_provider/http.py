"""Parsl's ``parsl.data_provider.http``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.staging.http import HTTPInTaskStaging as HTTPInTaskStaging
from gristmill.parsl._kernel.staging.http import HTTPSeparateTaskStaging as HTTPSeparateTaskStaging

__getattr__, __dir__ = _fallback.lookups(__name__)
