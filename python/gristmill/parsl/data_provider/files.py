"""Parsl's ``parsl.data_provider.files``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.files import File as File

__getattr__, __dir__ = _fallback.lookups(__name__)
