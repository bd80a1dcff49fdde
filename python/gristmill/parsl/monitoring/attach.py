"""Finds out who records a kernel's run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gristmill.parsl.monitoring.monitor import Monitor


def attach(kernel: Any) -> Monitor | None:
    """Begins to record the run of a kernel with the hub of its configuration, ours or Parsl's; ``None`` without one."""
    hub = kernel.config.monitoring
    if hub is None:
        return None
    from gristmill.parsl.monitoring.hub import MonitoringHub

    if isinstance(hub, MonitoringHub):
        from gristmill.parsl.monitoring.recorder import Recorder

        return Recorder(hub, kernel)
    from gristmill.parsl.monitoring.reporter import Reporter

    return Reporter(hub, kernel)
