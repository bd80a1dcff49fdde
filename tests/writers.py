"""Tasks that write to the standard streams, each in another way."""

from __future__ import annotations

import ctypes
import fcntl
import os
import subprocess
import sys
import termios
import threading
import time


def write_past_python(text: bytes) -> None:
    """Writes past Python's stream to standard error, in a task that is long enough to be asked about."""
    begun = time.perf_counter_ns()
    os.write(2, text)
    while time.perf_counter_ns() < begun + 10_000:
        pass


def line() -> None:
    print("line", file=sys.stderr)


def part() -> None:
    """Leaves text without an end of line in a buffer of Python."""
    sys.stderr.write("part ")


def flushed_part() -> None:
    print("flushed ", end="", file=sys.stderr, flush=True)


def printed_part() -> None:
    print("printed ", end="")


def bytes_part() -> None:
    sys.stdout.buffer.write(b"bytes ")


def mixed() -> None:
    """Writes to both streams in turn."""
    for number in range(3):
        print("out", number)
        print("error", number, file=sys.stderr)


def mixed_descriptors() -> None:
    """Writes past Python's stream to standard error, and then to standard output."""
    for number in range(3):
        write_past_python(b"error %d\n" % number)
        print("out", number)


def descriptor() -> None:
    write_past_python(b"descriptor\n")


def c_library() -> None:
    ctypes.CDLL(None).printf(b"C library ")


def program() -> None:
    subprocess.run(["/bin/sh", "-c", "printf 'program ' >&2"], check=True)


def fork() -> None:
    child = os.fork()
    if child == 0:
        print("fork", file=sys.stderr)
        os._exit(0)
    os.waitpid(child, 0)


def thread() -> None:
    other = threading.Thread(target=print, args=("thread",), kwargs={"file": sys.stderr})
    other.start()
    other.join()


def huge() -> None:
    """Writes more than a pipe holds."""
    sys.stderr.write("x" * 300_000 + "\n")


def closed() -> None:
    """Closes standard error for this worker. Python's stream is left without a descriptor."""
    print("closed", file=sys.stderr)
    os.close(2)


def elsewhere() -> None:
    """Puts another file in the place of standard error."""
    _, write = os.pipe()
    os.write(write, b"not standard error")
    os.dup2(write, 2)


def raise_with_text() -> None:
    sys.stderr.write("raises ")
    raise ValueError("on purpose")


def last_words(text: str) -> None:
    """Ends the worker after text that no line end follows."""
    os.write(2, text.encode())
    os._exit(3)


def say(number: int) -> None:
    write_past_python(b"%d\n" % number)


def settle() -> None:
    """Returns once all text of this worker is out."""
    while any(fcntl.ioctl(2, termios.FIONREAD, bytes(4))):
        time.sleep(0.001)


def keeper() -> int:
    """Returns the process id of the keeper."""
    return os.getppid()
