"""Command lines and environments of the interpreters that Gristmill starts on this machine, and their first step.

Such an interpreter imports the standard library and this package from where they are installed. The working directory
is not on its ``sys.path``, neither as the entry that Python adds for ``-c`` and ``-m`` nor as a relative entry of
``PYTHONPATH``. It gets the program's path only later, with the worker environment.

A start that leads to the program instead of an interpreter ends with ``StartError``: a variable marks each start, and
a program that finds the mark refuses to go on. So no chain of processes arises.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

#: The variable that marks a start until its interpreter has begun to run this package. Its value is the program's
#: ``PYTHONPATH`` if the interpreter has a shorter one, else empty.
VARIABLE = "GRISTMILL_START"
#: The first argument of a frozen program that is started to run a module of this package.
ARGUMENT = "--gristmill-start"
#: The beginning of the message of a program that was started as an interpreter.
NESTED = "a start within a start"
#: The name of the variable with folders of modules.
_PATH = "PYTHONPATH"

#: The script that an interpreter runs first. Its arguments are the name of a module of this package, and the arguments
#: of that module's ``main``.
_SCRIPT = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "_begin" + os.path.splitext(__file__)[1]
)
#: Flags of an interpreter that few programs are run with.
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
)

#: True in a process that this module has started.
_is_own = False
#: True if the main module of this frozen program has called ``freeze_support``.
_is_supported = False


def freeze_support() -> None:
    """Makes a frozen program able to start workers. Does nothing in other programs.

    Tools such as PyInstaller and cx_Freeze freeze a program: they put it into one executable with its interpreter. A
    frozen program calls this function in its main module, before anything else:

        if __name__ == "__main__":
            gristmill.freeze_support()
            main()

    Workers and the agents of ``gristmill.on.local`` are then further processes of the executable: in them this call
    does their work and does not return. A frozen program that makes an executor without this call gets ``StartError``.
    """
    global _is_supported
    if not _is_frozen():
        return
    _is_supported = True
    if sys.argv[1:2] == [ARGUMENT]:
        del sys.argv[1]
        run()


def check() -> None:
    """Raises ``StartError`` if this process cannot start an interpreter."""
    if VARIABLE in os.environ:
        _refuse(_NESTED.format(sys.executable))
    if not sys.executable:
        _refuse("sys.executable is empty: Gristmill does not know which interpreter to start")
    if _is_frozen() and not _is_supported:
        _refuse(_UNSUPPORTED.format(sys.executable))


def check_import() -> None:
    """Raises ``StartError`` if this process was started as an interpreter but runs a program."""
    # The argument is "-m" only until that module is found, so no program has it.
    is_interpreter = sys.argv[:1] in ([_SCRIPT], ["-m"])
    if VARIABLE in os.environ and not is_interpreter and sys.argv[1:2] != [ARGUMENT]:
        _refuse(_NESTED.format(sys.executable))


_UNSUPPORTED = (
    "this program is frozen: {} is the program itself, not an interpreter that could run workers. Call "
    "gristmill.freeze_support() first in its main module, under if __name__ == '__main__'"
)
_NESTED = (
    NESTED
    + ": Gristmill has started {} as an interpreter for workers, but it runs a program instead. "
    "In a frozen program call gristmill.freeze_support() first in the main module; in other programs set "
    "sys.executable to a Python interpreter"
)


def _refuse(reason: str) -> NoReturn:
    from gristmill._errors import StartError

    raise StartError(reason)


def _is_frozen() -> bool:
    """Returns whether ``sys.executable`` is a frozen program; not if the program has set it to an interpreter."""
    name = os.path.basename(sys.executable or "")
    return bool(getattr(sys, "frozen", False)) and name.rstrip("0123456789.t") != "python"


def command(module: str, *words: str, has_flags: bool = True) -> list[str]:
    """Returns the command line of a process that runs ``main`` of a module of this package with some words.

    Raises ``StartError`` if no interpreter can be started.

    :param has_flags: whether the interpreter gets the flags of this one.
    """
    check()
    if _is_frozen():
        return [sys.executable, ARGUMENT, module, *words]
    # The flags of a frozen program keep its interpreter from looking for packages.
    flags = _flags() if has_flags and not hasattr(sys, "frozen") else []
    # A frozen program that names an interpreter has the package in an archive, and the interpreter has its own.
    script = [_SCRIPT] if os.path.exists(_SCRIPT) else ["-P", "-m", "gristmill._begin"]
    return [sys.executable, *flags, *script, module, *words]


def interpreter() -> str:
    """Returns the path of the interpreter that runs this process.

    Raises ``StartError`` if there is none that runs any other program: this one is frozen.
    """
    if _is_frozen():
        _refuse(
            f"this program is frozen, and {sys.executable} is not an interpreter: name one where the program has the "
            "choice (python=), or set sys.executable to it"
        )
    check()
    return sys.executable


def variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the variables that a process started with ``command`` needs beyond an environment."""
    given = environment.get(_PATH, "")
    kept = _whole_path(given)
    return {VARIABLE: ""} if kept == given else {VARIABLE: given, _PATH: kept}


def _whole_path(path: str) -> str:
    """Returns the absolute entries of a search path, and the relative ones that this program's interpreter has used.

    A relative entry names another folder once the program has changed its working directory, and an empty one is that
    directory itself.
    """
    found = []
    for entry in path.split(os.pathsep) if path else ():
        whole = entry
        if not os.path.isabs(entry):
            try:
                whole = os.path.abspath(entry)
            except FileNotFoundError:
                continue
            if whole not in sys.path:
                continue
        found.append(whole)
    return os.pathsep.join(found)


def _flags() -> list[str]:
    """Returns the flags that make another interpreter like this one.

    Most interpreters have none, and then the module that knows all of them is not loaded.
    """
    if sys.warnoptions or sys._xoptions or any(getattr(sys.flags, name) for name in _RARE_FLAGS):
        import subprocess

        return subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined,no-any-return]
    safe = ["-P"] if sys.flags.safe_path else []
    return ["-B", *safe] if sys.flags.dont_write_bytecode else safe


def is_own() -> bool:
    """Returns whether this process was started with ``command``. Python's own first entry is then not on the path."""
    return _is_own


def run() -> NoReturn:
    """Runs the module that the command line names, beside an empty main module: that of the program is elsewhere."""
    global _is_own
    _is_own = True
    path = os.environ.pop(VARIABLE, "")
    if path:
        os.environ[_PATH] = path
    sys.modules["__main__"] = type(sys)("__main__")
    name = sys.argv.pop(1)
    __import__(name)
    sys.exit(sys.modules[name].main())
