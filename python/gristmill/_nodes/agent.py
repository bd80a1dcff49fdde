"""The ``gristmill node`` command: a node agent, until its client has finished."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys

#: How long an agent looks for a client before it gives up, seconds: longer than a program takes to start.
_PATIENCE_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what the command understands."""
    parser.add_argument(
        "--join", action="append", default=[], metavar="HOST:PORT", help="a client to join"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="where clients reach this node")
    parser.add_argument(
        "--key",
        metavar="FILE",
        help="the nodes' key, in a file that only its owner can read; $GRISTMILL_NODE_KEY holds it if not given",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="workers to offer (the cores)")
    parser.add_argument("--memory", type=float, metavar="GB", help="memory to offer (all of it)")
    parser.add_argument("--gpus", type=int, default=0, metavar="N", help="GPUs to offer (none)")
    parser.add_argument("--name", help="what this node is called (its host name)")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--patience",
        type=float,
        default=None,
        metavar="SECONDS",
        help=f"how long it stays without a client ({_PATIENCE_S:g} with --join, else for ever)",
    )
    parser.add_argument(
        "--walltime",
        type=float,
        metavar="SECONDS",
        help="how long this node can be used (no limit)",
    )
    parser.add_argument(
        "--drain",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="how long tasks may finish before the end of the walltime, and after a SIGTERM (20)",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="says nothing unless something is wrong"
    )


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Runs the agent; gives its exit status: 0 when its client has finished, 1 when none came."""
    if not options.join and options.listen is None:
        parser.error("name a client with --join, or an address with --listen")
    key = _key(parser, options.key)
    from gristmill import _native, _world

    patience = options.patience
    if patience is None and options.join:
        patience = _PATIENCE_S
    name = options.name or socket.gethostname()

    def opened(address: str | None) -> None:
        if not options.quiet:
            where = f"listens at {address}" if address else f"joins {', '.join(options.join)}"
            print(f"gristmill node {name}: {where}", file=sys.stderr, flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        why, trouble = _native.run_agent(
            key,
            join=options.join,
            listen=options.listen,
            name=name,
            workers=options.workers or _native.cpu_count(),
            memory=int(options.memory * 1e9) if options.memory else _memory_size(),
            gpus=options.gpus,
            labels="\n".join(options.label),
            patience_s=patience,
            walltime_s=options.walltime,
            drain_s=options.drain,
            program=_world.program(output=True),
            spin_us=50.0 if _native.cpu_count() > 1 else 0.0,
            opened=opened,
        )
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError) as error:
        parser.error(str(error))
    if why == "idle":
        print(f"gristmill node {name}: gave up: {trouble}", file=sys.stderr)
        return 1
    return 0


def _key(parser: argparse.ArgumentParser, path: str | None) -> str:
    key = os.environ.pop("GRISTMILL_NODE_KEY", None)
    if path is None:
        if key is None:
            parser.error("name the nodes' key with --key FILE, or set GRISTMILL_NODE_KEY")
        return key
    try:
        if os.stat(path).st_mode & 0o077:
            parser.error(f"{path} can be read or written by others: chmod 600 {path}")
        with open(path) as file:
            return file.read().strip()
    except OSError as error:
        parser.error(f"the key cannot be read: {error}")


def _memory_size() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
