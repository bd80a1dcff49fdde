"""Levels of ``Config.usage_tracking``, by Parsl's names. Gristmill never sends anything."""

from __future__ import annotations

DISABLED = 0
LEVEL_1 = 1
LEVEL_2 = 2
LEVEL_3 = 3
