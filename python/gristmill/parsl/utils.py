"""Parsl's ``parsl.utils``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.checkpoint import get_all_checkpoints as get_all_checkpoints
from gristmill.parsl._kernel.checkpoint import get_last_checkpoint as get_last_checkpoint
from gristmill.parsl._kernel.representation import RepresentationMixin as RepresentationMixin

__getattr__, __dir__ = _fallback.lookups(__name__)
