"""The ``gristmill node`` command, which runs a node agent until its client has finished."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time

from gristmill._nodes import endpoint, walltime
from gristmill._nodes.command import HOST, IN_VAIN, RANK, REFUSED, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gristmill._nodes.share import Share

#: The environment variable that tells workers that they run on a node, and the name of that node.
_VARIABLE = "GRISTMILL_NODE"
#: The time for which an agent looks for a client before it gives up, seconds: longer than a program takes to start.
_PATIENCE_S = 120.0
#: The time that tasks get to finish once an agent must end, seconds. Batch systems give the jobs that they end 30 s. If
#: the leash has ended, its holder has released the node already, so the time is short.
_DRAIN_S, _LEASHED_DRAIN_S = 20.0, 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Defines the arguments of the command."""
    add = parser.add_argument
    add(
        "--join",
        action="append",
        default=[],
        type=endpoint.argument,
        metavar="HOST:PORT",
        help="address of the client to join; with several addresses, the agent uses one that it can reach",
    )
    add(
        "--listen",
        type=endpoint.listening_argument,
        metavar="HOST:PORT",
        help="address at which clients reach this node; [::]:PORT is every one that it has",
    )
    add(
        "--key",
        metavar="FILE",
        help="the nodes' key, in a file that only its owner can read, or - for a line of standard input; "
        "$GRISTMILL_NODE_KEY holds it if not given",
    )
    add("--leash", action="store_true", help="ends when its standard input does")
    names = f"%{HOST} is its host name, %{RANK} the number of its rank, %%%% a percent sign"
    add("--name", default=HOST, help=f"name of this node; {names}")
    add(
        "--label",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a label that programs show for this node, as in gristmill top; may be repeated",
    )
    add(
        "--group",
        metavar="NAME",
        help="group of nearby nodes, to which large arguments are sent once (the label group)",
    )
    add("--quiet", action="store_true", help="prints only failures")
    _add_sizes(parser)
    _add_times(parser)


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--workers",
        type=int,
        metavar="N",
        help="workers to offer (as many as cores and memory allow)",
    )
    add("--cores", type=int, metavar="N", help="cores to offer (all that it may use)")
    add(
        "--cores-per-worker", type=float, default=1.0, metavar="CORES", help="cores of a worker (1)"
    )
    add("--memory-per-worker", type=float, metavar="GB", help="memory of a worker (any)")
    add("--memory", type=float, metavar="GB", help="memory to offer (all of it)")
    add("--gpus", type=int, metavar="N", help="GPUs to offer (all that are found)")
    add(
        "--accelerators",
        metavar="GPUS",
        help="offers these GPUs, N of them or list:NAME:NAME, and pins each worker to one: there are no more workers",
    )
    add(
        "--rank",
        action="store_true",
        help="offers a part of the node, if a launcher such as mpiexec has started several agents on it",
    )
    add(
        "--part",
        metavar="K/N",
        help="offers one of N parts of the node, from 0, where several agents share it",
    )
    add(
        "--cpu-affinity",
        default="none",
        metavar="POLICY",
        help="binds workers to cores: none, numa, block, block-reverse, alternating or list:0,1:2,3 (none)",
    )


