"""Command lines that login shells, jobs and launchers of all kinds run as they are meant."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gristmill import Executor, on
from gristmill._nodes.shell import ExportingLauncher, after, for_any_shell, puts_words_before

from processes import Processes

pytestmark = pytest.mark.usefixtures("bare_home")

SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "busybox", "csh", "tcsh", "fish")
#: Texts that one shell or another changes.
TEXTS = [
    "two\nlines",
    "it's",
    '"quoted" $HOME `id` $(id)',
    "back\\slash \\n \\0101 \\\\",
    "bang! !! !$",
    "* ? [a-z] {a,b} ~ # % & | ; < > ( )",
    "p\u00e9age \u00fc \U0001f600",
    " leading and trailing ",
    "-n",
]


@pytest.fixture(params=SHELLS)
def login(request: pytest.FixtureRequest) -> list[str]:
    """Returns the beginning of a command that a login shell runs, as ``sshd`` begins it."""
    path = shutil.which(request.param)
    if path is None:
        pytest.skip(f"{request.param} is not installed")
    return [path, "sh", "-c"] if request.param == "busybox" else [path, "-c"]


#: Writes its arguments and its standard input.
_WRITER = "import sys; print(ascii(sys.argv[1:] + [sys.stdin.read()]))"


def words_of(login: Sequence[str], script: str, sent: str = "the key\n") -> list[str]:
    """Returns the words that a program gets, and what it reads."""
    command = [*login, for_any_shell(script)]
    said = subprocess.run(command, input=sent, capture_output=True, text=True, check=True)
    found: list[str] = eval(said.stdout.splitlines()[-1])
    return found


def test_words_arrive_as_they_are_in_each_shell(login: list[str]) -> None:
    program = [sys.executable, "-c", _WRITER, *TEXTS]
    assert words_of(login, after("", program)) == [*TEXTS, "the key\n"]


def test_commands_before_a_program_may_have_lines_and_quotes(login: list[str]) -> None:
    names = [f"A{number}" for number in range(len(TEXTS))]
    quoted = [f"{name}={shlex.quote(text)}" for name, text in zip(names, TEXTS, strict=True)]
    exports = "\n".join([*quoted, f"export {' '.join(names)} # a comment"])
    commands = f"{exports}\nif true; then\n  export B=2\nfi"
    seen = (
        f"import os, sys; print(ascii([*map(os.environ.get, {[*names, 'B']}), sys.stdin.read()]))"
    )
    found = words_of(login, after(commands, [sys.executable, "-c", seen]))
    assert found == [*TEXTS, "2", "the key\n"]


def test_commands_before_a_program_read_nothing_of_its_input(login: list[str]) -> None:
    program = [sys.executable, "-c", _WRITER, "x"]
    assert words_of(login, after("cat", program)) == ["x", "the key\n"]


def test_simple_commands_stay_readable() -> None:
    assert for_any_shell("exec /usr/bin/python3 -P -m it --name n1") == (
        "exec /usr/bin/python3 -P -m it --name n1"
    )
    assert "module load gcc" in for_any_shell(after("module load gcc", ["python3"]))


class Wrapped:
    """A launcher like Parsl's for containers: it puts words before the command."""

    def __call__(self, command: str, *_: object) -> str:
        return f"env MARK=1 {command}"


class Script:
    """A launcher that puts the command into a script, on a line of its own."""

    def __call__(self, command: str, *_: object) -> str:
        return f"set -e\nCMD() {{\n{command}\n}}\nCMD"


def _fails(*_: object) -> str:
    raise TypeError("it needs four arguments")


@pytest.mark.parametrize(
    ("launcher", "is_before"),
    [
        (Wrapped(), True),
        (Script(), False),
        (lambda command, *_: f"  {command}", False),
        (_fails, False),
    ],
)
def test_launchers_that_put_words_before_the_command_are_known(
    launcher: Callable[..., str], is_before: bool
) -> None:
    assert puts_words_before(launcher) is is_before


class Launched(Processes):
    """A provider that uses its launcher."""

    def __init__(self, launcher: object) -> None:
        super().__init__()
        self.launcher = launcher

    def submit(self, command: str, tasks_per_node: int, job_name: str) -> str:
        text = self.launcher(command, 1, 1, "")  # type: ignore[operator]
        return super().submit(f"{text}\ntrue", tasks_per_node, job_name)


@pytest.mark.parametrize("is_folder_shared", [True, False])
@pytest.mark.parametrize(("launcher", "mark"), [(Wrapped(), "1"), (Script(), None)])
def test_agents_start_within_each_launcher(
    launcher: object,
    mark: str | None,
    is_folder_shared: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    provider = Launched(launcher)
    placement = on.provider(provider, max_workers_per_node=1, is_folder_shared=is_folder_shared)
    for _ in range(2):  # with a key of its own each time
        with Executor(nodes=placement) as executor:
            assert executor.submit(os.getenv, "MARK").result() == mark
    lines = [line for command in provider.commands for line in command.splitlines()]
    assert not any("MARK=1" in line and "GRISTMILL_NODE_KEY=" in line for line in lines)
    provider.close()


def test_a_launcher_that_exports_a_key_does_not_show_it() -> None:
    wrapped = Wrapped()
    assert repr(ExportingLauncher(wrapped, "export KEY=secret")) == repr(wrapped)
