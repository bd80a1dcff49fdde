"""A campaign: it submits the tasks of a plan, lets the faults happen, and hands all that it saw to the judge."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import itertools
import os
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gristmill import Executor, Stats

from chaos import processes
from chaos.faults import FaultKind, Injector, Network, draw_faults
from chaos.judge import Case, Complaint, Ending, Outcome, judge, judge_runs
from chaos.leftovers import Before, memory_complaints
from chaos.mixture import Kind, Mode, TaskPlan, draw_executor, draw_task
from chaos.submission import Submitter, cancel, outcome_of
from chaos.watchdog import Watchdog
from chaos.witness import evidence_of, read

#: Futures whose explanation the report of a hang has, and broken rules that it names.
_EXPLAINED = 20
#: Seconds of one wait for a task. After it, tasks that hold workers until they are cancelled are cancelled.
_LOOK_S = 0.2


@dataclass(frozen=True)
class Terms:
    """The arguments of the command."""

    mode: Mode
    tasks: int
    seed: int
    #: Seconds without any progress after which the campaign hangs.
    patience_s: float = 120.0

    @property
    def command(self) -> str:
        """The command that repeats the campaign."""
        return f"./dev chaos {self.mode} --tasks {self.tasks} --seed {self.seed}"

    def plan_of(self, number: int) -> TaskPlan:
        """Returns the plan of a task."""
        return draw_task(self.mode, self.seed, number)


@dataclass
class Report:
    """Findings of a campaign."""

    complaints: list[Complaint] = field(default_factory=list)
    endings: Counter[Ending] = field(default_factory=Counter)
    faults: Counter[FaultKind] = field(default_factory=Counter)
    #: Tasks and children that ran, and runs of them.
    ran: int = 0
    runs: int = 0
    stats: Stats = field(default_factory=Stats)
    #: Growth of the client's private memory after a quarter of the tasks, bytes.
    growth: int = 0


@dataclass
class _Outstanding:
    plan: TaskPlan
    future: Any
    is_cancelled: bool = False


class Campaign:
    """One run of a plan, in this process. A hang ends the process."""

    def __init__(self, terms: Terms, folder: Path) -> None:
        self._terms = terms
        self._plan = draw_executor(terms.mode, terms.seed)
        self._folder = folder
        self._witness = folder / "witness"
        self._outcomes = [Outcome(Ending.NONE)] * terms.tasks
        self._outstanding: deque[_Outstanding] = deque()
        self._to_cancel: list[tuple[int, _Outstanding]] = []
        self._ended = 0
        self._executor: Executor | None = None
        self._injector: Injector | None = None
        self._phase = "tasks run"
        self._watchdog = Watchdog(terms.patience_s, self._describe)

    def run(self) -> Report:
        """Runs the campaign and judges it."""
        before = Before.now(self._folder)
        report = Report()
        self._watchdog.start()
        with self._executing() as (executor, injector):
            injector.start()
            self._follow(executor, injector, report)
            self._enter("the executor shuts down")
            injector.tell(self._terms.tasks)
        while self._outstanding:
            self._take_in(injector)
        injector.end()
        report.stats = executor.stats()
        self._enter("processes leave")
        self._executor = None
        del executor
        gc.collect()
        report.complaints += before.complaints()
        self._watchdog.end()
        if injector.error is not None:
            raise injector.error
        self._judge(injector, report)
        return report

    def _judge(self, injector: Injector, report: Report) -> None:
        case = self._case(injector, report)
        report.complaints += judge(case)
        report.endings = Counter(outcome.ending for outcome in self._outcomes)
        report.faults = injector.inflicted
        report.ran, report.runs = len(case.evidence.begun), case.evidence.begun.total()

    def _case(self, injector: Injector, report: Report) -> Case:
        return Case(
            self._terms.mode,
            self._terms.plan_of,
            self._outcomes,
            evidence_of(read(self._witness)),
            report.stats.workers_lost if self._terms.mode is Mode.LOCAL else None,
            injector.deaths,
            injector.inflicted[FaultKind.KILL_KEEPER],
        )

    @contextlib.contextmanager
    def _executing(self) -> Iterator[tuple[Executor, Injector]]:
        """Yields the executor, and the injector of its faults; ends both."""
        terms, plan = self._terms, self._plan
        faults = draw_faults(terms.mode, terms.seed, terms.tasks)
        if terms.mode is Mode.LOCAL:
            tasks_max = plan.max_tasks_per_child
            if plan.arena:
                os.environ["GRISTMILL_ARENA_MEMORY"] = str(plan.arena)
            executor = Executor(
                plan.workers, max_tasks_per_child=tasks_max, start=plan.start, output=False
            )
            injector = Injector(faults, processes.Tree())
        else:
            # A module of the tests on nodes, which other tests do not have on their path.
            from proxy import RelayedNodes

            placement = RelayedNodes(plan.nodes, plan.workers)
            executor = Executor(nodes=placement, output=False)
            tree = processes.Tree(lambda: [agent.pid for agent in placement.agents])
            # The relay begins with the placement, which is started by the first task.
            network = Network(
                lambda for_good: placement.relay.cut(for_good),
                lambda: placement.relay.mend(),
                lambda choice: placement.relay.hold(choice),
                lambda: placement.relay.go_on(),
            )
            injector = Injector(faults, tree, network)
        self._executor, self._injector = executor, injector
        with executor:
            yield executor, injector

    def _follow(self, executor: Executor, injector: Injector, report: Report) -> None:
        """Submits all tasks, and takes in the outcomes of all but the last ones."""
        submitter = Submitter(executor, str(self._witness))
        count = self._terms.tasks
        memory = 0
        for number in range(count):
            self._submit(submitter, self._terms.plan_of(number))
            while len(self._outstanding) >= self._plan.window:
                self._take_in(injector)
            if number == count // 4:
                memory = self._private_memory(injector)
            elif number == count * 7 // 8:
                report.growth = self._private_memory(injector) - memory
        self._cancel_all()
        report.complaints += memory_complaints(self._terms.mode, report.growth)

    def _submit(self, submitter: Submitter, plan: TaskPlan) -> None:
        one = _Outstanding(plan, submitter.submit(plan))
        self._outstanding.append(one)
        if plan.kind is Kind.CANCEL:
            one.is_cancelled = cancel(one.future, running=False)
        elif plan.kind is Kind.CANCEL_RUNNING:
            self._to_cancel.append((plan.number + plan.cancel_after, one))
        if self._to_cancel and self._to_cancel[0][0] <= plan.number:
            self._cancel(self._to_cancel[0][1])

    def _cancel(self, one: _Outstanding) -> None:
        self._to_cancel = [due for due in self._to_cancel if due[1] is not one]
        one.is_cancelled = cancel(one.future, running=True)

    def _cancel_all(self) -> None:
        """Cancels the tasks that run until they are cancelled, since they may have all workers."""
        for _, one in self._to_cancel:
            self._cancel(one)

    def _take_in(self, injector: Injector) -> None:
        """Waits for the oldest task, and takes in its outcome once it has ended."""
        one = self._outstanding[0]
        if one.plan.kind is Kind.MAP:
            self._cancel_all()
        elif not concurrent.futures.wait([one.future], timeout=_LOOK_S).done:
            self._cancel_all()
            return
        self._outstanding.popleft()
        self._outcomes[one.plan.number] = outcome_of(
            one.plan, one.future, is_cancelled=one.is_cancelled
        )
        self._ended += 1
        injector.tell(self._ended)
        self._watchdog.tell(self._ended)

    def _private_memory(self, injector: Injector) -> int:
        """Takes in all outstanding tasks; returns the bytes of the client's memory when none is left."""
        while self._outstanding:
            self._take_in(injector)
        gc.collect()
        return processes.private_memory()

    def _enter(self, phase: str) -> None:
        """Notes what the campaign does next, which is progress."""
        self._phase = phase
        self._watchdog.tell(phase)

    def _describe(self) -> str:
        """Returns what is known of a campaign that makes no progress."""
        lines = [f"while {self._phase}: {self._ended} of {self._terms.tasks} tasks have ended"]
        if self._injector is not None:
            lines.append(f"faults so far: {dict(self._injector.inflicted)}")
            lines += [
                f"BROKEN: task {complaint.number}: {complaint.text}"
                for complaint in itertools.islice(
                    judge_runs(self._case(self._injector, Report())), _EXPLAINED
                )
            ]
        lines += ["processes:", processes.Tree().describe(), "the oldest outstanding tasks:"]
        for one in list(self._outstanding)[:_EXPLAINED]:
            said = f"  task {one.plan.number} ({one.plan.kind}): "
            if one.plan.kind is Kind.MAP:
                said += "a map"
            elif one.future.done():
                said += "has ended"
            elif self._executor is not None:
                said += self._executor.explain(one.future)
            lines.append(said)
        lines.append(f"records of the tasks: {self._witness}")
        lines.append(f"Repeat: {self._terms.command}")
        return "\n".join(lines)
