"""Kill campaigns of a small size, and the judge of campaigns.

``GRISTMILL_FAULT_SEEDS`` names how many seeds are tried (1 if not set). ``./dev chaos`` runs larger campaigns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from gristmill import Executor, _serving

from chaos import leftovers
from chaos.campaign import Report, Terms
from chaos.command import BROKEN, describe
from chaos.faults import FaultKind, draw_faults
from chaos.judge import Case, Ending, Outcome, judge
from chaos.leftovers import Before, memory_complaints
from chaos.mixture import BUDGET, Kind, Mode, TaskPlan, draw_task
from chaos.watchdog import HUNG
from chaos.witness import BEGIN, END, LOAD, Note, evidence_of, note, read

SEEDS = range(1, 1 + int(os.environ.get("GRISTMILL_FAULT_SEEDS", "1")))
TESTS = Path(__file__).parent


def run(arguments: Sequence[str], folder: Path) -> tuple[int, str]:
    """Runs a campaign's program; returns its exit status and what it printed."""
    paths = [str(TESTS), str(TESTS / "nodes"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment["TMPDIR"] = str(folder)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("mode", "tasks"), [("local", 2000), pytest.param("nodes", 1500, marks=pytest.mark.slow)]
)
def test_no_rule_is_broken_while_processes_are_killed(
    tmp_path: Path, mode: str, tasks: int, seed: int
) -> None:
    command = ["-m", "chaos", mode, "--tasks", str(tasks), "--seed", str(seed), "--patience", "80"]
    status, printed = run(command, tmp_path)
    assert status == 0, printed
    assert "fault: " in printed
    assert Ending.LOST.value in printed


def test_a_seed_gives_the_same_plan_in_each_process(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        from chaos.faults import draw_faults
        from chaos.mixture import Mode, draw_executor, draw_task
        for mode in Mode:
            print(draw_executor(mode, 7), draw_faults(mode, 7, 9000))
            print([draw_task(mode, 7, number) for number in range(500)])
    """)
    assert run(["-c", program], tmp_path) == run(["-c", program], tmp_path)
    plans = [draw_task(Mode.LOCAL, 7, number) for number in range(2000)]
    assert plans != [draw_task(Mode.LOCAL, 8, number) for number in range(2000)]
    assert {plan.kind for plan in plans} >= {Kind.NEST, Kind.LOAD, Kind.CONTEXT, Kind.TIMEOUT}
    assert draw_faults(Mode.LOCAL, 7, 9000) != draw_faults(Mode.LOCAL, 8, 9000)


def test_a_large_campaign_cuts_the_connections_for_a_minute_once() -> None:
    for tasks, count in ((1500, 0), (20_000, 1), (100_000, 1)):
        faults = draw_faults(Mode.NODES, 3, tasks)
        minutes = [one.seconds for one in faults if one.kind is FaultKind.CUT_MINUTE]
        assert minutes == [60.0] * count
    assert {one.kind for one in faults} >= {FaultKind.SILENCE_LONG, FaultKind.SILENCE_ONE}
    assert all(one.seconds == 5.0 for one in faults if one.kind is FaultKind.CUT_LONG)


#: Changes of the campaign's program that break a rule, and what the program then says.
BREAKS = {
    "a task that runs twice": (
        "Kind.TINY",
        "(tasks.tiny(path, number), tasks.tiny(path, number))[1]",
        "it ran 2 times, but has 1 attempts",
    ),
    "a wrong result": ("Kind.TINY", "tasks.tiny(path, number) + 1", "returned a wrong value"),
    "a task that does not run": ("Kind.TINY", "number", "and never ended"),
}
_CHANGED = """
import sys
from chaos import submission, tasks
from chaos.command import main
from chaos.mixture import Kind
submission._PLAIN[{kind}] = lambda path, number: {call}
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("name", BREAKS)
def test_a_campaign_that_breaks_a_rule_names_the_task_and_the_command(
    name: str, tmp_path: Path
) -> None:
    kind, call, said = BREAKS[name]
    program = _CHANGED.format(kind=kind, call=call)
    status, printed = run(["-c", program, "local", "--tasks", "60", "--seed", "5"], tmp_path)
    assert status == BROKEN, printed
    assert said in printed
    assert "BROKEN seed 5, task " in printed
    assert "Repeat: ./dev chaos local --tasks 60 --seed 5\n" in printed


def test_a_campaign_without_progress_ends_with_explanations_and_stacks(tmp_path: Path) -> None:
    program = _CHANGED.format(kind="Kind.TINY", call="tasks.sleep(path, number)")
    command = ["-c", program, "local", "--tasks", "60", "--seed", "5", "--patience", "1"]
    status, printed = run(command, tmp_path)
    assert status == HUNG, printed
    assert "HANG: nothing has ended" in printed
    assert "in _take_in" in printed, "the stack of the program"
    assert "runs on worker" in printed, "the explanation of a task"
    assert f"records of the tasks: {tmp_path}" in printed
    assert "Repeat: ./dev chaos local --tasks 60 --seed 5\n" in printed


PLAIN = TaskPlan(0, Kind.TINY)
WITH_BUDGET = TaskPlan(0, Kind.TINY, BUDGET)
AFTER = TaskPlan(1, Kind.AFTER, parent=0)
MAP = TaskPlan(0, Kind.MAP, children=(TaskPlan(1 << 32, Kind.TINY),))
PARENT = TaskPlan(0, Kind.NEST, children=(TaskPlan(1 << 32, Kind.TINY),))
RIGHT, LOST, NONE = Outcome(Ending.RIGHT), Outcome(Ending.LOST), Outcome(Ending.NONE)
WITH_CHILD = Outcome(Ending.RIGHT, children=(RIGHT,))
B, E = Note(0, BEGIN, 7), Note(0, END, 7)
CHILD = [Note(1 << 32, BEGIN, 8), Note(1 << 32, END, 8)]


def judged(
    plans: Sequence[TaskPlan],
    outcomes: Sequence[Outcome],
    notes: Sequence[Note],
    workers_lost: int = 100,
    deaths_max: int = 100,
    mode: Mode = Mode.LOCAL,
) -> list[str]:
    """Judges a campaign of these tasks; returns the complaints."""
    evidence = evidence_of(notes)
    plan_of = plans.__getitem__
    case = Case(mode, plan_of, outcomes, evidence, workers_lost, deaths_max)
    return [complaint.text for complaint in judge(case)]


@pytest.mark.parametrize(
    ("plans", "outcomes", "notes"),
    [
        ([PLAIN], [RIGHT], [B, E]),
        ([PLAIN], [LOST], [B]),
        ([PLAIN], [LOST], []),
        ([WITH_BUDGET], [RIGHT], [B, B, E]),
        ([WITH_BUDGET], [LOST], [B, B, B]),
        # The last attempt was killed before it recorded its begin.
        ([WITH_BUDGET], [LOST], [B, B]),
        # Its attempts were killed while they loaded the function.
        ([WITH_BUDGET], [Outcome(Ending.LOST, "killed while importing module numpy")], []),
        ([PARENT], [WITH_CHILD], [B, *CHILD, E]),
        ([PARENT], [LOST], [B, *CHILD]),
        ([PLAIN, AFTER], [LOST, Outcome(Ending.DEPENDENCY_FAILED)], [B]),
        ([TaskPlan(0, Kind.ABORT, BUDGET)], [LOST], [B, B, B]),
        ([TaskPlan(0, Kind.CANCEL)], [Outcome(Ending.CANCELLED, is_cancelled=True)], []),
        ([TaskPlan(0, Kind.EXPIRE)], [Outcome(Ending.TIMED_OUT)], []),
        ([MAP], [WITH_CHILD], CHILD),
        ([MAP], [Outcome(Ending.RIGHT, children=(LOST,))], CHILD[:1]),
    ],
)
def test_the_judge_accepts_what_the_rules_allow(
    plans: Sequence[TaskPlan], outcomes: Sequence[Outcome], notes: Sequence[Note]
) -> None:
    assert judged(plans, outcomes, notes) == []


@pytest.mark.parametrize(
    ("said", "plans", "outcomes", "notes"),
    [
        ("it ran 2 times, but has 1 attempts", [PLAIN], [RIGHT], [B, B, E]),
        ("it ran 2 times, but has 1 attempts", [PLAIN], [LOST], [B, B]),
        ("it ran 2 times, but has 1 attempts", [PLAIN], [LOST], [Note(0, LOAD, 7)] * 2),
        ("it ran 12 times, but has 11 attempts", [WITH_BUDGET], [RIGHT], [*[B] * 12, E]),
        ("it began 1 times and ended 2 times", [PLAIN], [RIGHT], [B, E, E]),
        ("has not ended", [PLAIN], [NONE], []),
        ("and returned a wrong value", [PLAIN], [Outcome(Ending.WRONG, "7")], [B, E]),
        ("and failed with another error", [PLAIN], [Outcome(Ending.FAILED)], [B]),
        ("and was lost with its worker", [WITH_BUDGET], [LOST], [B]),
        ("never ended", [PLAIN], [RIGHT], [B]),
        ("never ended", [PLAIN], [RIGHT], []),
        ("a process where it had not begun", [PLAIN], [RIGHT], [B, Note(0, END, 9)]),
        ("a task ran that was never submitted", [PLAIN], [RIGHT], [B, E, Note(5, BEGIN, 7)]),
        ("and returned the right value", [TaskPlan(0, Kind.ABORT)], [RIGHT], [B, E]),
        ("it has killed 4 workers", [TaskPlan(0, Kind.ABORT, BUDGET)], [LOST], [B] * 4),
        ("and returned the right value", [TaskPlan(0, Kind.TIMEOUT)], [RIGHT], [B, E]),
        (
            "and returned the right value",
            [PLAIN, AFTER],
            [LOST, RIGHT],
            [B, Note(1, BEGIN, 7), Note(1, END, 7)],
        ),
        (
            "it ran although a task among its arguments failed",
            [PLAIN, AFTER],
            [LOST, Outcome(Ending.DEPENDENCY_FAILED)],
            [B, Note(1, BEGIN, 7)],
        ),
        (
            "it ran although it was cancelled",
            [TaskPlan(0, Kind.CANCEL)],
            [Outcome(Ending.CANCELLED, is_cancelled=True)],
            [B],
        ),
        (
            "and returned the right value",
            [TaskPlan(0, Kind.CANCEL)],
            [Outcome(Ending.RIGHT, is_cancelled=True)],
            [B, E],
        ),
        (
            "it ran although its time to start was over",
            [TaskPlan(0, Kind.EXPIRE)],
            [Outcome(Ending.TIMED_OUT)],
            [B],
        ),
        ("it ran 2 times, but has 1 attempts", [MAP], [WITH_CHILD], [*CHILD, *CHILD]),
        ("never ended", [PARENT], [WITH_CHILD], [B, CHILD[0], E]),
        ("never ended", [MAP], [WITH_CHILD], []),
        ("its parent has no outcome of it", [MAP], [RIGHT], CHILD),
        (
            "and was lost with its worker",
            [TaskPlan(0, Kind.CANCEL_RUNNING)],
            [Outcome(Ending.LOST, is_cancelled=True)],
            [B],
        ),
        ("its parent has no outcome of it", [PARENT], [RIGHT], [B, *CHILD, E]),
        (
            "and returned a wrong value",
            [PARENT],
            [Outcome(Ending.RIGHT, children=(Outcome(Ending.WRONG),))],
            [B, *CHILD, E],
        ),
        ("it ran 2 times, but has 1 attempts", [PARENT], [WITH_CHILD], [B, *CHILD, *CHILD, E]),
        ("it ran 2 times, but has 1 attempts", [PARENT], [LOST], [B, *CHILD, *CHILD]),
    ],
)
def test_the_judge_complains_of_each_broken_rule(
    said: str, plans: Sequence[TaskPlan], outcomes: Sequence[Outcome], notes: Sequence[Note]
) -> None:
    found = judged(plans, outcomes, notes)
    assert any(said in text for text in found), found


def test_the_judge_complains_of_more_losses_than_deaths() -> None:
    plans = [TaskPlan(number, Kind.TINY) for number in range(3)]
    assert judged(plans, [LOST] * 3, [], deaths_max=3) == []
    (text,) = judged(plans, [LOST] * 3, [], deaths_max=2)
    assert "tasks that had not started were lost" in text
    (text,) = judged([MAP], [Outcome(Ending.RIGHT, children=(LOST,))], [], deaths_max=0)
    assert "tasks that had not started were lost" in text


def test_the_judge_expects_no_other_loss_where_a_task_killed_its_own_worker() -> None:
    plans = [TaskPlan(0, Kind.ABORT), TaskPlan(1, Kind.TINY)]
    notes = [B, Note(1, BEGIN, 7)]
    assert judged(plans, [LOST, LOST], notes, workers_lost=2) == []
    (text,) = judged(plans, [LOST, LOST], notes, workers_lost=1)
    assert "tasks that had not started were lost" in text


def test_the_witness_keeps_what_killed_processes_wrote(tmp_path: Path) -> None:
    path = tmp_path / "witness"
    program = (
        "import os; from chaos.witness import note; note('witness', 0, 5); os.kill(os.getpid(), 9)"
    )
    assert run(["-c", program], tmp_path)[0] == -9
    note(str(path), END, 5)
    first, second = read(path)
    assert (first.number, first.mark) == (5, BEGIN)
    assert second == Note(5, END, os.getpid())
    assert evidence_of([first, second]).strayed == {5}


def test_what_is_left_at_the_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TMPDIR", "XDG_RUNTIME_DIR", "GRISTMILL_CHAOS"):
        monkeypatch.setenv(variable, "")
    with Executor(1) as other:
        other.submit(int).result()
        # The socket for ``gristmill top``, which is made a moment later, and not among the files that are watched.
        while not all(server._opened for server in _serving._servers):
            other.submit(int).result()
        before = Before.now(tmp_path)
        assert list(before.complaints()) == []
    monkeypatch.setattr(leftovers, "_LEAVE_S", 0.0)
    left = subprocess.Popen(["sleep", "600"])
    (tmp_path / "tmp" / "forgotten").touch()
    with open(tmp_path / "opened", "w"):
        found = "\n".join(complaint.text for complaint in before.complaints())
    left.kill()
    left.wait()
    assert f"1 processes are left at the end:\n    {left.pid} sleep 600" in found
    assert str(tmp_path / "opened") in found
    assert str(tmp_path / "tmp" / "forgotten") in found


def test_a_node_can_be_lost_with_a_task_and_the_one_behind_it() -> None:
    ends = [LOST, Outcome(Ending.DEPENDENCY_FAILED)]
    notes = [B, E, Note(1, BEGIN, 7)]
    assert judged([PLAIN, AFTER], ends, notes, mode=Mode.NODES) == []
    (text,) = judged([PLAIN, AFTER], ends, notes)
    assert "it ran although a task among its arguments failed" in text
    raised = [Outcome(Ending.RAISED), Outcome(Ending.DEPENDENCY_FAILED)]
    plans = [TaskPlan(0, Kind.RAISE), AFTER]
    (text,) = judged(plans, raised, notes, mode=Mode.NODES)
    assert "it ran although a task among its arguments failed" in text


def test_growing_memory_is_a_broken_rule() -> None:
    assert list(memory_complaints(Mode.LOCAL, 1 << 20)) == []
    (complaint,) = memory_complaints(Mode.LOCAL, 100 << 20)
    report = Report(complaints=[complaint])
    printed = describe(Terms(Mode.LOCAL, 10, 3), report)
    assert "has grown by 100 MiB" in printed
    assert printed.endswith("1 broken rules. Repeat: ./dev chaos local --tasks 10 --seed 3")
