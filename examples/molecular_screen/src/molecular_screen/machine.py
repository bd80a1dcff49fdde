"""The machine and the versions with which a screen ran, so that its times can be judged."""

import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = ("gristmill", "rdkit", "numpy", "datamol", "tblite")


def version(package: str) -> str:
    """Returns the version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed as a package"


def processor() -> str:
    """Returns the processor's name as the kernel gives it, or its architecture."""
    lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def description() -> dict[str, str]:
    """Returns names and values for the report, in the order in which they are shown."""
    load_1_min = os.getloadavg()[0]
    return {
        "Processor": processor(),
        "Cores usable": str(len(os.sched_getaffinity(0))),
        "Load when it ended": f"{load_1_min:.1f} processes (1 min mean)",
        "System": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "Python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }
