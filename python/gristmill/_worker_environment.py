"""The worker environment: the state that a worker takes over from the caller, and the state that is its own.

A worker takes over the state at the time when the engine starts its zygote: the working directory, ``sys.path``,
``sys.argv``, the environment variables, the umask, the locale, the warning filters, the interpreter's flags, its
settings (``_settings``), and the key of ``multiprocessing``. It does not take over ``logging``, which is unconfigured,
signal handlers, and the state of random generators, which are seeded anew in each worker (``random`` and numpy's global
one).

Both sides load this module on the way to a program's first result. Modules that only one of them needs are imported
where it uses them.
"""

from __future__ import annotations

import _locale

# The core of the module `warnings`, which few workers load.
import _warnings
import builtins
import marshal
import os
import sys

from gristmill import _creation_sites, _identity, _native, _settings, _starting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: Thread variables of the numeric libraries. All are 1 while the zygote imports, because it must stay single-threaded.
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
#: Controller that sets that number in each of the loaded libraries.
_threaded_libraries: Any = None


class Steps:
    """Steps that run before the first task, and the seconds that each of them may take."""

    def __init__(
        self,
        initializer: tuple[Callable[..., object] | None, tuple[Any, ...]],
        preload: tuple[str, ...],
        timeout: float | None,
    ) -> None:
        self.initializer = initializer
        self.preload = preload
        self.timeout = timeout


def describe(
    steps: Steps, needs_pickling: bool, threads: int, spin_us: float, site: tuple[Any, ...]
) -> bytes:
    """Describes the environment of this process to a zygote. Raises ``UnpicklableError`` for the initializer.

    :param needs_pickling: whether workers will read pickles of functions by value.
    :param site: the creation site of the executor.
    """
    # Not the first list of the module: code that catches warnings replaces the list.
    import warnings

    return dump(
        {
            "path": _absolute(sys.path),
            "is_frozen": hasattr(sys, "frozen"),
            "argv": sys.argv,
            "locale": _locale.setlocale(_locale.LC_ALL, None),
            "warnings": [_dump_filter(one) for one in warnings.filters],
            "preload": steps.preload,
            "needs_pickling": needs_pickling,
            "initializer": _dump_initializer(*steps.initializer),
            "start_timeout": steps.timeout,
            "threads": threads,
            "thread_variables": {name: os.environ.get(name) for name in THREAD_VARIABLES},
            "spin_us": spin_us,
            "settings": _settings.read(),
            "key": _identity.key_of_program(),
            "handled_signals": _native.handled_signals(),
            "site": site,
        }
    )


def _absolute(entries: list[str]) -> list[str]:
    """Returns the absolute entries of a path, without those of a working directory that is gone."""
    found = []
    for entry in entries:
        try:
            found.append(os.path.abspath(entry))
        except FileNotFoundError:
            continue
    return found


def _directory() -> bytes:
    """Returns the working directory; if it was removed, a path that leads to it while this process lives."""
    try:
        return os.getcwdb()
    except FileNotFoundError:
        return b"/proc/%d/cwd" % os.getpid()


def goes_by_value(function: object) -> bool:
    """Returns whether a function looks as if it cannot be imported by name. Only speed depends on the guess."""
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    return module == "__main__" or (isinstance(name, str) and "<" in name)


def _dump_initializer(
    function: Callable[..., object] | None, arguments: tuple[Any, ...]
) -> bytes | None:
    if function is None:
        return None
    from gristmill import _pickling

    named = [("initializer", function)]
    named += [(f"initargs[{place}]", argument) for place, argument in enumerate(arguments)]
    return _pickling.dump_value((function, arguments), named=named)


def program(output: bool) -> dict[str, Any]:
    """Returns the program of a zygote: its command line, environment, working directory, umask and output.

    Raises ``StartError`` if this process cannot start an interpreter.
    """
    command = _starting.command("gristmill._zygote")
    variables = {**dict.fromkeys(THREAD_VARIABLES, "1"), **_starting.variables()}
    environment = {
        **os.environb,
        **{os.fsencode(name): os.fsencode(value) for name, value in variables.items()},
    }
    return {
        "arguments": [os.fsencode(part) for part in command],
        "environment": [name + b"=" + value for name, value in environment.items()],
        "directory": _directory(),
        "umask": _umask(),
        "output": output,
    }


