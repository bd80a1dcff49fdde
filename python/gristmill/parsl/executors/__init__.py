"""Parsl's ``parsl.executors``."""

from gristmill.parsl import _fallback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill.parsl._kernel.executors.base import ParslExecutor as ParslExecutor
    from gristmill.parsl._kernel.executors.engine import GristmillExecutor as GristmillExecutor
    from gristmill.parsl._kernel.executors.substitutes import (
        HighThroughputExecutor as HighThroughputExecutor,
    )
    from gristmill.parsl._kernel.executors.threads import ThreadPoolExecutor as ThreadPoolExecutor

__getattr__, __dir__ = _fallback.lookups(__name__, ours="executors")
