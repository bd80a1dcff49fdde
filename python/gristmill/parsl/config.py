"""Parsl's ``parsl.config``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.config import Config as Config
from gristmill.parsl._kernel.representation import RepresentationMixin as RepresentationMixin

__getattr__, __dir__ = _fallback.lookups(__name__)
