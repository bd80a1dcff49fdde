"""A worker's world: what it takes over from the caller, and what is its own.

Taken over, as they are when the engine starts its zygote: the working directory, ``sys.path``, ``sys.argv``, the
environment, the umask, the locale, the warning filters and the interpreter's flags. Not taken over: ``logging``, which
is unconfigured, and the state of random generators, which are seeded anew in each worker (``random`` and numpy's global
one).
"""

from __future__ import annotations

import importlib
import locale
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

from gristmill import _pickling
from gristmill._errors import StartError

#: Thread variables of the numeric libraries, all at 1 while the zygote imports: it has to stay single-threaded.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


#: What an interpreter is told to do; its first argument is the folder that this package is in.
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); from gristmill import _zygote; _zygote.main()"
)


def describe(
    initializer: tuple[Callable[..., object] | None, tuple[Any, ...]],
    preload: tuple[str, ...],
    threads: int,
    spin_us: float,
) -> bytes:
    """Describes this process's world to a zygote. Raises ``UnpicklableError`` for the initializer."""
    function, arguments = initializer
    return pickle.dumps(
        {
            "path": [os.path.abspath(entry) for entry in sys.path],
            "argv": sys.argv,
            "locale": locale.setlocale(locale.LC_ALL),
            "warnings": _plain_filters(),
            "preload": preload,
            "initializer": None
            if function is None
            else _pickling.dump_value((function, arguments)),
            "threads": threads,
            "thread_variables": {name: os.environ.get(name) for name in THREAD_VARIABLES},
            "spin_us": spin_us,
        }
    )


def program(output: bool) -> dict[str, Any]:
    """The interpreter that zygotes are: its command line, environment, folder and umask."""
    if not sys.executable:
        raise StartError(
            "sys.executable is empty: Gristmill does not know which interpreter to start"
        )
    package_parent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command = [sys.executable, *flags, "-c", _BOOTSTRAP, package_parent]
    environment = {**os.environb, **{name.encode(): b"1" for name in THREAD_VARIABLES}}
    return {
        "arguments": [os.fsencode(part) for part in command],
        "environment": [name + b"=" + value for name, value in environment.items()],
        "directory": os.getcwdb(),
        "umask": _umask(),
        "output": output,
    }


def _umask() -> int:
    """The umask, read without changing it."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022


def enter(description: bytes) -> dict[str, Any]:
    """Makes this process's world that of the caller; gives the rest of the description."""
    world: dict[str, Any] = pickle.loads(description)
    sys.path[:] = world["path"]
    sys.argv[:] = world["argv"]
    try:
        locale.setlocale(locale.LC_ALL, world["locale"])
    except locale.Error as error:
        warnings.warn(f"the caller's locale is not available here: {error}", stacklevel=1)
    warnings.filters[:] = world["warnings"]  # type: ignore[index]
    for module in world["preload"]:
        importlib.import_module(module)
    return world


def settle(world: dict[str, Any]) -> None:
    """Makes a new worker itself: seeds of its own, its share of threads, output that is seen line by line."""
    for name, value in world["thread_variables"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, str(world["threads"]))
    if any(name in sys.modules for name in ("numpy", "scipy", "sklearn", "torch")):
        threadpoolctl = importlib.import_module("threadpoolctl")
        threadpoolctl.threadpool_limits(world["threads"])
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _seed_generators(os.urandom(16))


def _seed_generators(entropy: bytes) -> None:
    """Gives the global random generators that are loaded a state of their own."""
    random = sys.modules.get("random")
    if random is not None:
        random.seed(entropy)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(int.from_bytes(entropy[:4], "little"))


def _plain_filters() -> list[Any]:
    """The warning filters whose categories another process can import."""
    plain = []
    for one in warnings.filters:
        try:
            pickle.loads(pickle.dumps(one))
        except Exception:
            continue
        plain.append(one)
    return plain
