"""Programs that import Parsl run unchanged on Gristmill's kernel."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl._kernel.parsl_detection import is_parsl_installed

pytestmark = pytest.mark.skipif(not is_parsl_installed(), reason="needs Parsl")

PROGRAM = """
import os
import sys
import parsl
from parsl import Config, File, bash_app, join_app, python_app
from parsl.app.errors import BashExitFailure
from parsl.dataflow.errors import DependencyError
from parsl.dataflow.futures import AppFuture
from parsl.executors import ThreadPoolExecutor


@python_app
def double(value):
    return 2 * value


@python_app
def whose():
    return os.getpid()


@bash_app
def leave(code, stdout=None, stderr=None):
    return f"echo leaving; exit {code}"


@join_app
def again(value):
    return double(value)


if __name__ == "__main__":
    executors = [ThreadPoolExecutor(label="threads", max_threads=2)]
    config = Config(executors=executors, run_dir=sys.argv[1], initialize_logging=False)
    with parsl.load(config) as kernel:
        assert parsl.dfk() is kernel
        future = double(double(1))
        assert isinstance(future, AppFuture)
        assert (future.result(), again(4).result()) == (4, 8)
        out = os.path.join(sys.argv[1], "out")
        assert leave(0, stdout=out).result() == 0
        try:
            double(leave(3, stdout=os.devnull)).result()
        except DependencyError as error:
            assert isinstance(error.__cause__, BashExitFailure) and error.__cause__.exitcode == 3
        else:
            raise AssertionError
        print(open(out).read().strip(), type(kernel).__mro__[1].__module__, whose().result() == os.getpid())
"""


def _run(tmp_path: Path, *options: str, program: str = PROGRAM) -> Any:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "gristmill.parsl", *options, str(path), str(tmp_path / "runs")]
    return subprocess.run(command, text=True, capture_output=True, cwd=tmp_path)


@pytest.mark.parametrize(
    ("options", "is_here"), [((), "True"), (("--engine", "--workers", "1"), "False")]
)
def test_an_unmodified_program_runs(tmp_path: Path, options: tuple[str, ...], is_here: str) -> None:
    done = _run(tmp_path, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["leaving", "gristmill.parsl._kernel.kernel", is_here]


#: Apps of the main program that read what its globals hold, in each way that a call may take.
GLOBALS = """
import os
import sys
import parsl
from parsl import Config, bash_app, python_app
from parsl.executors import ThreadPoolExecutor

found = []
settings = {"factor": 1}
offset = 0


class Counter:
    value = 0


counter = Counter()


@python_app
def plain():
    return len(found), settings["factor"], offset, counter.value


@python_app
def with_inputs(inputs=[]):
    return len(found), settings["factor"], offset, counter.value


@python_app
def with_walltime(walltime=60):
    return len(found), settings["factor"], offset, counter.value


@bash_app
def shell(stdout=None):
    return f"echo {len(found)} {settings['factor']} {offset} {counter.value}"


if __name__ == "__main__":
    config = Config(executors=[ThreadPoolExecutor()], run_dir=sys.argv[1], initialize_logging=False)
    with parsl.load(config):
        for number in range(3):
            first = plain()
            assert first.result() == with_inputs(inputs=[first]).result() == with_walltime().result()
            path = os.path.join(sys.argv[1], f"out{number}")
            shell(stdout=path).result()
            print(*first.result(), "is", open(path).read().strip())
            found.append(number)
            settings["factor"] *= 2
            offset += 3
            counter.value -= 1
"""


@pytest.mark.parametrize("options", [(), ("--engine", "--workers", "1")])
def test_apps_see_what_the_globals_of_the_program_hold_at_each_call(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = _run(tmp_path, *options, program=GLOBALS)
    assert done.returncode == 0, done.stderr
    lines = [(number, 2**number, 3 * number, -number) for number in range(3)]
    texts = [" ".join(map(str, line)) for line in lines]
    assert done.stdout.splitlines() == [f"{text} is {text}" for text in texts]


#: Apps whose failures Parsl sends as values. `inputs` makes the kernel run the steps of the call.
COUNTS = """
import sys
import parsl
from parsl import Config, bash_app, python_app
from parsl.executors import ThreadPoolExecutor


@python_app
def divide(by, inputs=[]):
    return 1 / by


@bash_app
def leave(code):
    return f"exit {code}"


