"""``import gristmill.parsl as parsl``: Parsl's module paths and names, with Parsl and without."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import gristmill
import gristmill.parsl
from gristmill.parsl._kernel.parsl_detection import is_parsl_installed

HERE = Path(__file__).parent
HAS_PARSL = is_parsl_installed()
needs_parsl = pytest.mark.skipif(not HAS_PARSL, reason="needs Parsl")
#: A first line that hides Parsl from a program.
WITHOUT_PARSL = "import sys; sys.modules['parsl'] = None\n"

_TABLE = tomllib.loads((HERE / "module_paths.toml").read_text())
#: The names of each path, also without Parsl.
NAMES: dict[str, list[str]] = {path: names.split() for path, names in _TABLE["names"].items()}
PARSL_ONLY: list[str] = _TABLE["parsl"]["only"].split()
PUBLIC = [
    "AUTO_LOGNAME",
    "Config",
    "DataFlowKernel",
    "File",
    "GristmillExecutor",
    "HighThroughputExecutor",
    "MonitoringHub",
    "ThreadPoolExecutor",
    "WorkQueueExecutor",
    "bash_app",
    "join_app",
    "python_app",
    "set_file_logger",
    "set_stream_logger",
]
#: Public names that `import *` omits, because they are everyday words.
MORE_PUBLIC = ["DataFlowKernelLoader", "clear", "dfk", "install", "load", "wait_for_current_tasks"]

#: Prints, for each path of a table of names, the names that are missing, or why it cannot be imported. It looks a path
#: up as a module, as an attribute, and by ``import *``.
FIND = """
import functools, importlib, json

def missing(path, names):
    full = f"gristmill.parsl.{path}".rstrip(".")
    try:
        module = importlib.import_module(full)
    except ImportError as error:
        return str(error)
    import gristmill
    assert functools.reduce(getattr, full.split(".")[1:], gristmill) is module
    everything = {}
    exec(f"from {full} import *", everything)
    return [name for name in names if not hasattr(module, name) or name not in everything]

print(json.dumps({path: missing(path, names) for path, names in json.load(sys.stdin).items()}))
"""


def _run(program: str, given: object = None) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, text=True, capture_output=True, input=json.dumps(given))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["as it is", "without Parsl"])
def missing(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """Returns the missing names of each path, with Parsl as this environment has it, or hidden."""
    prologue = WITHOUT_PARSL if request.param == "without Parsl" else "import sys\n"
    found: dict[str, list[str]] = json.loads(_run(prologue + FIND, NAMES))
    return found


@pytest.mark.parametrize("path", NAMES, ids=lambda path: path or "the package")
def test_each_path_has_its_names(missing: dict[str, list[str]], path: str) -> None:
    assert missing[path] == []


@pytest.fixture(scope="module")
def without_parsl() -> dict[str, str]:
    """Returns, for each module that only Parsl has, the error of its import where Parsl is hidden."""
    no_names: dict[str, list[str]] = {path: [] for path in PARSL_ONLY}
    found: dict[str, str] = json.loads(_run(WITHOUT_PARSL + FIND, no_names))
    return found


@pytest.mark.parametrize("path", PARSL_ONLY)
def test_a_module_that_only_parsl_has_says_what_to_install(
    without_parsl: dict[str, str], path: str
) -> None:
    assert "is a part of Parsl: pip install parsl" in without_parsl[path]


@pytest.fixture(scope="module")
def missing_of_parsl() -> dict[str, list[str]]:
    """Returns, for each module of Parsl, the public names that the module of the same path lacks here."""
    program = """
import contextlib, importlib, json, sys
sys.path.insert(0, sys.argv[1])
import surface

found = {}
for path in json.load(sys.stdin):
    ours = importlib.import_module(f"gristmill.parsl.{path}".rstrip("."))
    names = []
    # Some modules of Parsl need packages or programs that are not there.
    with contextlib.suppress(Exception):
        names = surface.public_names(importlib.import_module(f"parsl.{path}".rstrip(".")), "parsl")
    found[path] = [name for name in names if not hasattr(ours, name)]
