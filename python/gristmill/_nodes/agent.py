"""The ``gristmill node`` command: a node agent, until its client has finished."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time

from gristmill._nodes import walltime
from gristmill._nodes.command import HOST, IN_VAIN, RANK, REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gristmill._nodes.share import Share

#: Says to workers that they are on a node, and on which.
_VARIABLE = "GRISTMILL_NODE"
#: How long an agent looks for a client before it gives up, seconds: longer than a program takes to start.
_PATIENCE_S = 120.0
#: How long tasks may finish once an agent is to end, seconds: batch systems give 30 to jobs that they end. Whoever held
#: a leash has let go of the node already.
_DRAIN_S, _LEASHED_DRAIN_S = 20.0, 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what the command understands."""
    add = parser.add_argument
    add(
        "--join",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="the client to join; several: its addresses, of which one that can be reached is taken",
    )
    add("--listen", metavar="HOST:PORT", help="where clients reach this node")
    add(
        "--key",
        metavar="FILE",
        help="the nodes' key, in a file that only its owner can read, or - for a line of standard input; "
        "$GRISTMILL_NODE_KEY holds it if not given",
    )
    add("--leash", action="store_true", help="ends when its standard input does")
    names = f"%{HOST} is its host name, %{RANK} the number of its rank"
    add("--name", default=HOST, help=f"what this node is called; {names}")
    add(
        "--label",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what programs show of this node, as in gristmill top; several are several labels",
    )
    add(
        "--group",
        metavar="NAME",
        help="nodes that it is near to, which large arguments reach once (the label group)",
    )
    add("--quiet", action="store_true", help="says nothing unless something is wrong")
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
        help="offers its part of the node where a launcher such as mpiexec has started several agents on it",
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
        help=f"how long it stays without a client ({_PATIENCE_S:g} with --join, else for ever)",
    )
    parser.add_argument(
        "--walltime",
        type=walltime.seconds,
        metavar="SECONDS",
        help="how long this node can be used (until its job of Slurm ends, if it is in one)",
    )
    parser.add_argument(
        "--drain",
        type=walltime.seconds,
        metavar="SECONDS",
        help="how long tasks may finish before the end of the walltime or of a lease, and after a SIGTERM "
        f"({_DRAIN_S:g}; {_LEASHED_DRAIN_S:g} with --leash, and after its end in any case)",
    )


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Runs the agent; gives its exit status: 0 when its client has finished, 1 when none came, 77 when refused.

    Ends with 2 where the command line cannot be followed.
    """
    begun_at = time.monotonic()
    if not options.join and options.listen is None:
        parser.error("name a client with --join, or an address with --listen")
    from gristmill._nodes import handing, share
    from gristmill._nodes.parts import rank

    name = options.name.replace(HOST, socket.gethostname()).replace(RANK, str(rank()))
    try:
        key = handing.read_key(options.key)
        part = share.measure(options)
        labels = _labels(options)
    except ValueError as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, _stop_once())
    if options.leash:
        handing.end_with_input(None if options.drain is None else _LEASHED_DRAIN_S)
    patience = options.patience
    if patience is None and options.join:
        patience = _PATIENCE_S
    join = _choose(options.join, patience)
    if join is None:
        nowhere = f"nobody answers at {', '.join(options.join)}"
        print(f"gristmill node {name}: gave up: {nowhere}", file=sys.stderr)
        return IN_VAIN
    if patience is not None:
        patience = max(0.0, patience - (time.monotonic() - begun_at))
    try:
        why, trouble = _serve(options, key, (name, labels), join, patience, part)
    except KeyboardInterrupt:
        return 130
    except ValueError as error:
        parser.error(str(error))
    except OSError as error:  # what the system refuses now it may give later
        why, trouble = "idle", str(error)
    if why in ("idle", "refused"):
        print(f"gristmill node {name}: gave up: {trouble}", file=sys.stderr)
        return IN_VAIN if why == "idle" else REFUSED
    return 0


def _stop_once() -> Callable[..., None]:
    """The handler of a signal that ends this process in order, and means nothing more when it comes again."""
    told: list[int] = []

    def stop(number: int, _frame: object) -> None:
        told.append(number)
        if len(told) == 1:
            sys.exit(0)

    return stop


def _drain(options: argparse.Namespace) -> float:
    if options.drain is not None:
        drain: float = options.drain
        return drain
    return _LEASHED_DRAIN_S if options.leash else _DRAIN_S


def _choose(addresses: list[str], patience_s: float | None) -> list[str] | None:
    """The address to join, of those that the client may have; a choice of one needs no look."""
    if len(addresses) < 2:
        return addresses
    from gristmill._nodes.probe import find_reachable

    found = find_reachable(addresses, patience_s)
    return None if found is None else [found]


def _labels(options: argparse.Namespace) -> str:
    """All labels, a line each. Raises ``ValueError`` for what is none."""
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
    from gristmill import _native, _world

    name, labels = called

    def opened(address: str | None) -> None:
        if not options.quiet:
            where = f"listens at {address}" if address else f"joins {', '.join(join)}"
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
        domains=part.domains,
        pins=part.pins,
        labels=labels,
        patience_s=patience_s,
        walltime_s=walltime.time_left(options.walltime),
        drain_s=_drain(options),
        program=_world.program(output=True),
        opened=opened,
    )
