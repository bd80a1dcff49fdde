"""Parsl's ``parsl.data_provider.file_noop``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.representation import RepresentationMixin as RepresentationMixin
from gristmill.parsl._kernel.staging import Staging as Staging
from gristmill.parsl._kernel.staging.file_noop import NoOpFileStaging as NoOpFileStaging

__getattr__, __dir__ = _fallback.lookups(__name__)
