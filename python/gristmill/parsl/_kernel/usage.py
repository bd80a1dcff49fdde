"""``DataFlowKernel.usage_tracker``: Parsl's interface without the sending."""

from __future__ import annotations


class UsageTracker:
    """A tracker that sends nothing, whatever ``Config.usage_tracking`` says."""

    tracking_level = 0

    def send_start_message(self) -> None:
        """Does nothing."""

    def send_end_message(self) -> None:
        """Does nothing."""

    def close(self, timeout: float = 10.0) -> None:
        """Does nothing."""