def _add_times(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--patience",
        type=walltime.seconds,
        metavar="SECONDS",
        help=f"time that the agent waits for a client ({_PATIENCE_S:g} with --join, else for ever)",
    )
    parser.add_argument(
        "--walltime",
        type=walltime.seconds,
        metavar="SECONDS",
        help="time that this node can be used (until its Slurm job ends, if it is in one)",
    )
    parser.add_argument(
        "--drain",
        type=walltime.seconds,
        metavar="SECONDS",
        help="time that tasks get to finish before the end of the walltime or of a lease, and after a SIGTERM or "
        f"SIGHUP ({_DRAIN_S:g}; {_LEASHED_DRAIN_S:g} with --leash, and after its end in any case)",
    )


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Runs the agent. Returns its exit status: 0 when its client has finished, 1 when no client came, 77 when refused.

    Exits with 2 if the command line cannot be followed.
    """
    begun_at = time.monotonic()
    if not options.join and options.listen is None:
        parser.error("name a client with --join, or an address with --listen")
    from gristmill._nodes import key_input, share
    from gristmill._nodes.parts import rank

    name = name_of(options.name, socket.gethostname(), rank())
    try:
        key = key_input.read_key(options.key)
        part = share.measure(options)
        labels = _labels(options)
    except ValueError as error:
        parser.error(str(error))
    except TimeoutError as error:
        print(f"gristmill node {name}: gave up: {error}", file=sys.stderr)
        return IN_VAIN
    _handle_signals()
    if options.leash:
        key_input.end_with_input(None if options.drain is None else _LEASHED_DRAIN_S)
    patience = options.patience
    if patience is None and options.join:
        patience = _PATIENCE_S
    try:
        join = _sorted(options.join, patience)
    except ConnectionError as error:
        print(f"gristmill node {name}: gave up: no client answers: {error}", file=sys.stderr)
        return IN_VAIN
    if patience is not None:
        patience = max(0.0, patience - (time.monotonic() - begun_at))
    try:
        why, failure = _serve(options, key, (name, labels), join, patience, part)
    except KeyboardInterrupt:
        return 130
    except ValueError as error:
        parser.error(str(error))
    except OSError as error:  # the system may grant later what it refuses now
        why, failure = "idle", str(error)
    if why in ("idle", "refused"):
        print(f"gristmill node {name}: gave up: {failure}", file=sys.stderr)
        return IN_VAIN if why == "idle" else REFUSED
    return 0


def _handle_signals() -> None:
    """Lets the signals that a batch system sends to every process of a job end this process in order, or not at all."""
    stop = _stop_once()
    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup ignores it
        signal.signal(signal.SIGHUP, stop)
    for warning in (signal.SIGUSR1, signal.SIGUSR2):
        # Not SIG_IGN, which started programs would inherit.
        signal.signal(warning, lambda _number, _frame: None)


def _stop_once() -> Callable[..., None]:
    """Returns a signal handler that ends this process in order, and ignores the signal when it comes again."""
    received: list[int] = []

    def stop(number: int, _frame: object) -> None:
        received.append(number)
        if len(received) == 1:
            sys.exit(0)

    return stop


def _drain(options: argparse.Namespace) -> float:
    if options.drain is not None:
        drain: float = options.drain
        return drain
    return _LEASHED_DRAIN_S if options.leash else _DRAIN_S


def _sorted(addresses: list[str], patience_s: float | None) -> list[str]:
    """Returns the addresses to join, of which the first one can be reached. A single address is not probed.

    The others stay, because another program may answer at the first one. Raises ``ConnectionError`` if none is reached.
    """
    if len(addresses) < 2:
        return addresses
    from gristmill._nodes.probe import find_reachable

    found = find_reachable(addresses, patience_s)
    return [found, *(one for one in addresses if one != found)]


def _labels(options: argparse.Namespace) -> str:
    """Returns all labels, one a line. Raises ``ValueError`` for a label that is not ``NAME=VALUE``."""
    group = [f"group={options.group}"] if options.group else []
    labels = [*options.label, *group]
    for label in labels:
        name, _, value = label.partition("=")
        if not name or not value or "\n" in label:
            raise ValueError(f"the label {label!r} is not NAME=VALUE on one line")
    return "\n".join(labels)


def _serve(
    options: argparse.Namespace,
    key: str,
    called: tuple[str, str],
    join: list[str],
    patience_s: float | None,
    part: Share,
) -> tuple[str, str]:
    from gristmill import _native, _worker_environment

    name, labels = called

    def opened(address: str | None) -> None:
        if not options.quiet:
            where = f"listens at {address}" if address else f"joins {join[0]}"
            print(f"gristmill node {name}: {where}", file=sys.stderr, flush=True)

    os.environ.update({**part.environment, _VARIABLE: name})
    return _native.run_agent(
        key,
        join=join,
        listen=options.listen,
        name=name,
        workers=part.workers,
        memory=part.memory,
        gpus=part.gpus,
        cores=part.cores,
        numa_nodes=part.numa_nodes,
        pins=part.pins,
        labels=labels,
        patience_s=patience_s,
        walltime_s=walltime.time_left(options.walltime),
        drain_s=_drain(options),
        program=_worker_environment.program(output=True),
        opened=opened,
    )
