"""TaPS on our executor: what is registered, folders that are not TaPS, and TaPS itself where a checkout is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import Executor, Future
from pathlib import Path

import pytest

from gristmill_bench import taps

#: The parts of TaPS that are used: a registry, a base of configurations, and its command.
FAKE = {
    "__init__.py": "",
    "plugins.py": """
        REGISTERED = {}

        def register(kind):
            def decorate(cls):
                REGISTERED[kind, cls.model_fields["name"].default] = cls
                return cls
            return decorate
    """,
    "executor/__init__.py": """
        import abc
        from pydantic import BaseModel, ConfigDict

        class ExecutorConfig(abc.ABC, BaseModel):
            name: str
            model_config = ConfigDict(extra="forbid", validate_default=True)

            @abc.abstractmethod
            def get_executor(self): ...
    """,
    "run/__init__.py": "",
    "run/main.py": """
        import json
        from concurrent.futures import Executor, Future, wait
        from taps.plugins import REGISTERED

        def main(words):
            config = REGISTERED["executor", "gristmill"](**json.loads(words[0]))
            with config.get_executor() as executor:
                first = executor.submit(pow, 2, 3)
                second = executor.submit(pow, first, 2)
                wait([second])
                kinds = [isinstance(executor, Executor), isinstance(second, Future)]
                print(json.dumps([kinds, second.result(), config.model_dump()]))
            return 7
    """,
}


def checkout(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / "taps" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [line.removeprefix("        ") for line in text.splitlines()]
        path.write_text("\n".join(lines))
    return folder


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own, because imported modules stay loaded."""
    variables = {name: value for name, value in os.environ.items() if name != taps.VARIABLE}
    return subprocess.run(
        [sys.executable, "-m", "gristmill_bench.taps", *words],
        env=variables | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("way", ["--taps PATH", "--taps=PATH", "GRISTMILL_TAPS"])
def test_our_executor_is_registered_before_the_command_of_a_checkout_runs(
    way: str, tmp_path: Path
) -> None:
    place = str(checkout(tmp_path, FAKE))
    chosen = {"workers": 1, "loss_retries": 1 if way == "--taps PATH" else 0}
    words, environment = [json.dumps(chosen)], {}
    match way:
        case "--taps PATH":
            words = ["--taps", place, *words]
        case "--taps=PATH":
            words = [*words, f"--taps={place}"]
        case _:
            environment = {taps.VARIABLE: place}
    ended = run(*words, **environment)
    assert ended.returncode == 7, ended.stderr
    kinds, value, config = json.loads(ended.stdout)
    assert (kinds, value) == ([True, True], 64)
    assert config == {"name": "gristmill", "start": "fork", "spin_seconds": None} | chosen


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "is not a checkout of TaPS: it has no taps/plugins.py"),
        ({"__init__.py": "", "run.py": ""}, "is not a checkout of TaPS"),
        (
            FAKE | {"executor/__init__.py": "import not_to_be_found"},
            "TaPS needs not_to_be_found, which is not installed",
        ),
    ],
)
def test_what_is_no_checkout_is_refused(files: dict[str, str], says: str, tmp_path: Path) -> None:
    ended = run("--taps", str(checkout(tmp_path, files)))
    assert ended.returncode == 2
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr


def test_another_program_of_that_name_is_told_from_taps(tmp_path: Path) -> None:
    site = checkout(tmp_path, {"__init__.py": "", "cli.py": ""})
    described = site / "taps-0.2.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: taps\nVersion: 0.2.0\n")
    ended = run("--app", "cholesky", PYTHONPATH=str(site))
    assert ended.returncode == 2
    assert "of the distribution taps 0.2.0) is not TaPS" in ended.stderr
    assert "github.com/proxystore/taps" in ended.stderr


def test_a_path_that_is_missing_is_asked_for() -> None:
    ended = run("--taps")
    assert (ended.returncode, ended.stderr) == (2, "gristmill_bench.taps: --taps has no path\n")


def _reason() -> str | None:
    """Returns why TaPS itself cannot run, or ``None``. TaPS is searched where the command searches it."""
    if not os.environ.get(taps.VARIABLE):
        return f"{taps.VARIABLE} names no checkout of TaPS"
    ended = run("--help", **{taps.VARIABLE: os.environ[taps.VARIABLE]})
    return None if ended.returncode == 0 else ended.stderr.strip().splitlines()[-1]


APPS = {
    "cholesky": ["--app.matrix-size", "32", "--app.block-size", "8"],
    "synthetic": ["--app.structure", "diamond", "--app.task-count", "6"],
    "mapreduce": ["--app.generate", "true", "--app.generated-files", "2", "--app.map-tasks", "2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("app", APPS)
def test_taps_itself_runs_its_applications_on_us(app: str, tmp_path: Path) -> None:
    reason = _reason()
    if reason is not None:
        pytest.skip(reason)
    words = ["--app", app, *APPS[app], "--executor", "gristmill", "--engine.executor.workers", "2"]
    if app == "mapreduce":
        words += ["--app.data-dir", str(tmp_path / "texts")]
    where = ["--run.dir-format", str(tmp_path / "run")]
    ended = run(*words, *where, **{taps.VARIABLE: os.environ[taps.VARIABLE]})
    assert ended.returncode == 0, ended.stderr
    lines = (tmp_path / "run" / "tasks.jsonl").read_text().splitlines()
    assert lines
    assert all(json.loads(line)["success"] for line in lines)


def die_once(mark: Path) -> str:
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


def test_a_task_whose_worker_was_lost_is_repeated_as_often_as_asked_for(tmp_path: Path) -> None:
    with taps._Repeating(1, 1) as executor:
        future = executor.submit(die_once, tmp_path / "mark")
        assert isinstance(executor, Executor)
        assert isinstance(future, Future)
        assert future.result(60) == "survived"
