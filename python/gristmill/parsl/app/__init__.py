"""Parsl's ``parsl.app``."""

from gristmill.parsl import _fallback

__getattr__, __dir__ = _fallback.lookups(__name__)
