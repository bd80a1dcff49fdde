"""A minimal zygote: what a Python process does to serve a keeper, and nothing else.

The packets are described in the documentation of the keeper's module `zygote_frame`.
"""

import ctypes
import os
import signal
import socket
import struct

FRAME = struct.Struct("<IHHHHIiI")
MAGIC = 0x31595A47
VERSION = 1
READY, FORK, STARTED, FORK_FAILED = 1, 2, 3, 4
CONTROL_DESCRIPTOR = 3
PR_SET_PDEATHSIG = 1
DESCRIPTOR_LIMIT = 32

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def frame(kind, slot=0, epoch=0, value=0):
    """Packs one packet."""
    return FRAME.pack(MAGIC, VERSION, kind, slot, 0, epoch, value, 0)


def serve(work):
    """Tells the keeper that the imports are done, then forks workers until it hangs up.

    `work(slot, epoch, descriptors)` runs in each worker; its result is the exit code.
    """
    control = socket.socket(fileno=CONTROL_DESCRIPTOR)
    control.set_inheritable(False)
    control.send(frame(READY, value=os.getpid()))
    while True:
        packet, descriptors, _, _ = socket.recv_fds(
            control, FRAME.size + 1, DESCRIPTOR_LIMIT, socket.MSG_CMSG_CLOEXEC
        )
        if not packet:
            return
        magic, version, kind, slot, _, epoch, _, _ = FRAME.unpack(packet)
        assert (magic, version, kind) == (MAGIC, VERSION, FORK)
        fork_worker(control, slot, epoch, descriptors, work)
        for descriptor in descriptors:
            os.close(descriptor)


def fork_worker(control, slot, epoch, descriptors, work):
    """Forks an intermediate child that forks the worker and exits: the keeper inherits it."""
    keeper = os.getppid()
    try:
        middle = os.fork()
    except OSError as error:
        control.send(frame(FORK_FAILED, slot, epoch, error.errno))
        return
    if middle != 0:
        os.waitpid(middle, 0)
        return
    code = 1
    try:
        middle = os.getpid()
        try:
            is_worker = os.fork() == 0
        except OSError as error:
            control.send(frame(FORK_FAILED, slot, epoch, error.errno))
            is_worker = False
        if is_worker:
            become_worker(control, keeper, middle, slot, epoch, descriptors[0])
            code = work(slot, epoch, descriptors[1:])
    finally:
        os._exit(code)


def become_worker(control, keeper, middle, slot, epoch, stderr):
    """Binds this process to the keeper's life and announces it. An exception ends it."""
    os.dup2(stderr, 2)
    os.close(stderr)
    while os.getppid() == middle:
        os.sched_yield()
    if _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != keeper:
        os._exit(1)
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.environ["GRISTMILL_WORKER"] = f"{slot}.{epoch}.{os.environ['GRISTMILL_TREE']}"
    control.send(frame(STARTED, slot, epoch, os.getpid()))
    control.close()
