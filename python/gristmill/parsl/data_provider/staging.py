"""Parsl's ``parsl.data_provider.staging``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.staging import Staging as Staging
from gristmill.parsl._kernel.staging.errors import NoStagingProvider as NoStagingProvider
from gristmill.parsl._kernel.staging.errors import StagingError as StagingError

__getattr__, __dir__ = _fallback.lookups(__name__)
