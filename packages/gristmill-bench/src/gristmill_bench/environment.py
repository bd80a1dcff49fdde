"""The environment of a run: enough for a reader to judge its figures and to repeat it."""

from __future__ import annotations

import os
import sys
from importlib.metadata import distributions
from typing import Any

import gristmill
from gristmill import instruments

#: Prefixes of variables that change what is measured.
_TELLING = (
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "PYTHON",
    "GRISTMILL_",
    "RAY_",
    "DASK_",
    "PARSL_",
    "MALLOC_",
    "GLIBC_",
)


def capture() -> dict[str, Any]:
    """Returns the machine, the system, the interpreter, the installed distributions, and the load."""
    return {
        **instruments.machine_facts(),
        "load_1_min": os.getloadavg()[0],
        "gristmill": gristmill.build_info(),
        "distributions": dict(sorted((one.name, one.version) for one in distributions())),
        "variables": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(_TELLING)
        },
        "command": sys.orig_argv,
    }
