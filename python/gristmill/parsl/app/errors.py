"""Parsl's ``parsl.app.errors``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.errors import AppBadFormatting as AppBadFormatting
from gristmill.parsl._kernel.errors import AppException as AppException
from gristmill.parsl._kernel.errors import AppTimeout as AppTimeout
from gristmill.parsl._kernel.errors import BadStdStreamFile as BadStdStreamFile
from gristmill.parsl._kernel.errors import BashAppNoReturn as BashAppNoReturn
from gristmill.parsl._kernel.errors import BashExitFailure as BashExitFailure
from gristmill.parsl._kernel.errors import MissingOutputs as MissingOutputs
from gristmill.parsl._kernel.errors import ParslError as ParslError

__getattr__, __dir__ = _fallback.lookups(__name__)
