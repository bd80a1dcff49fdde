"""A fuzzer of the whole Python surface: public calls with hostile values, from all places where Python code runs.

Run it by hand: ``python tests/surface_fuzz.py [--seconds N] [--seed S] [KIND...]``. Each batch is a process of its own,
which draws its calls from one seed. Threads, signal handlers, destructors, callbacks, iterators and ``__reduce__`` make
the calls, some with a pending exception. A batch fails if its process crashes, hangs or panics, or if a call raises an
undocumented exception. ``python tests/surface_fuzz.py --batch KIND SEED COUNT`` runs one batch; its calls are on
standard output. ``python tests/surface_fuzz.py --options KIND`` passes each forbidden value to each option of its
calls, in turn. The kinds are executors, leases, nodes, and the Parsl front.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import importlib
import itertools
import logging
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from surface_judge import FORBIDDEN, Own, Trouble, safe
from surface_leases import LeaseWorld
from surface_nodes import NodesWorld
from surface_parsl import ParslWorld
from surface_world import World

#: Environments that batches make their calls in, by the name of their kind.
KINDS: dict[str, type[World]] = {
    "executor": World,
    "lease": LeaseWorld,
    "nodes": NodesWorld,
    "parsl": ParslWorld,
}
#: Number of calls of one batch, and its time limit, seconds: a batch takes a few, and a machine may be busy.
COUNT, BATCH_S = 250, 120.0
#: Time limit of all options, seconds.
OPTIONS_S = 600.0

#: Other packages that calls would load only on demand.
LOADED = ["asyncio", "cloudpickle", "numpy", "sqlite3"]
#: Parts of Gristmill that are programs of their own. Their requirements are not always installed.
_PROGRAMS = (
    "bench",
    "taps",
    "_profile",
    "_doctor",
    "observing",
    "__main__",
    "_zygote",
    "dask_plugin",
)


def load_all() -> None:
    """Loads every module that calls may load, because a handler that imports cannot interrupt CPython's import."""
    import gristmill

    for name in LOADED:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(gristmill.__path__, "gristmill."):
        if not {*module.name.split(".")} & {*_PROGRAMS}:
            # Some modules are for Ray or Dask.
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def batch(kind: str, seed: int, count: int) -> int:
    """Runs one batch in this process; returns its exit status."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    faulthandler.dump_traceback_later(BATCH_S - 10, exit=True)
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda unraisable: note(unraisable.exc_value)
    threading.excepthook = lambda arguments: note(arguments.exc_value)
    load_all()
    if (mutant := os.environ.get("GRISTMILL_FUZZ_MUTANT")) is not None:
        import gristmill

        exec(mutant, {"gristmill": gristmill, "os": os, "threading": threading})
    world = KINDS[kind](seed)

    def note(error: BaseException | None) -> None:
        if isinstance(error, Trouble) or any(
            words in str(type(error)) + safe(error) for words in FORBIDDEN
        ):
            world.troubles.append(error or Trouble("an error without a value"))

    def on_alarm(_number: int, _frame: object) -> None:
        world.interfere()
        if world.random.random() < 0.05:
            raise Own("of a handler")

    signal.signal(signal.SIGALRM, on_alarm)
    gc.set_threshold(50)
    threads = [threading.Thread(target=world.run, args=[count // 4]) for _ in range(2)]
    for thread in threads:
        thread.start()
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        world.run(count // 2)
    except Own:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for thread in threads:
        thread.join()
    world.end()
    for trouble in world.troubles:
        print("TROUBLE", type(trouble).__name__, safe(trouble), flush=True)
        sys.excepthook(type(trouble), trouble, trouble.__traceback__)
    return 1 if world.troubles else 0


def every_option(kind: str) -> int:
    """Passes each value to each option in this process; returns the exit status, and prints the faults."""
    faulthandler.dump_traceback_later(OPTIONS_S, exit=True)
    logging.disable(logging.CRITICAL)
    load_all()
    world = KINDS[kind](2026)
    for option, give in world.trials():
        for value in world.option_values():
            try:
                give(value)
            except Trouble as trouble:
                world.troubles.append(trouble)
                print(option, type(value).__name__, safe(trouble), flush=True)
    world.end()
    return 1 if world.troubles else 0


def run(kind: str, seed: int, count: int = COUNT) -> str | None:
    """Runs one batch in a process of its own; returns the fault, or ``None``."""
    with (
        tempfile.TemporaryFile("w+") as said,
        tempfile.TemporaryFile("w+") as errors,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        command = [sys.executable, str(Path(__file__).resolve())]
        command += ["--batch", kind, str(seed), str(count)]
        process = subprocess.Popen(
            command, stdout=said, stderr=errors, start_new_session=True, cwd=folder
        )
        try:
            status: object = process.wait(BATCH_S)
        except subprocess.TimeoutExpired:
            status = "no end"
            process.send_signal(signal.SIGUSR2)
            time.sleep(1)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said.seek(0)
        errors.seek(0)
        text = errors.read()
        if status == 0 and "panicked" not in text:
            return None
        return (
            f"{kind}, seed {seed}, {count} calls: {status}\n{said.read()[-1500:]}\n{text[-6000:]}"
        )


def main() -> int:
    """Runs batches until the time is over or one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--batch", nargs=3)
    parser.add_argument("--options", choices=KINDS)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    options = parser.parse_args()
    if options.options is not None:
        return every_option(options.options)
    if options.batch is not None:
        kind, seed, count = options.batch
        return batch(kind, int(seed), int(count))
    end = time.monotonic() + options.seconds
    kinds = options.kinds or list(KINDS)
    for number, seed in enumerate(itertools.count(options.seed)):
        wrong = run(kinds[number % len(kinds)], seed, options.count)
        if wrong is not None:
            print(wrong)
            return 1
        print(f"{number + 1} batches", flush=True)
        # Each kind runs once, even if the time is over.
        if number + 1 >= len(kinds) and time.monotonic() > end:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
