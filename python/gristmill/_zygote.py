"""The process that workers are forked from, and what a worker does before its first task.

The packets between zygote and keeper are described in the keeper's module ``zygote_frame``. Descriptors: 3 the keeper's
socket, 4 the segment with the rings, 5 the arena for large payloads, 6 the description of the caller's world. An
interpreter started for one worker (``start="spawn"``) has them at 3, 4 and 5, and its name as the last argument.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import select
import signal
import socket
import struct
import sys
import traceback
from typing import Any, NoReturn

from gristmill import _native, _pickling, _world
from gristmill._errors import TaskInterrupted

_FRAME = struct.Struct("<IHHHHIiI")
_MAGIC = 0x31595A47
_VERSION = 1
_READY, _FORK, _FORK_FAILED = 1, 2, 4
_DESCRIPTOR_LIMIT = 32


def main() -> None:
    """Serves a keeper until it hangs up, or runs as one worker if the command line names it."""
    if len(sys.argv) > 2:
        slot, epoch = map(int, sys.argv[2].split("."))
        world = _world.enter(_read_all(5))
        keeper = int(os.environ["GRISTMILL_KEEPER"])
        _native.become_a_worker(keeper, os.getppid(), None, [3, 4, 5])
        _work(slot, epoch, 3, 4, world)
    control = socket.socket(fileno=3)
    control.set_inheritable(False)
    world = _world.enter(_read_all(6))
    gc.collect()
    gc.freeze()
    control.send(_frame(_READY, value=os.getpid()))
    _serve(control, world)


def _serve(control: socket.socket, world: dict[str, Any]) -> None:
    """Forks workers as the keeper asks, and tells it of those that died before they could announce themselves."""
    births: dict[int, tuple[int, int]] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in births:
                slot, epoch = births.pop(descriptor)
                poll.unregister(descriptor)
                if not os.read(descriptor, 1):
                    control.send(_frame(_FORK_FAILED, slot, epoch, errno.ECHILD))
                os.close(descriptor)
                continue
            packet, descriptors, _, _ = socket.recv_fds(
                control, _FRAME.size + 1, _DESCRIPTOR_LIMIT, socket.MSG_CMSG_CLOEXEC
            )
            if not packet:
                os._exit(0)
            magic, version, kind, slot, _, epoch, _, _ = _FRAME.unpack(packet)
            if (magic, version, kind) != (_MAGIC, _VERSION, _FORK):
                raise RuntimeError(f"the keeper sent a packet of kind {kind}, version {version}")
            birth = _fork_worker(control, slot, epoch, descriptors[0], world, list(births))
            if birth is not None:
                births[birth] = slot, epoch
                poll.register(birth, select.POLLIN)
            for descriptor in descriptors:
                os.close(descriptor)


def _fork_worker(
    control: socket.socket,
    slot: int,
    epoch: int,
    stderr: int,
    world: dict[str, Any],
    others: list[int],
) -> int | None:
    """Forks an intermediate child that forks the worker and exits: the worker becomes the keeper's child.

    Gives a pipe: a byte comes when the worker has announced itself, its end when it died before. ``None`` if the keeper
    was told that there is no worker.
    """
    keeper = os.getppid()
    birth = announced = -1
    try:
        birth, announced = os.pipe()
        middle = os.fork()
    except OSError as error:
        for descriptor in (birth, announced):
            if descriptor >= 0:
                os.close(descriptor)
        control.send(_frame(_FORK_FAILED, slot, epoch, error.errno))
        return None
    if middle:
        os.close(announced)
        _, status = os.waitpid(middle, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            os.close(birth)
            control.send(_frame(_FORK_FAILED, slot, epoch, os.WEXITSTATUS(status)))
            return None
        return birth
    middle = os.getpid()
    try:
        is_middle = os.fork() != 0
    except OSError as error:
        os._exit(error.errno or errno.EAGAIN)
    if is_middle:
        os._exit(0)
    try:
        _native.become_a_worker(keeper, middle, stderr, [4, 5, 6])
        for descriptor in (stderr, birth, *others):
            os.close(descriptor)
        _native.announce(control.fileno(), slot, epoch)
        control.close()
        os.write(announced, b".")
        os.close(announced)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    _work(slot, epoch, 4, 5, world)


def _work(slot: int, epoch: int, segment: int, arena: int, world: dict[str, Any]) -> NoReturn:
    """Runs tasks until told to stop; never returns."""
    code = 1
    try:
        os.environ["GRISTMILL_WORKER"] = f"{slot}.{epoch}.{os.environ.get('GRISTMILL_TREE', '')}"
        _world.settle(world)
        signal.signal(_native.INTERRUPT_SIGNAL, _on_interrupt)
        # A polling caller has a core of its own: the workers that poll beside it are no more than the other cores.
        spin_us = world["spin_us"] if slot < max(1, _native.cpu_count() - 1) else 0.0
        _native.serve(segment, arena, slot, spin_us, lambda: _initialize(world))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        _flush()
        os._exit(code)


def _initialize(world: dict[str, Any]) -> str | None:
    """Calls the initializer; gives the traceback of what it raised."""
    if world["initializer"] is None:
        return None
    try:
        function, arguments = _pickling.load(world["initializer"], {})
        function(*arguments)
    except BaseException:
        return f"the initializer failed in a new worker:\n{traceback.format_exc()}"
    return None


def _on_interrupt(_signal: int, _frame: object) -> None:
    if _native.is_interrupted():
        raise TaskInterrupted("the task was cancelled or ran out of time")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _frame(kind: int, slot: int = 0, epoch: int = 0, value: int | None = 0) -> bytes:
    return _FRAME.pack(_MAGIC, _VERSION, kind, slot, 0, epoch, value or 0, 0)


def _read_all(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0)
