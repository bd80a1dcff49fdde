"""A worker's world: what it takes over from the caller, and what is its own.

Taken over, as they are when the engine starts its zygote: the working directory, ``sys.path``, ``sys.argv``, the
environment, the umask, the locale, the warning filters and the interpreter's flags. Not taken over: ``logging``, which
is unconfigured, and the state of random generators, which are seeded anew in each worker (``random`` and numpy's global
one).
"""

from __future__ import annotations

import _locale
import builtins
import importlib
import marshal
import os
import sys
import warnings

from gristmill import _threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

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


#: Threads that the libraries in this worker may use.
_threads_of_worker = 1
#: What sets that in each of the libraries that are loaded here.
_threaded_libraries: Any = None

#: Flags of an interpreter that hardly any program is run with.
_RARE_FLAGS = (
    "debug",
    "optimize",
    "no_user_site",
    "no_site",
    "ignore_environment",
    "verbose",
    "bytes_warning",
    "quiet",
    "isolated",
    "dev_mode",
    "safe_path",
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
    return dump(
        {
            "path": [os.path.abspath(entry) for entry in sys.path],
            "argv": sys.argv,
            "locale": _locale.setlocale(_locale.LC_ALL, None),
            "warnings": [_dump_filter(one) for one in warnings.filters],
            "preload": preload,
            "initializer": _dump_initializer(*initializer),
            "threads": threads,
            "thread_variables": {name: os.environ.get(name) for name in THREAD_VARIABLES},
            "spin_us": spin_us,
        }
    )


def goes_by_value(function: object) -> bool:
    """Whether a function looks as if it cannot be imported by name; nothing depends on the guess but speed."""
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    return module == "__main__" or (isinstance(name, str) and "<" in name)


def _dump_initializer(
    function: Callable[..., object] | None, arguments: tuple[Any, ...]
) -> bytes | None:
    if function is None:
        return None
    from gristmill import _pickling

    return _pickling.dump_value((function, arguments))


def program(output: bool) -> dict[str, Any]:
    """The interpreter that zygotes are: its command line, environment, folder and umask."""
    if not sys.executable:
        from gristmill._errors import StartError

        raise StartError(
            "sys.executable is empty: Gristmill does not know which interpreter to start"
        )
    command = [sys.executable, *_interpreter_flags(), "-c", _BOOTSTRAP, package_parent()]
    environment = {**os.environb, **{name.encode(): b"1" for name in THREAD_VARIABLES}}
    return {
        "arguments": [os.fsencode(part) for part in command],
        "environment": [name + b"=" + value for name, value in environment.items()],
        "directory": os.getcwdb(),
        "umask": _umask(),
        "output": output,
    }


def package_parent() -> str:
    """The folder that this package is in."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _interpreter_flags() -> list[str]:
    """The flags that make another interpreter like this one: for most none, without loading what knows all of them."""
    if sys.warnoptions or sys._xoptions or any(getattr(sys.flags, name) for name in _RARE_FLAGS):
        import subprocess

        return subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined,no-any-return]
    return ["-B"] if sys.flags.dont_write_bytecode else []


def _umask() -> int:
    """The umask, read without changing it."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022


def enter(description: bytes, is_bare: bool = False) -> dict[str, Any]:
    """Makes this process's world that of the caller; gives the rest of the description.

    :param is_bare: nothing is imported that the caller wants preloaded or has filters for: it has packages of its own.
    """
    world: dict[str, Any] = load(description)
    is_node = "GRISTMILL_NODE_THREADS" in os.environ
    # On another node what the caller imports from may be elsewhere: where this interpreter finds things counts as well.
    own = [entry for entry in sys.path if is_node and os.path.isabs(entry)]
    sys.path[:] = world["path"] + [entry for entry in own if entry not in world["path"]]
    sys.argv[:] = world["argv"]
    try:
        _locale.setlocale(_locale.LC_ALL, world["locale"])
    except _locale.Error as error:  # type: ignore[attr-defined]
        warnings.warn(f"the caller's locale is not available here: {error}", stacklevel=1)
    filters = [_load_filter(one, is_bare) for one in world["warnings"]]
    warnings.filters[:] = [one for one in filters if one is not None]  # type: ignore[index]
    world["threads_by"] = None if is_bare else _threads.import_all(world["preload"])
    return world


def settle(world: dict[str, Any]) -> None:
    """Makes a new worker itself: seeds of its own, its share of threads, output that is seen line by line."""
    for name, value in world["thread_variables"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    global _threads_of_worker
    threads = world["threads"] or int(os.environ.get("GRISTMILL_NODE_THREADS", "1"))
    _threads_of_worker = threads
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, str(threads))
    find_threaded_libraries()
    if _threaded_libraries is not None:
        _threaded_libraries.limit(limits=threads)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _seed_generators(os.urandom(16))


def find_threaded_libraries() -> None:
    """Looks once which libraries that use threads are loaded: 10 ms, of which forks of this process are spared."""
    global _threaded_libraries
    if _threaded_libraries is None and has_threaded_libraries(sys.modules):
        _threaded_libraries = importlib.import_module("threadpoolctl").ThreadpoolController()


def threads_of_worker() -> int:
    """How many threads the libraries in this worker may use."""
    return _threads_of_worker


def has_threaded_libraries(modules: Mapping[str, object]) -> bool:
    """Whether a library that uses threads is loaded."""
    return any(name in modules for name in ("numpy", "scipy", "sklearn", "torch"))


def _seed_generators(entropy: bytes) -> None:
    """Gives the global random generators that are loaded a state of their own."""
    random = sys.modules.get("random")
    if random is not None:
        random.seed(entropy)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(int.from_bytes(entropy[:4], "little"))


def dump(description: Any) -> bytes:
    """Marshals a description, because ``pickle`` takes a zygote longer to load than all else that it needs."""
    try:
        return b"M" + marshal.dumps(description)
    except ValueError:  # an entry of sys.argv that is no plain string, for example
        import pickle

        return b"P" + pickle.dumps(description)


def load(data: bytes) -> Any:
    """Reads what ``dump`` wrote."""
    if data[:1] == b"M":
        return marshal.loads(data[1:])
    import pickle

    return pickle.loads(data[1:])


def _dump_filter(one: Any) -> Any:
    """A warning filter in plain types, or pickled, or ``None`` if another process cannot import its category."""
    action, message, category, module, line = one
    is_plain = getattr(builtins, category.__name__, None) is category
    if is_plain and all(type(part) in (str, type(None)) for part in (message, module)):
        return action, message, category.__name__, module, line
    import pickle

    try:
        pickled = pickle.dumps(one)
        pickle.loads(pickled)
    except Exception:
        return None
    return pickled


def _load_filter(one: Any, is_bare: bool) -> Any:
    """A filter that was dumped, or ``None`` if its category cannot be imported here, or must not be."""
    if isinstance(one, tuple):
        action, message, category, module, line = one
        return action, message, getattr(builtins, category), module, line
    if one is None or is_bare:
        return None
    import pickle

    try:
        return pickle.loads(one)
    except (ImportError, AttributeError):
        # A library that another node lacks, or has in another version.
        return None
