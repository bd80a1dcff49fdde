"""How it is noted what becomes of each task."""

from gristmill.bench.records.base import RecordsPlugin

__all__ = ["RecordsPlugin"]
