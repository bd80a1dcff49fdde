"""The files of a run's folder besides its records."""

from __future__ import annotations

#: The full configuration; the machine; the printed output; the measurements.
CONFIGURATION, ENVIRONMENT, LOG, SUMMARY = (
    "config.toml",
    "environment.json",
    "log.txt",
    "summary.json",
)
#: The subfolder that holds the profile.
PROFILE = "profile"
