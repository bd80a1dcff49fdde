"""The interpreter of an environment: what it says of itself, and the bytecode it makes."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess

from gristmill._errors import ImageError

#: Asked without the environment's site, so that nothing of it is run.
_QUESTION = """
import json, os, sys, sysconfig
of = sysconfig.get_config_var
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "tag": sys.implementation.cache_tag,
    "machine": os.uname().machine,
    "base": sys.base_prefix,
    "executable": os.path.realpath(sys._base_executable or sys.executable),
    "library": sysconfig.get_path("stdlib"),
    "shared_library": os.path.join(of("LIBDIR") or "", of("INSTSONAME") or "") if of("Py_ENABLE_SHARED") else "",
    "is_changed": not {"deb_system", "posix_local", "rpm_prefix"}.isdisjoint(sysconfig.get_scheme_names()),
}))
"""


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """What an interpreter says of itself."""

    version: str
    #: In the names of its bytecode.
    tag: str
    machine: str
    #: The installation that it belongs to, the file that is run, its standard library, and libpython if it has one.
    base: str
    executable: str
    library: str
    shared_library: str
    #: A distribution of Linux has changed where it looks for packages.
    is_changed: bool


def ask(python: str) -> Interpreter:
    """Asks an interpreter."""
    try:
        run = subprocess.run(
            [python, "-I", "-S", "-c", _QUESTION], capture_output=True, check=True, text=True
        )
        return Interpreter(**json.loads(run.stdout))
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().rpartition("\n")[2]
        raise ImageError(f"{python} cannot be packed: its interpreter fails: {last}") from error
    except (OSError, ValueError, TypeError) as error:
        raise ImageError(f"{python} cannot be packed: it cannot be run: {error}") from error


def of_prefix(prefix: str) -> Interpreter:
    """Asks the interpreter of an environment."""
    python = os.path.join(prefix, "bin", "python")
    if not os.path.exists(python):
        raise ImageError(
            f"{prefix} cannot be packed: it is no Python environment: no bin/python is in it"
        )
    return ask(python)
