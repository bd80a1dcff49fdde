"""After an exception a kernel ends at once, without a wait for its tasks, and takes its jobs away."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from gristmill import on, parsl
from gristmill.parsl import Config, GristmillExecutor, ThreadPoolExecutor, python_app
from gristmill.parsl.dataflow.errors import DependencyError

import calls
from stage import Gate, Script

#: A program whose first task runs until a gate opens, which nothing does; the second task waits for a worker.
PROGRAM = """
import os, signal, sys
from gristmill import parsl
from gristmill.parsl import Config, GristmillExecutor, python_app

started, gate = sys.argv[1] + "/started", sys.argv[1] + "/gate"
os.mkfifo(started)
os.mkfifo(gate)

@python_app
def hold(started, gate):
    open(started, "w").close()
    open(gate).close()

def begin():
    global futures
    futures = [hold(started, gate), hold(started, gate)]
    open(started).close()

def end(error):
    print(type(error).__name__, futures[1].cancelled(), futures[0].exception())

config = Config(executors=[GristmillExecutor(max_workers=1)], run_dir=sys.argv[1])
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            """
try:
    with parsl.load(config):
        begin()
        signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt as error:
    end(error)
""",
            "KeyboardInterrupt",
        ),
        (
            """
try:
    with parsl.load(config):
        begin()
        raise OSError
except OSError as error:
    end(error)
""",
            "OSError",
        ),
        (
            """
try:
    kernel = parsl.load(config)
    try:
        begin()
        sys.exit(3)
    finally:
        kernel.cleanup()
except SystemExit as error:
    end(error)
""",
            "SystemExit",
        ),
    ],
)
def test_a_kernel_whose_block_raises_does_not_wait_for_its_tasks(
    script: Script, tmp_path: Path, text: str, said: str
) -> None:
    printed = script.run(PROGRAM + text, str(tmp_path))
    given_up = f"task 0.0 (hold) was given up: the program ended after {said}, before the task did"
    assert printed == f"{said} True {given_up}\n"


def test_a_program_that_an_exception_ends_does_not_wait_for_its_tasks(
    script: Script, tmp_path: Path
) -> None:
    program = script.start(PROGRAM + "parsl.load(config)\nbegin()\nraise OSError\n", str(tmp_path))
    with program:
        _, errors = program.communicate()
    assert program.returncode == 1
    assert "OSError" in errors


#: A program that prints an exception of a callback, as loops of events do, and then ends without ``cleanup``.
GOING_ON = """
import atexit, os, sys
from gristmill import parsl
from gristmill.parsl import Config, GristmillExecutor, python_app

gate, written = sys.argv[1] + "/gate", sys.argv[1] + "/written"
os.mkfifo(gate)
atexit.register(lambda: open(gate, "w").close())  # after the kernel's own function

@python_app
def hold(gate, written):
    open(gate).close()
    open(written, "w").close()

def call_back():
    try:
        raise OSError
    except OSError:
        sys.last_type, sys.last_value, sys.last_traceback = sys.exc_info()

parsl.load(Config(executors=[GristmillExecutor(max_workers=1)], run_dir=sys.argv[1]))
hold(gate, written)
call_back()
"""


def test_an_exception_of_a_callback_does_not_end_the_program(
    script: Script, tmp_path: Path
) -> None:
    script.run(GOING_ON, str(tmp_path))
    assert (tmp_path / "written").exists()


def test_tasks_that_wait_for_a_thread_are_cancelled(tmp_path: Path) -> None:
    gate = threading.Event()
    app, futures = python_app(gate.wait), []

    def run() -> None:
        executor = ThreadPoolExecutor(max_threads=1)
        with parsl.load(Config(executors=[executor], run_dir=str(tmp_path))):
            futures.extend(app() for _ in range(2))
            futures[1].add_done_callback(lambda _: gate.set())
            raise OSError

    with pytest.raises(OSError, match=r"^$"):
        run()
    assert futures[1].cancelled()
    assert futures[0].result()


def test_an_exception_from_before_the_kernel_ends_nothing(gate: Gate, tmp_path: Path) -> None:
    app = python_app(calls.enter)
    try:
        raise OSError
    except OSError:
        executors = [GristmillExecutor(max_workers=1), ThreadPoolExecutor(label="threads")]
        with parsl.load(Config(executors=executors, run_dir=str(tmp_path))):
            futures = [app(gate.path) for _ in range(4)]
            gate.close()
    assert [one.exception() for one in futures] == [None] * 4


def test_the_end_does_not_wait_for_a_node_that_does_not_answer(gate: Gate, tmp_path: Path) -> None:
    nodes = on.local(1, 1)
    executor = GristmillExecutor(nodes=nodes)
    app, futures = python_app(calls.enter), []

    def run() -> None:
        with parsl.load(Config(executors=[executor], run_dir=str(tmp_path))):
            futures.append(app(gate.path))
            futures.append(app(gate.path, futures[0]))
            gate.wait_entered()
            (agent,) = nodes.agents
            futures[0].add_done_callback(lambda _: agent.send_signal(signal.SIGCONT))
            agent.send_signal(signal.SIGSTOP)
            raise OSError

    with pytest.raises(OSError, match=r"^$"):
        run()
    said = "given up: the program ended after OSError, before the task did"
    assert said in str(futures[0].exception())
    assert isinstance(futures[1].exception(), DependencyError), "a node runs it behind the first"


class Queue:
    """A provider whose jobs wait for ever."""

    label = "queue"
    nodes_per_block = init_blocks = min_blocks = max_blocks = 1
    parallelism = 1.0
    cores_per_node = mem_per_node = None
    status_polling_interval = 1

    def __init__(self) -> None:
        self.has_job = threading.Event()
        self.cancelled: list[str] = []

    def submit(self, command: str, tasks_per_node: int, job_name: str = "") -> str:
        self.has_job.set()
        return "7"

    def status(self, jobs: list[str]) -> list[Any]:
        from gristmill.parsl.jobs.states import JobState, JobStatus

        return [JobStatus(JobState.PENDING) for _ in jobs]

    def cancel(self, jobs: list[str]) -> list[bool]:
        self.cancelled += jobs
        return [True] * len(jobs)


def test_jobs_in_the_queue_are_cancelled(tmp_path: Path) -> None:
    provider = Queue()
    executor = GristmillExecutor(provider=provider, max_workers_per_node=1)
    app, futures = python_app(abs), []

    def run() -> None:
        with parsl.load(Config(executors=[executor], run_dir=str(tmp_path))):
            futures.append(app(-1))
            provider.has_job.wait()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert provider.cancelled == ["7"]
    assert futures[0].cancelled()
