"""A user's ``pip install`` of the artifacts of ``./dev wheels``, on a machine without a compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from installed import (
    COMPILERS,
    DIST,
    Installed,
    artifacts,
    bench_wheel,
    content,
    install,
    interpreters,
    wheel_of_sdist,
    wheels,
)

#: Time limit, seconds: longer than compiling the sdist takes.
pytestmark = pytest.mark.timeout(1200)

MIB = 1 << 20
#: Most lines of Python in the engine's wheel that are not blank.
PYTHON_LINES_MAX = 34_000


@pytest.fixture(scope="session")
def path_without_compilers(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bin")
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            if not COMPILERS.match(program.name) and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


@pytest.fixture(scope="session", params=artifacts(), ids=lambda artifact: artifact.name)
def installed(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    path_without_compilers: str,
) -> Installed:
    """Returns the installed engine, from each artifact in turn."""
    artifact: Path = request.param
    folder = tmp_path_factory.mktemp("installed")
    found = interpreters()
    if artifact.suffix == ".whl":
        interpreter = found[artifact.name.split("-")[2]]
    else:
        interpreter = next(iter(found.values()), sys.executable)
        artifact = wheel_of_sdist(artifact, interpreter, folder)
    return install(artifact, interpreter, folder / "environment", path_without_compilers)


@pytest.fixture(params=wheels(), ids=lambda wheel: wheel.name)
def wheel(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_there_are_wheels_and_an_sdist() -> None:
    assert wheels()
    for distribution in ("gristmill", "gristmill_bench"):
        assert len(list(DIST.glob(f"{distribution}-*.tar.gz"))) == 1


def test_a_wheel_fits_systems_with_glibc_2_28(wheel: Path) -> None:
    command: list[str | Path] = [Path(sys.executable).parent / "auditwheel", "show", wheel]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    tag = re.search(r'platform tag: +"manylinux_2_(\d+)_', said.stdout.replace("\n", " "))
    assert tag is not None, said.stdout
    assert int(tag[1]) <= 28


def test_the_keeper_inside_the_module_fits_them_too(installed: Installed) -> None:
    """The module holds the keeper's executable, which auditwheel does not check."""
    if "manylinux" not in installed.artifact.name:
        pytest.skip("built on this machine, for this machine")
    data = installed.module.read_bytes()
    assert data.count(b"\x7fELF") >= 2
    versions = {
        (int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", data)
    }
    assert (2, 17) in versions
    assert max(versions) <= (2, 28)


def test_a_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= 3.5 * MIB
    assert sum(part.file_size for part in content(wheel)) <= 10 * MIB


def test_a_wheel_has_nothing_that_only_measures_or_demonstrates(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".py")]
        lines = [line for name in names for line in archive.read(name).splitlines()]
    folders = {part for name in names for part in Path(name).with_suffix("").parts}
    assert not folders & {"bench", "gristmill_bench", "benches", "taps", "screen"}
    assert sum(1 for line in lines if line.strip()) <= PYTHON_LINES_MAX


def test_no_path_of_the_building_machine_is_in_a_wheel(installed: Installed) -> None:
    if "manylinux" not in installed.artifact.name:
        pytest.skip("built on this machine, for this machine")
    data = installed.module.read_bytes()
    for path in (Path.home() / ".cargo", DIST.parent):
        assert str(path).encode() not in data


def test_the_first_result(installed: Installed) -> None:
    program = """from gristmill import Executor
if __name__ == "__main__":
    with Executor(2) as executor:
        print(executor.submit(pow, 2, 10).result(), sum(executor.map(abs, range(-100, 0))))"""
    assert installed.python(program) == "1024 5050\n"


def test_the_command(installed: Installed) -> None:
    done = installed.run("gristmill", "doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gristmill" in done.stdout


def test_the_bench_command_comes_with_its_own_wheel(
    tmp_path_factory: pytest.TempPathFactory, path_without_compilers: str
) -> None:
    (tag, interpreter), *_ = interpreters().items()
    (engine,) = (wheel for wheel in wheels() if tag in wheel.name.split("-"))
    folder = tmp_path_factory.mktemp("bench") / "environment"
    installed = install(engine, interpreter, folder, path_without_compilers)
    without = installed.run("gristmill", "bench", "list")
    assert (without.returncode, without.stdout) == (2, "")
    assert without.stderr.endswith("pip install gristmill-bench\n")
    installed.install(bench_wheel())
    done = installed.run("gristmill", "bench", "run", "--app", "fib", "--app.n", "8")
    assert done.returncode == 0, done.stderr
    assert "fib on gristmill: fib(8) = 21" in done.stdout


def test_a_parsl_program(installed: Installed) -> None:
    program = """import gristmill.parsl as parsl
from gristmill.parsl import bash_app, python_app
from gristmill.parsl.config import Config
from gristmill.parsl.executors import HighThroughputExecutor

@python_app
def double(x):
    return 2 * x

@bash_app
def say(text, stdout=None):
    return f"echo {text}"

if __name__ == "__main__":
    parsl.load(Config(executors=[HighThroughputExecutor(max_workers_per_node=2)]))
    print(double(double(double(1))).result(), say("hello", stdout="said.txt").result(), open("said.txt").read().strip())
    parsl.clear()"""
    assert installed.python(program) == "8 0 hello\n"


def test_agents_of_nodes(installed: Installed) -> None:
    program = """import os
from gristmill import Executor, on
if __name__ == "__main__":
    with Executor(1, nodes=on.local(2)) as executor:
        print(len(set(executor.map(int, range(100)))), executor.submit(os.getpid).result() != os.getpid())"""
    assert installed.python(program) == "100 True\n"


PANICS = """from gristmill import _native
try:
    _native.panic_on_purpose()
except BaseException as error:
    print(type(error).__name__, error)"""


def test_a_panic_names_its_place(installed: Installed) -> None:
    (installed.folder / "program.py").write_text(PANICS)
    done = installed.run("python", "program.py")
    assert done.stdout == "PanicException on purpose\n"
    assert re.search(r"panicked at crates/native/src/lib\.rs:\d+:\d+", done.stderr), done.stderr


def test_a_backtrace_names_lines_beside_the_debug_file(installed: Installed) -> None:
    if "manylinux" not in installed.artifact.name:
        pytest.skip("an sdist has no debug file")
    debug_file = DIST / "debug" / f"{installed.artifact.stem}.debug"
    line = re.compile(r"panic_on_purpose[^\n]*\n +at \S*crates/native/src/lib\.rs:\d+")
    (installed.folder / "program.py").write_text(PANICS)
    without = installed.run("python", "program.py", RUST_BACKTRACE="1")
    assert "stack backtrace" in without.stderr
    assert not line.search(without.stderr)
    beside = installed.module.parent / debug_file.name
    shutil.copy(debug_file, beside)
    done = installed.run("python", "program.py", RUST_BACKTRACE="1")
    beside.unlink()
    assert line.search(done.stderr), done.stderr