def _umask() -> int:
    """Returns the umask. Changes it for a moment, to a stricter one, only if the kernel's file cannot be read."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def enter(description: bytes, is_bare: bool = False) -> dict[str, Any]:
    """Makes the environment of this process the caller's, except for preloads. Returns the rest of the description.

    :param is_bare: whether nothing is imported that the caller preloads or has filters for, because this process has
        packages of its own.
    """
    from gristmill import _watch

    _watch.begin()
    environment: dict[str, Any] = load(description)
    _creation_sites.enter(environment["site"])
    _settings.apply(environment["settings"])
    _native.note_handled_signals(environment["handled_signals"])
    sys.path[:] = _path_of(environment)
    sys.argv[:] = environment["argv"]
    try:
        _locale.setlocale(_locale.LC_ALL, environment["locale"])
    except _locale.Error as error:  # type: ignore[attr-defined]
        import warnings

        warnings.warn(f"the caller's locale is not available here: {error}", stacklevel=1)
    filters = [_load_filter(one, is_bare) for one in environment["warnings"]]
    _warnings.filters[:] = [one for one in filters if one is not None]
    if is_bare:
        environment["preload"], environment["needs_pickling"] = (), False
    return environment


def _path_of(environment: dict[str, Any]) -> list[str]:
    """Returns the path of a worker: the caller's, and in some cases that of this interpreter."""
    theirs: list[str] = environment["path"]
    own = [entry for entry in sys.path if os.path.isabs(entry)]
    if environment["is_frozen"] and not hasattr(sys, "frozen"):
        # The folders of a frozen program hold parts of packages, which only its own importer completes.
        return own
    if "GRISTMILL_NODE_THREADS" in os.environ:
        # On another node the caller's modules may be elsewhere.
        return theirs + [entry for entry in own if entry not in theirs]
    return theirs


def preload(environment: dict[str, Any]) -> str | None:
    """Imports what the caller wants preloaded. Returns the name of the first module that started threads.

    An import that takes longer than the caller allows, or crashes, ends this process, which reports where it was.
    """
    by = None
    if environment["preload"]:
        from gristmill import _loading, _steps, _threads

        with (
            _steps.Step(environment["start_timeout"]),
            _loading.Load("importing the modules of preload", "for preload"),
        ):
            by = _threads.import_all(environment["preload"])
    if environment["needs_pickling"]:
        from gristmill import _pickling  # noqa: F401
    return by


def settle(environment: dict[str, Any]) -> None:
    """Prepares a new worker: its share of threads and its own seeds."""
    for name, value in environment["thread_variables"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    global _threads_of_worker
    threads = environment["threads"] or int(os.environ.get("GRISTMILL_NODE_THREADS", "1"))
    _threads_of_worker = threads
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, str(threads))
    settle_libraries()


def settle_libraries() -> None:
    """Gives the loaded libraries this worker's share of threads, and random generators seeds of their own."""
    find_threaded_libraries()
    if _threaded_libraries is not None:
        _threaded_libraries.limit(limits=_threads_of_worker)
    _seed_generators(os.urandom(16))


def find_threaded_libraries() -> None:
    """Finds once which of the loaded libraries use threads. It takes 10 ms, which forks of this process save."""
    global _threaded_libraries
    if _threaded_libraries is None and has_threaded_libraries(sys.modules):
        from threadpoolctl import ThreadpoolController

        _threaded_libraries = ThreadpoolController()


def threads_of_worker() -> int:
    """Returns the number of threads that the libraries in this worker may use."""
    return _threads_of_worker


def usable_cores() -> int:
    """Returns the number of cores for the workers of an executor that this process makes.

    In a worker that is the share that its libraries have: the other workers use the rest.
    """
    return _threads_of_worker if _creation_sites.is_worker() else _native.cpu_count()


def has_threaded_libraries(modules: Mapping[str, object]) -> bool:
    """Returns whether a library that uses threads is loaded."""
    return any(name in modules for name in ("numpy", "scipy", "sklearn", "torch"))


def _seed_generators(entropy: bytes) -> None:
    """Gives the loaded global random generators a state of their own."""
    random = sys.modules.get("random")
    if random is not None:
        random.seed(entropy)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(int.from_bytes(entropy[:4], "little"))


def dump(description: Any) -> bytes:
    """Marshals a description. A zygote would take longer to load ``pickle`` than all else that it needs."""
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
    """Returns a warning filter in plain types, or pickled; ``None`` if another process cannot import its category."""
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
    """Returns a filter that was dumped; ``None`` if its category cannot be imported here, or must not be."""
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
