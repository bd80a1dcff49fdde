"""Parsl's monitoring, where there is none."""

from __future__ import annotations

from gristmill.parsl.presence import missing

__all__ = ["MonitoringHub"]

MonitoringHub = missing("MonitoringHub", "parsl[monitoring]")