print(json.dumps(found), file=sys.__stdout__)
"""
    command = [sys.executable, "-c", program, str(HERE)]
    given = json.dumps([*NAMES, *PARSL_ONLY])
    done = subprocess.run(command, text=True, capture_output=True, input=given)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@needs_parsl
@pytest.mark.parametrize("path", [*NAMES, *PARSL_ONLY], ids=lambda path: path or "the package")
def test_with_parsl_each_path_has_every_public_name_of_parsls(
    missing_of_parsl: dict[str, list[str]], path: str
) -> None:
    # There need not be a Parsl to name the version of.
    assert missing_of_parsl[path] == ([] if path else ["VERSION"])


@needs_parsl
def test_the_table_has_every_module_of_parsl() -> None:
    import parsl

    found = {
        module.name.removeprefix("parsl.")
        for module in pkgutil.walk_packages(parsl.__path__, "parsl.", onerror=lambda name: None)
        if not module.name.startswith("parsl.tests")
    }
    assert found == {*NAMES, *PARSL_ONLY} - {""}


def test_the_public_names() -> None:
    assert gristmill.parsl.__all__ == PUBLIC
    assert dir(gristmill.parsl) == sorted(PUBLIC + MORE_PUBLIC)
    with pytest.raises(AttributeError, match="nonsense"):
        gristmill.parsl.nonsense  # noqa: B018 - what is tested


def test_the_top_package_has_none_of_them() -> None:
    paths = {path.partition(".")[0] for path in NAMES if path}
    found = [name for name in [*PUBLIC, *MORE_PUBLIC, *paths] if hasattr(gristmill, name)]
    assert found == []
    with pytest.raises(ModuleNotFoundError):
        __import__("gristmill.config")


def test_the_import_loads_no_other_module() -> None:
    program = "import sys, gristmill; before = set(sys.modules)\nimport gristmill.parsl\n"
    program += "print(*set(sys.modules) - before)"
    assert _run(program).split() == ["gristmill.parsl"]


def test_the_names_can_be_imported_where_the_engine_does_not_run() -> None:
    program = "import sys; sys.platform = 'darwin'; sys.modules['gristmill._native'] = None\n"
    program += "from gristmill.parsl import *\n"
    program += "import gristmill.parsl\n"
    program += "try:\n    gristmill.parsl.load()\n"
    program += "except gristmill.StartError as error:\n    print(error)"
    assert "darwin" in _run(program)


def test_a_module_has_one_class_under_all_its_paths() -> None:
    from gristmill.parsl.executors import threads

    assert threads.__name__ == "gristmill.parsl.executors.threads"
    assert threads.ThreadPoolExecutor is gristmill.parsl.ThreadPoolExecutor
    assert threads.ThreadPoolExecutor is gristmill.parsl.executors.ThreadPoolExecutor
    assert gristmill.parsl.dataflow.futures.AppFuture is gristmill.parsl.dataflow.dflow.AppFuture


@pytest.mark.parametrize("name", ["nonsense", "executors.nonsense", "config.nonsense"])
def test_what_is_nowhere_is_not_found(name: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        __import__(f"gristmill.parsl.{name}")
    with pytest.raises(ImportError, match="nonsense"):
        from gristmill.parsl.executors import nonsense  # noqa: F401


def test_a_name_that_only_parsl_may_have_says_what_to_install() -> None:
    program = WITHOUT_PARSL + "try:\n    from gristmill.parsl.executors import Nonsense\n"
    program += "except ImportError as error:\n    print(error.name)\n"
    program += "import gristmill\ntry:\n    gristmill.parsl.executors.Nonsense\n"
    program += "except AttributeError as error:\n    print(error)\n"
    printed = _run(program).splitlines()
    assert printed[0] == "gristmill.parsl.executors"
    assert printed[1].endswith("if it is a part of Parsl: pip install parsl")


@needs_parsl
def test_parsls_own_parts_are_parsls_where_it_is_installed() -> None:
    import parsl

    ours: Any = gristmill.parsl
    assert ours.HighThroughputExecutor is parsl.HighThroughputExecutor
    assert ours.providers.LocalProvider is parsl.providers.LocalProvider
    assert ours.configs.local_threads.config.executors[0].label == "threads"
    assert ours.jobs.error_handlers is not None


@needs_parsl
def test_parsl_is_not_imported_by_a_program_that_needs_none_of_it(tmp_path: Path) -> None:
    program = f"""
import sys, gristmill.parsl as parsl
from gristmill.parsl.config import Config
from gristmill.parsl.dataflow.memoization import BasicMemoizer
from gristmill.parsl.executors.threads import ThreadPoolExecutor
hasattr(parsl, "nonsense")
@parsl.python_app
def double(value): return 2 * value
@parsl.bash_app
def true(): return "true"
@parsl.join_app
def again(value): return double(value)
with parsl.load(Config(run_dir={str(tmp_path)!r})):
    assert (double(double(1)).result(), true().result(), again(2).result()) == (4, 0, 4)
print([name for name in sys.modules if name.startswith("parsl")])
"""
    assert _run(program) == "[]\n"


@needs_parsl
@pytest.mark.parametrize(
    ("ours", "module", "theirs"),
    [
        ("AppTimeout", "parsl.app.errors", "AppTimeout"),
        ("DependencyError", "parsl.dataflow.errors", "DependencyError"),
        ("WorkerLostError", "parsl.executors.high_throughput.errors", "WorkerLost"),
        ("UnpicklableError", "parsl.serialize.errors", "SerializationError"),
    ],
)
def test_except_clauses_for_parsls_errors_catch_ours(ours: str, module: str, theirs: str) -> None:
    from gristmill.parsl._kernel import errors

    kind = getattr(errors, ours)
    assert issubclass(kind, getattr(__import__(module, fromlist=[theirs]), theirs))
    if ours in ("WorkerLostError", "UnpicklableError"):
        assert str(kind("what happened")) == "what happened"
