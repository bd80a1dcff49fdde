"""Signals that a batch system sends to every process of a job, and those of the programs that tasks start."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from gristmill import Executor, WorkerLostError, _native

import calls
from stage import Gate, Script, descent, lives

MakeExecutor = Callable[..., Executor]
REAL_TIME = signal.SIGRTMIN + 3

#: Ways to run a function: the statements that make ``submit``.
DIRECT = "executor = gristmill.Executor(1); submit = executor.submit"
WAYS = {
    "a forked worker": DIRECT,
    "an interpreter": 'executor = gristmill.Executor(1, start="spawn"); submit = executor.submit',
    "a worker of a context": """
        executor = gristmill.Executor(1)
        submit = executor.options(context=gristmill.Context(dict)).submit
    """,
    "a fork of a worker": """
        executor = gristmill.Executor(1)
        forks = gristmill.ContextCalls(mode="fork")
        submit = executor.options(context=gristmill.Context(dict, calls=forks)).submit
    """,
    "an interpreter for each call": """
        from gristmill._context.declare import with_reuse
        executor = gristmill.Executor(1)
        submit = executor.options(context=with_reuse(gristmill.Context(dict), "none")).submit
    """,
    "an executor in a task": """
        def within(function, *arguments):
            with gristmill.Executor(1) as inner:
                return inner.submit(function, *arguments).result()

        executor = gristmill.Executor(1)
        submit = lambda *arguments: executor.submit(within, *arguments)
    """,
    "a node": "executor = gristmill.Executor(nodes=gristmill.on.local(1)); submit = executor.submit",
}

#: A program that runs one task and another one after it. It takes the signal's number and the way to handle it.
PROGRAM = """
import signal, sys
import calls, gristmill

number = int(sys.argv[2])

def note(number, frame):
    print("handled", flush=True)

def note_once(number, frame):
    signal.signal(number, signal.SIG_DFL)
    print("handled", flush=True)

{handling}
{way}
held = submit(calls.enter, sys.argv[1])
print("submitted", flush=True)
held.result()
submit(calls.nothing).result()
print("completed", flush=True)
sys.stdin.read()
"""


def run_while_all_are_signalled(
    program: subprocess.Popen[str], gate: Gate, number: int, answer: str
) -> list[int]:
    """Sends a signal to the program and then to every process below it, and lets the task end. Returns the latter."""
    assert program.stdout is not None
    gate.wait_entered()
    assert program.stdout.readline() == "submitted\n"
    below = descent(program.pid)
    program.send_signal(number)
    if answer:
        assert program.stdout.readline() == answer
    for process in below:
        # A zygote may replace a process that it has forked ahead.
        with suppress(ProcessLookupError):
            os.kill(process, number)
    gate.open()
    said = program.stdout.readline()
    if said != "completed\n":
        raise AssertionError(f"{said} {program.communicate()[1]}")
    return below


def filled(way: str, handling: str = "signal.signal(number, note)") -> str:
    return PROGRAM.format(handling=handling, way=textwrap.dedent(way))


SIGNALS = [
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGALRM,
    signal.SIGXCPU,
    REAL_TIME,
]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_for_every_process_is_left_to_the_program(
    script: Script, gate: Gate, number: int
) -> None:
    with script.start(filled(DIRECT), gate.path, str(int(number))) as program:
        below = run_while_all_are_signalled(program, gate, number, "handled\n")
        assert [one for one in below if not lives(one)] == [], "nor does one have to be replaced"
        program.communicate()
    assert program.returncode == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_signal_for_every_process_ends_no_task_wherever_it_runs(
    script: Script, gate: Gate, way: str
) -> None:
    number = signal.SIGUSR1
    with script.start(filled(WAYS[way]), gate.path, str(int(number))) as program:
        run_while_all_are_signalled(program, gate, number, "handled\n")
        program.communicate()
    assert program.returncode == 0


#: Ways in which a program survives a signal without a usual handler, and what it prints then.
HANDLING = {
    "ignores it": ("signal.signal(number, signal.SIG_IGN)", ""),
    "blocks it": ("signal.pthread_sigmask(signal.SIG_BLOCK, [number])", ""),
    "handles it once": ("signal.signal(number, note_once)", "handled\n"),
}


@pytest.mark.parametrize("handling", HANDLING)
def test_it_is_enough_that_the_program_survives_the_signal(
    script: Script, gate: Gate, handling: str
) -> None:
    text, answer = HANDLING[handling]
    number = signal.SIGTERM
    with script.start(filled(DIRECT, text), gate.path, str(int(number))) as program:
        run_while_all_are_signalled(program, gate, number, answer)
        program.communicate()
    assert program.returncode == 0


def test_a_signal_that_the_program_waits_for_ends_no_task(script: Script, gate: Gate) -> None:
    """The kernel shows the signal as not blocked while the program waits for it."""
    program = script.start(
        """
        import signal, sys
        import calls, gristmill

        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        executor = gristmill.Executor(1)
        held = executor.submit(calls.enter, sys.argv[1])
        for _ in range(2):
            signal.sigwait([signal.SIGTERM])
            print("heard", flush=True)
        held.result()
        """,
        gate.path,
    )
    assert program.stdout is not None
    gate.wait_entered()
    below = descent(program.pid)
    program.send_signal(signal.SIGTERM)
    assert program.stdout.readline() == "heard\n"
    for process in below:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    program.send_signal(signal.SIGTERM)
    gate.open()
    _, errors = program.communicate()
    assert (program.returncode, errors) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2, REAL_TIME])
def test_a_signal_that_the_program_does_not_handle_ends_its_worker(
    make_executor: MakeExecutor, gate: Gate, number: int
) -> None:
    # The tests may have been started with the signal ignored.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        future = make_executor(1).submit(calls.enter, gate.path)
        os.kill(gate.wait_entered(), number)
        with pytest.raises(WorkerLostError) as caught:
            future.result()
    finally:
        signal.signal(number, before)
    name = "SIGRTMIN+3" if number == REAL_TIME else signal.Signals(number).name
    assert f"signal {int(number)} ({name})" in str(caught.value)


@pytest.fixture
def handled() -> Iterator[None]:
    """Makes this program handle SIGUSR1."""
    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: None)
    yield
    signal.signal(signal.SIGUSR1, before)


def die_by(way: str) -> None:
    if way == "kill":
        os.kill(os.getpid(), signal.SIGUSR1)
    elif way == "raise":
        signal.raise_signal(signal.SIGUSR1)
    else:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
    while True:
        signal.pause()


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize(
    ("way", "name"), [("kill", "SIGUSR1"), ("raise", "SIGUSR1"), ("alarm", "SIGALRM")]
)
def test_a_task_that_signals_itself_dies_of_it(
    make_executor: MakeExecutor, way: str, name: str
) -> None:
    with pytest.raises(WorkerLostError, match=name):
        make_executor(1).submit(die_by, way).result()


def enter_with_handlers(path: str) -> int:
    """Enters twice: with a handler of its own, and after the default has been restored."""
    found: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: found.append(number))
    calls.enter(path)
    signal.signal(signal.SIGUSR1, before)
    calls.enter(path)
    return len(found)


@pytest.mark.usefixtures("handled")
def test_a_tasks_own_handler_wins_until_it_restores_the_default(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    future = make_executor(1).submit(enter_with_handlers, gate.path)
    for _ in range(2):
        os.kill(gate.wait_entered(), signal.SIGUSR1)
        gate.open()
    assert future.result() == 1


def test_a_task_after_one_that_ran_an_event_loop_is_not_interrupted(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    """``asyncio.run`` sets a handler of the interrupt and restores Python's."""
    executor = make_executor(1)

    def run() -> None:
        async def nothing() -> None:
            pass

        asyncio.run(nothing())

    executor.submit(run).result()
    future = executor.submit(calls.enter, gate.path, 3)
    os.kill(gate.wait_entered(), signal.SIGINT)
    gate.open()
    assert future.result() == 3


