"""What is in the folder of a run besides its records."""

from __future__ import annotations

#: All that was chosen; the machine; what was printed; what was measured.
CONFIGURATION, ENVIRONMENT, LOG, SUMMARY = (
    "config.toml",
    "environment.json",
    "log.txt",
    "summary.json",
)
#: The folder in it that a profile is left in.
PROFILE = "profile"
