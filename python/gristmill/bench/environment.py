"""What a run ran on: enough for a reader to judge its figures, and to repeat it."""

from __future__ import annotations

import os
import sys
from importlib.metadata import distributions
from typing import Any

import gristmill
from gristmill import _machine

#: Variables that change what is measured.
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
    """The machine, the system, the interpreter, what is installed, and how busy it all is."""
    return {
        **_machine.facts(),
        "load_1_min": os.getloadavg()[0],
        "gristmill": gristmill.build_info(),
        "distributions": dict(sorted((one.name, one.version) for one in distributions())),
        "variables": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(_TELLING)
        },
        "command": sys.orig_argv,
    }
