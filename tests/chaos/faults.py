"""The faults of a campaign: their choice, and the thread that inflicts them while tasks run."""

from __future__ import annotations

import contextlib
import enum
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chaos.mixture import Mode
from chaos.processes import Role, Tree


class FaultKind(enum.StrEnum):
    """Fault of a process or of the network."""

    KILL_WORKER = "kill a worker"
    KILL_WORKERS = "kill all workers"
    CRASH_WORKER = "SIGSEGV to a worker"
    END_WORKER = "SIGTERM to a worker"
    STOP_WORKER = "stop a worker"
    STOP_AND_KILL_WORKER = "stop a worker, then kill it"
    KILL_STAND_BY = "kill a stand-by"
    KILL_ZYGOTE = "kill a zygote"
    KILL_STARTS = "kill all zygotes and stand-bys for a while"
    STOP_ZYGOTE = "stop a zygote"
    KILL_KEEPER = "kill the keeper"
    STOP_KEEPER = "stop the keeper"
    KILL_AGENT = "kill an agent"
    STOP_AGENT = "stop an agent"
    STOP_NODE = "stop an agent and all below it"
    STOP_NODE_LONG = "stop an agent and all below it until its node is lost"
    CUT = "cut all connections"
    CUT_SHORT = "cut all connections for a while"
    CUT_LONG = "cut all connections until the nodes are lost"
    CUT_MINUTE = "cut all connections for a minute"
    SILENCE = "let nothing through for a while"
    SILENCE_LONG = "let nothing through until the nodes are lost"
    SILENCE_ONE = "let nothing through on one connection until it is given up"


_LOCAL_WEIGHTS = {
    FaultKind.KILL_WORKER: 8,
    FaultKind.KILL_ZYGOTE: 3,
    FaultKind.KILL_STAND_BY: 3,
    FaultKind.STOP_WORKER: 3,
    FaultKind.STOP_AND_KILL_WORKER: 2,
    FaultKind.END_WORKER: 2,
    FaultKind.KILL_KEEPER: 1,
    FaultKind.CRASH_WORKER: 1,
    FaultKind.KILL_WORKERS: 2,
    FaultKind.KILL_STARTS: 2,
    FaultKind.STOP_ZYGOTE: 1,
    FaultKind.STOP_KEEPER: 1,
}
_NODES_WEIGHTS = {
    FaultKind.KILL_WORKER: 6,
    FaultKind.KILL_AGENT: 2,
    FaultKind.CUT: 3,
    FaultKind.CUT_SHORT: 2,
    FaultKind.STOP_NODE: 2,
    FaultKind.SILENCE: 2,
    FaultKind.STOP_AGENT: 2,
    FaultKind.STOP_WORKER: 2,
    FaultKind.KILL_ZYGOTE: 2,
    FaultKind.KILL_KEEPER: 1,
    FaultKind.STOP_NODE_LONG: 1,
    FaultKind.CUT_LONG: 1,
    FaultKind.SILENCE_LONG: 1,
    FaultKind.SILENCE_ONE: 1,
    FaultKind.KILL_STAND_BY: 1,
    FaultKind.END_WORKER: 1,
}
#: Tasks for each fault. A lost node costs seconds.
_TASKS_PER_FAULT = {Mode.LOCAL: 100, Mode.NODES: 400}
#: Faults of a campaign at least, so that a short one has the most frequent kinds.
_FAULTS_MIN = {Mode.LOCAL: 6, Mode.NODES: 8}
#: Longest stop of a process whose silence matters to no other one, seconds.
_STOP_MAX_S = 0.2
#: Longest cut or silence that nodes survive, and duration of those and of a stop after which a node is lost, seconds.
_CUT_MAX_S, _LOSS_S, _STOP_LOSS_S, _MINUTE_S = 1.5, 5.0, 3.0, 60.0
#: Number of tasks of a campaign from which on the connections are cut for a minute once.
_MINUTE_TASKS_MIN = 20_000


@dataclass(frozen=True)
class Fault:
    """One fault."""

    #: Tasks that have ended by then; all tasks if it comes while the executor shuts down.
    after: int
    kind: FaultKind
    #: Choice among the processes of the role: a part of their number.
    choice: float
    #: Duration of a stop or a cut.
    seconds: float


