"""Says on which machine and with which versions a screen ran, so that its times can be judged."""

import os
import platform
from importlib import metadata

from gristmill import _machine

PACKAGES = ("gristmill", "rdkit", "numpy", "datamol", "tblite")


def version(package: str) -> str:
    """The version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed as a package"


def description() -> dict[str, str]:
    """Names and values for the report, in the order in which they are shown."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load_1_min = os.getloadavg()[0]
    return {
        "Processor": _machine.cpu_name(),
        "Cores usable": str(cores),
        "Load when it ended": f"{load_1_min:.1f} processes (1 min mean)",
        "System": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "Python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }
