"""Interpreter of an environment, as it describes itself."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess

from gristmill._errors import ImageError

#: Program that the interpreter runs without the environment's ``site``, so that no code of the environment runs.
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
    """Description of an interpreter."""

    version: str
    #: Tag in the names of its bytecode files.
    tag: str
    machine: str
    #: Prefix of its installation, path of its executable, its standard library, and its libpython or an empty string.
    base: str
    executable: str
    library: str
    shared_library: str
    #: True if a Linux distribution has changed the folders where it looks for packages.
    is_changed: bool


def ask(python: str) -> Interpreter:
    """Returns the description of an interpreter."""
    try:
        run = subprocess.run(
            [python, "-I", "-S", "-c", _QUESTION], capture_output=True, check=True, text=True
        )
        return Interpreter(**json.loads(run.stdout))
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().rpartition("\n")[2]
        raise ImageError(f"{python} cannot be packed: its interpreter fails: {last}") from error
    except (OSError, ValueError, TypeError) as error:
        raise ImageError(
            f"{python} cannot be packed: its interpreter cannot be run: {error}"
        ) from error


def of_prefix(prefix: str) -> Interpreter:
    """Returns the description of an environment's interpreter."""
    python = os.path.join(prefix, "bin", "python")
    if not os.path.exists(python):
        raise ImageError(
            f"{prefix} cannot be packed: it is not a Python environment, because it has no bin/python"
        )
    return ask(python)
