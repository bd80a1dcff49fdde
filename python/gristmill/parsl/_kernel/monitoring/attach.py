"""The choice of the monitor that records a kernel's run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gristmill.parsl._kernel.monitoring.monitor import Monitor


def attach(kernel: Any) -> Monitor | None:
    """Starts recording a kernel's run with the hub of its configuration, ours or Parsl's. ``None`` without a hub."""
    hub = kernel.config.monitoring
    if hub is None:
        return None
    from gristmill.parsl._kernel.monitoring.hub import MonitoringHub

    if isinstance(hub, MonitoringHub):
        from gristmill.parsl._kernel.monitoring.recorder import Recorder

        return Recorder(hub, kernel)
    from gristmill.parsl._kernel.monitoring.reporter import Reporter

    return Reporter(hub, kernel)