def draw_faults(mode: Mode, seed: int, tasks: int) -> list[Fault]:
    """Draws the faults of a campaign in their order. The most frequent kinds come first, once each."""
    dice = random.Random(f"faults {mode} {seed} {tasks}")
    weights = _LOCAL_WEIGHTS if mode is Mode.LOCAL else _NODES_WEIGHTS
    count = max(_FAULTS_MIN[mode], tasks // _TASKS_PER_FAULT[mode])
    first = [*weights][:count]
    kinds = first + dice.choices([*weights], [*weights.values()], k=count - len(first))
    dice.shuffle(kinds)
    # One fault of each twenty comes while the executor shuts down.
    late = count // 20 + 1
    if mode is Mode.NODES and tasks >= _MINUTE_TASKS_MIN:
        kinds[dice.randrange(count - late)] = FaultKind.CUT_MINUTE
    places = [dice.randrange(tasks * 9 // 10 + 1) for _ in range(count - late)]
    places = [*sorted(places), *[tasks] * late]
    return [
        Fault(
            place,
            kind,
            dice.random(),
            _duration(kind, dice),
        )
        for place, kind in zip(places, kinds, strict=True)
    ]


def _duration(kind: FaultKind, dice: random.Random) -> float:
    part = dice.random()
    seconds = _SECONDS.get(kind)
    if seconds is not None:
        return seconds
    return part * (_CUT_MAX_S if kind in (FaultKind.CUT_SHORT, FaultKind.SILENCE) else _STOP_MAX_S)


@dataclass(frozen=True)
class Network:
    """Interruption of the connections to nodes, and its end."""

    #: Ends all connections; with an argument that is true none is made until ``mend``.
    cut: Callable[[bool], None]
    mend: Callable[[], None]
    #: Lets nothing through until ``go_on``: on one connection, chosen by a part of their number, or with ``None`` on all.
    silence: Callable[[float | None], None]
    go_on: Callable[[], None]


class Injector:
    """A thread that inflicts faults, each once enough tasks have ended."""

    def __init__(self, faults: list[Fault], tree: Tree, network: Network | None = None) -> None:
        self._faults = faults
        self._tree = tree
        self._network = network
        self._ended = 0
        self._is_over = False
        #: Faults that met a process, by kind.
        self.inflicted: Counter[FaultKind] = Counter()
        #: Workers that these faults have killed at most.
        self.deaths = 0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def tell(self, ended: int) -> None:
        """Tells how many tasks have ended."""
        self._ended = ended

    def end(self) -> None:
        """Inflicts the faults that are left, and waits for the last one."""
        self._is_over = True
        self._thread.join()

    def _run(self) -> None:
        try:
            for one in self._faults:
                while self._ended < one.after and not self._is_over:
                    time.sleep(0.001)
                if self._inflict(one):
                    self.inflicted[one.kind] += 1
        except BaseException as error:
            self.error = error

    def _inflict(self, fault: Fault) -> bool:
        """Inflicts a fault; returns whether it met a process."""
        kind = fault.kind
        if kind in _OF_NETWORK:
            self._interrupt(fault)
            return True
        if kind is FaultKind.KILL_STARTS:
            return self._kill_starts(fault.seconds)
        with self._held(self._victims(fault)) as victims:
            self.deaths += self._deaths_of(kind, victims)
            number = _SIGNALS.get(kind)
            if number is not None:
                return _send(victims, number)
            try:
                is_met = _send(victims, signal.SIGSTOP)
                time.sleep(fault.seconds)
                if kind is FaultKind.STOP_AND_KILL_WORKER:
                    _send(victims, signal.SIGKILL)
            finally:
                _send(victims, signal.SIGCONT)
            return is_met

    def _interrupt(self, fault: Fault) -> None:
        """Interrupts connections for the time of a fault."""
        network = self._network
        assert network is not None
        if fault.kind is FaultKind.CUT:
            network.cut(False)
        elif fault.kind in _CUTS:
            network.cut(True)
            time.sleep(fault.seconds)
            network.mend()
        else:
            network.silence(fault.choice if fault.kind is FaultKind.SILENCE_ONE else None)
            time.sleep(fault.seconds)
            network.go_on()

    @contextlib.contextmanager
    def _held(self, found: list[int]) -> Iterator[list[int]]:
        """Yields file descriptors of processes: the kernel may give the id of one that ends to another program."""
        with contextlib.ExitStack() as stack:
            held = []
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    held.append((process, os.pidfd_open(process)))
                    stack.callback(os.close, held[-1][1])
            own = set(self._tree.below(os.getpid())) if held else ()
            yield [descriptor for process, descriptor in held if process in own]

    def _kill_starts(self, seconds: float) -> bool:
        until, is_met = time.monotonic() + seconds, False
        while time.monotonic() < until:
            for role in (Role.STAND_BY, Role.ZYGOTE):
                with self._held(self._tree.processes(role)) as victims:
                    is_met |= _send(victims, signal.SIGKILL)
            time.sleep(0.001)
        return is_met

    def _victims(self, fault: Fault) -> list[int]:
        role = _ROLES[fault.kind]
        found = self._tree.processes(role)
        if not found:
            return []
        if fault.kind is FaultKind.KILL_WORKERS:
            return found
        victim = found[int(fault.choice * len(found))]
        if fault.kind in (FaultKind.STOP_NODE, FaultKind.STOP_NODE_LONG):
            return [victim, *self._tree.below(victim)]
        return [victim]

    def _deaths_of(self, kind: FaultKind, victims: list[int]) -> int:
        if kind is FaultKind.KILL_KEEPER:
            # With those that start meanwhile: a start takes as many as there are.
            return 2 * len(self._tree.processes(Role.WORKER)) if victims else 0
        is_deadly = kind in _SIGNALS or kind is FaultKind.STOP_AND_KILL_WORKER
        return len(victims) if is_deadly and _ROLES[kind] is Role.WORKER else 0


_CUTS = frozenset((FaultKind.CUT_SHORT, FaultKind.CUT_LONG, FaultKind.CUT_MINUTE))
_OF_NETWORK = _CUTS | {
    FaultKind.CUT,
    FaultKind.SILENCE,
    FaultKind.SILENCE_LONG,
    FaultKind.SILENCE_ONE,
}
#: Durations that are always the same.
_SECONDS = {
    FaultKind.STOP_NODE_LONG: _STOP_LOSS_S,
    FaultKind.CUT_LONG: _LOSS_S,
    FaultKind.CUT_MINUTE: _MINUTE_S,
    FaultKind.SILENCE_LONG: _LOSS_S,
    FaultKind.SILENCE_ONE: _LOSS_S,
}
_ROLES = {
    FaultKind.KILL_WORKER: Role.WORKER,
    FaultKind.KILL_WORKERS: Role.WORKER,
    FaultKind.CRASH_WORKER: Role.WORKER,
    FaultKind.END_WORKER: Role.WORKER,
    FaultKind.STOP_WORKER: Role.WORKER,
    FaultKind.STOP_AND_KILL_WORKER: Role.WORKER,
    FaultKind.KILL_STAND_BY: Role.STAND_BY,
    FaultKind.KILL_ZYGOTE: Role.ZYGOTE,
    FaultKind.STOP_ZYGOTE: Role.ZYGOTE,
    FaultKind.KILL_KEEPER: Role.KEEPER,
    FaultKind.STOP_KEEPER: Role.KEEPER,
    FaultKind.KILL_AGENT: Role.AGENT,
    FaultKind.STOP_AGENT: Role.AGENT,
    FaultKind.STOP_NODE: Role.AGENT,
    FaultKind.STOP_NODE_LONG: Role.AGENT,
}
_SIGNALS = {
    FaultKind.KILL_WORKER: signal.SIGKILL,
    FaultKind.KILL_WORKERS: signal.SIGKILL,
    FaultKind.CRASH_WORKER: signal.SIGSEGV,
    FaultKind.END_WORKER: signal.SIGTERM,
    FaultKind.KILL_STAND_BY: signal.SIGKILL,
    FaultKind.KILL_ZYGOTE: signal.SIGKILL,
    FaultKind.KILL_KEEPER: signal.SIGKILL,
    FaultKind.KILL_AGENT: signal.SIGKILL,
}


def _send(victims: list[int], number: int) -> bool:
    """Sends a signal to processes; returns whether one of them was there."""
    is_met = False
    for descriptor in victims:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)
            is_met = True
    return is_met
