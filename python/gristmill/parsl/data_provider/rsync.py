"""Parsl's ``parsl.data_provider.rsync``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.representation import RepresentationMixin as RepresentationMixin
from gristmill.parsl._kernel.staging import Staging as Staging
from gristmill.parsl._kernel.staging.rsync import RSyncStaging as RSyncStaging

__getattr__, __dir__ = _fallback.lookups(__name__)
