"""Parsl's ``parsl.providers.condor``, or substitutes where Parsl is not installed."""

from gristmill.parsl import _fallback

__getattr__, __dir__ = _fallback.lookups(__name__, substitutes="providers")