if __name__ == "__main__":
    executors = [ThreadPoolExecutor()]
    config = Config(executors=executors, run_dir=sys.argv[1], initialize_logging=False, retries=2)
    with parsl.load(config) as kernel:
        calls = [divide(1, inputs=[0]), divide(0, inputs=[0]), leave(0), leave(3)]
        print([call.exception() is None for call in calls])
        print({state.name: count for state, count in kernel.task_state_counts.items() if count})
"""


@pytest.mark.parametrize("options", [(), ("--engine", "--workers", "1")])
def test_each_call_counts_once_whatever_its_attempts_were(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = _run(tmp_path, *options, program=COUNTS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[True, False, True, False]",
        "{'exec_done': 2, 'failed': 2}",
    ]


#: An app that waits for something of its own, which was cancelled.
CANCELLED_INSIDE = """
import sys
import parsl
from parsl import Config, python_app
from parsl.executors import ThreadPoolExecutor


@python_app
def inner(inputs=[]):
    from concurrent.futures import CancelledError

    raise CancelledError("inner")


if __name__ == "__main__":
    executors = [ThreadPoolExecutor()]
    config = Config(executors=executors, run_dir=sys.argv[1], initialize_logging=False, retries=1)
    with parsl.load(config):
        for call in (inner(), inner(inputs=[1])):
            print(repr(call.exception()), call.cancelled(), call.task_status())
"""


@pytest.mark.parametrize("options", [(), ("--engine", "--workers", "1")])
def test_a_call_that_raises_cancelled_error_has_failed(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = _run(tmp_path, *options, program=CANCELLED_INSIDE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["CancelledError('inner') False failed"] * 2


#: A mistake that Parsl's configuration accepts, and only the kernel sees.
MISTAKE = """
import sys
import parsl
from parsl import Config
from parsl.executors import ThreadPoolExecutor

parsl.load(Config(executors=[ThreadPoolExecutor()], run_dir=sys.argv[1], strategy="simpel"))
"""


def test_a_strategy_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    done = _run(tmp_path, program=MISTAKE)
    assert done.returncode == 1
    assert "TypeError: strategy must be one of ('simple', " in done.stderr
    assert "not 'simpel'" in done.stderr


#: The example of Parsl's documentation: an estimate of pi, of which each part is an app with futures as arguments.
PI = """
import parsl
from parsl import python_app

parsl.load()


@python_app
def pi(num_points):
    from random import Random

    random = Random(num_points)
    inside = 0
    for i in range(num_points):
        x, y = random.random(), random.random()
        if x**2 + y**2 < 1:
            inside += 1
    return inside * 4 / num_points


@python_app
def mean(a, b, c):
    return (a + b + c) / 3


