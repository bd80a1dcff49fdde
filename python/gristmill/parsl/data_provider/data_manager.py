"""Parsl's ``parsl.data_provider.data_manager``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.data_manager import DataManager as DataManager
from gristmill.parsl._kernel.data_manager import default_staging as default_staging
from gristmill.parsl._kernel.staging.file_noop import NoOpFileStaging as NoOpFileStaging
from gristmill.parsl._kernel.staging.ftp import FTPSeparateTaskStaging as FTPSeparateTaskStaging
from gristmill.parsl._kernel.staging.http import HTTPSeparateTaskStaging as HTTPSeparateTaskStaging
from gristmill.parsl._kernel.staging.zip import ZipFileStaging as ZipFileStaging

__getattr__, __dir__ = _fallback.lookups(__name__)
