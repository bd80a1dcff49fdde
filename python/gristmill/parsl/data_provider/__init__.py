"""Parsl's ``parsl.data_provider``."""

from gristmill.parsl import _fallback

__getattr__, __dir__ = _fallback.lookups(__name__)