a, b, c = pi(10**5), pi(10**5 + 1), pi(10**5 + 2)
mean_pi = mean(a, b, c)
print("a: {:.5f} b: {:.5f} c: {:.5f}".format(a.result(), b.result(), c.result()))
print("Average: {:.5f}".format(mean_pi.result()))
"""


@pytest.mark.parametrize("options", [(), ("--engine",)])
def test_an_estimate_of_pi_is_the_one_of_parsl(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "program.py").write_text(PI)
    ours = _ends(tmp_path, "-m", "gristmill.parsl", *options, "program.py")
    assert ours[0] == 0, ours[2]
    assert ours[:2] == _ends(tmp_path, "program.py")[:2]


#: Programs by the behaviour that they show.
LIKE_PYTHON = {
    "names of __main__": """
        \"\"\"What it is about.\"\"\"
        import sys

        main = vars(sys.modules["__main__"])
        for name in sorted(main):
            if name.startswith("__"):
                value = main[name]
                print(name, type(value) if name in ("__builtins__", "__loader__") else repr(value))
    """,
    "arguments and paths": """
        import sys

        print(sys.argv, sys.path, __file__)
    """,
    "modules beside it": "import beside; print(beside.name)",
    "__file__ after a change of the folder": """
        import os
        import tempfile

        os.chdir(tempfile.mkdtemp())
        print(os.path.isabs(__file__), os.path.exists(__file__), open(__file__).read())
    """,
    "spawned processes": """
        import multiprocessing

        def double(value):
            return 2 * value

        if __name__ == "__main__":
            for method in ("spawn", "forkserver", "fork"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(method, pool.map(double, [1, 2]))
    """,
    "annotations that are values": """
        def function(value: 1 + 1):
            pass

        print(function.__annotations__)
    """,
    "pickles of its own functions": """
        import pickle

        def function():
            pass

        print(pickle.loads(pickle.dumps(function)) is function)
    """,
    "an exit code": "raise SystemExit(7)",
    "a text to leave with": "import sys; sys.exit('leaving')",
    "an exception": """
        def divide():
            return 1 / 0

        try:
            divide()
        except ZeroDivisionError as error:
            raise KeyError("missing") from error
    """,
    "an exception that nothing may be set on": """
        class Frozen(Exception):
            def __setattr__(self, name, value):
                raise TypeError(name)

        raise Frozen("frozen")
    """,
    "a group of exceptions": "raise ExceptionGroup('several', [ValueError(1), TypeError(2)])",
    "a syntax error": "def function(:",
    "a hook for exceptions": """
        import sys
        import traceback

        def hook(kind, error, trace):
            print(kind, error, [frame.name for frame in traceback.extract_tb(trace)])

        sys.excepthook = hook
        raise ValueError("hooked")
    """,
    # The tests may have been started with interrupts ignored.
    "an interrupt": """
        import signal

        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)
    """,
    "an exception at exit": """
        import atexit

        @atexit.register
        def fail():
            raise ValueError("late")
    """,
}


_ADDRESS = re.compile("0x[0-9a-f]+")


def _ends(tmp_path: Path, *command: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *command, "one", "--two", "--", "-3"],
        text=True,
        capture_output=True,
        cwd=tmp_path,
    )
    printed, errors = (_ADDRESS.sub("", text) for text in (done.stdout, done.stderr))
    return done.returncode, printed, errors


@pytest.mark.parametrize("what", LIKE_PYTHON)
def test_a_program_runs_as_python_runs_it(tmp_path: Path, what: str) -> None:
    (tmp_path / "beside.py").write_text("name = 'beside'")
    (tmp_path / "program.py").write_text(textwrap.dedent(LIKE_PYTHON[what]))
    assert _ends(tmp_path, "-m", "gristmill.parsl", "program.py") == _ends(tmp_path, "program.py")


@pytest.mark.parametrize("options", [("folder",), ("archive.zip",), ("-m", "folder"), ("link.py",)])
@pytest.mark.parametrize("what", ["names of __main__", "arguments and paths", "an exception"])
def test_folders_archives_modules_and_links_run_as_python_runs_them(
    tmp_path: Path, options: tuple[str, ...], what: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "__main__.py").write_text(textwrap.dedent(LIKE_PYTHON[what]))
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.write(folder / "__main__.py", "__main__.py")
    (tmp_path / "link.py").symlink_to(folder / "__main__.py")
    ours = _ends(tmp_path, "-m", "gristmill.parsl", *options)
    assert ours == _ends(tmp_path, *options)


@pytest.mark.parametrize("options", [("missing.py",), ("-m", "missing"), (".",)])
def test_what_cannot_be_run_is_said_as_python_says_it(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    assert _ends(tmp_path, "-m", "gristmill.parsl", *options) == _ends(tmp_path, *options)


def test_the_search_path_is_left_alone_where_it_is_safe(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print(sys.path, sys.flags.safe_path)")
    ours = _ends(tmp_path, "-P", "-m", "gristmill.parsl", "program.py")
    assert ours == _ends(tmp_path, "-P", "program.py")


MONITORED = """
import os
import sqlite3
import parsl
from parsl.monitoring import MonitoringHub
from parsl.executors import ThreadPoolExecutor


@parsl.python_app
def double(value):
    return 2 * value


if __name__ == "__main__":
    hub = MonitoringHub(resource_monitoring_enabled=False, workflow_name="it")
    config = parsl.Config(executors=[ThreadPoolExecutor()], monitoring=hub, initialize_logging=False)
    with parsl.load(config):
        print([double(value).result() for value in range(3)])
    with sqlite3.connect("runinfo/monitoring.db") as found:
        print(found.execute("SELECT workflow_name, tasks_completed_count FROM workflow").fetchall())
        print(found.execute("SELECT count(*) FROM task").fetchall())
"""


def test_parsls_own_monitoring_works(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="Parsl is installed without its extra `monitoring`")
    (tmp_path / "program.py").write_text(MONITORED)
    expected = (0, "[0, 2, 4]\n[('it', 3)]\n[(3,)]\n", "")
    assert _ends(tmp_path, "-m", "gristmill.parsl", "program.py") == expected