#: Prints the signals that programs ignore, catch and block which the program starts itself, then those that a task
#: starts.
ACTIONS = """
import multiprocessing, os, signal, subprocess, sys
import calls, gristmill

COMMAND = ["cat", "/proc/self/status"]

def masks(status):
    return [line for line in status.splitlines() if line[:6] in ("SigBlk", "SigIgn", "SigCgt")]

def by_subprocess():
    return subprocess.run(COMMAND, stdout=subprocess.PIPE, text=True).stdout

def by_spawn():
    reader, writer = os.pipe()
    to = [(os.POSIX_SPAWN_DUP2, writer, 1)]
    process = os.posix_spawnp(COMMAND[0], COMMAND, os.environ, file_actions=to)
    return read(reader, writer, process)

def by_exec():
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.dup2(writer, 1)
        os.execvp(COMMAND[0], COMMAND)
    return read(reader, writer, process)

def read(reader, writer, process):
    os.close(writer)
    with open(reader) as file:
        text = file.read()
    os.waitpid(process, 0)
    return text

def look():
    return [masks(way()) for way in (by_subprocess, by_spawn, by_exec)]

{way}
expected, found = look(), submit(look).result()
assert len(expected[0]) == 3
print(found == expected, found, expected)
"""


@pytest.mark.parametrize("way", WAYS)
def test_programs_of_tasks_have_the_signals_of_programs_of_the_program(
    script: Script, way: str
) -> None:
    printed = script.run(ACTIONS.format(way=textwrap.dedent(WAYS[way])))
    assert printed.startswith("True"), printed


def end_of(number: int) -> int:
    with subprocess.Popen(["sleep", "3600"]) as program:
        program.send_signal(number)
        return program.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGUSR1])
def test_a_program_that_a_task_starts_can_be_ended_by_any_signal(
    shared: Executor, number: int
) -> None:
    assert shared.submit(end_of, number).result() == -number


def end_of_fork(number: int) -> int:
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.write(writer, b".")
            while True:
                signal.pause()
        except KeyboardInterrupt:
            os._exit(7)
    os.read(reader, 1)
    os.kill(process, number)
    _, status = os.waitpid(process, 0)
    os.close(reader)
    os.close(writer)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.usefixtures("handled")
def test_a_process_that_a_task_forks_responds_to_signals_as_without_gristmill(
    make_executor: MakeExecutor,
) -> None:
    executor = make_executor(1)
    found = [executor.submit(end_of_fork, one).result() for one in (signal.SIGINT, signal.SIGUSR1)]
    assert found == [7, -signal.SIGUSR1]


def test_every_signal_has_a_name() -> None:
    named = {int(one): one.name for one in signal.Signals}
    for number in signal.valid_signals():
        name = _native.signal_name(number)
        assert name == named.get(number, name)
        assert name.startswith("SIGRT") == (signal.SIGRTMIN <= number <= signal.SIGRTMAX)
