"""Formats in which the outcome of each task is recorded."""

from gristmill_bench.records.base import RecordsPlugin

__all__ = ["RecordsPlugin"]
