"""Parsl's ``parsl.data_provider.zip``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.errors import ParslError as ParslError
from gristmill.parsl._kernel.staging import Staging as Staging
from gristmill.parsl._kernel.staging.errors import ZipAuthorityError as ZipAuthorityError
from gristmill.parsl._kernel.staging.errors import ZipFileError as ZipFileError
from gristmill.parsl._kernel.staging.zip import ZipFileStaging as ZipFileStaging
from gristmill.parsl._kernel.staging.zip import zip_path_split as zip_path_split

__getattr__, __dir__ = _fallback.lookups(__name__)
