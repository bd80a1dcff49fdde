"""The workers of the tests: the slot decides what one does. Descriptor 4 takes reports."""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import zygote

REPORT = 4


def report(text):
    os.write(REPORT, f"{text}\n".encode())


def rest():
    while True:
        signal.pause()


def leave(slot, epoch, descriptors):
    return epoch


def crash(slot, epoch, descriptors):
    os.kill(os.getpid(), epoch)
    rest()


def write_much(slot, epoch, descriptors):
    for number in range(epoch):
        os.write(2, f"line {number:06}\n".encode())
    return 3


def live(slot, epoch, descriptors):
    report(f"pid {os.getpid()}")
    rest()


def daemonise(slot, epoch, descriptors):
    """Leaves the session by two forks, as a daemon does."""
    report(f"pid {os.getpid()}")
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            report(f"pid {os.getpid()}")
        rest()
    rest()


PROGRAM = "import os, signal; os.write(4, b'pid %d\\n' % os.getpid()); signal.pause()"
ESCAPE = "import os\nif os.fork() == 0:\n os.setsid()\n " + PROGRAM


def run_program(code, **more):
    arguments = [sys.executable, "-S", "-E", "-c", code]
    return subprocess.Popen(arguments, pass_fds=[REPORT], start_new_session=True, **more)


def run_kept_program(slot, epoch, descriptors):
    run_program(PROGRAM, env={**os.environ, "GRISTMILL_KEEP": "1"}, stderr=subprocess.DEVNULL)
    live(slot, epoch, descriptors)


def run_escaping_program(slot, epoch, descriptors):
    """Its grandchild has another parent and session; only its environment tells whose it is."""
    run_program(ESCAPE).wait()
    live(slot, epoch, descriptors)


def leave_the_pipe_to_a_child(slot, epoch, descriptors):
    if os.fork() == 0:
        rest()
    os.write(2, b"first\nlast words")
    return 5


def describe_world(slot, epoch, descriptors):
    mask = os.umask(0)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    keep = os.environ.get("GRISTMILL_KEEP")
    report(f"{os.getcwd()} {mask:o} {os.environ['FRUIT']} {keep} {len(blocked)}")
    ignores = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    os.write(descriptors[0], f"{os.getsid(0) == os.getpid()} {ignores}\n".encode())
    return 0


ROLES = [
    leave,
    crash,
    write_much,
    live,
    daemonise,
    run_kept_program,
    run_escaping_program,
    leave_the_pipe_to_a_child,
    describe_world,
]


def work(slot, epoch, descriptors):
    return ROLES[slot](slot, epoch, descriptors)


if __name__ == "__main__":
    if "--fresh" in sys.argv:
        sys.exit(live(0, 0, []))
    zygote.serve(work)
