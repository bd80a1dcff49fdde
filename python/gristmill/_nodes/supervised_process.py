"""A supervised process, an agent or a launcher of agents, with its last output and its restarts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time

from gristmill import _starting
from gristmill._nodes.command import IN_VAIN, MISUSED, REFUSED, UNKNOWN_HOST
from gristmill._nodes.pauses import Pauses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The size of the process's last output that is kept to explain its end, bytes.
_WORDS_MAX = 2000
#: The separator between the usage message of a program with a refused command line and the reason.
_COMPLAINT = ": error: "


class SupervisedProcess:
    """A command that runs until it is told to end, and is restarted if it ends earlier, unless a restart is pointless.

    :param name: the name of the process.
    :param command: its words, or a function that returns them for each start.
    :param environment: its environment variables beyond ``surroundings``.
    :param surroundings: the base environment; by default this process's.
    :param unknown_host: the message of the command for an unknown host. After two such failures in a row it is not
        started again: a single failure may be the name service's.
    :param line: what it reads from its standard input, which stays open while it should run; ``None`` for no input.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str] | Callable[[], Sequence[str]],
        environment: Mapping[str, str] | None = None,
        line: str | None = None,
        surroundings: Mapping[str, str] | None = None,
        unknown_host: str | None = None,
    ) -> None:
        self.name = name
        self._command = command
        self._environment = {**(surroundings or os.environ), **(environment or {})}
        self._line = line
        self._unknown_host = unknown_host
        #: The number of times in a row that the host was not found.
        self._not_found = 0
        self._pauses = Pauses()
        self.began_at = 0.0
        #: True if a node of the running process has joined.
        self.has_joined = False
        #: The reason for its end while it is needed; empty without one.
        self._fault = ""
        self._words = b""
        self.process: subprocess.Popen[bytes] | None = None
        #: The time to start it, on the monotonic clock; ``None`` if it runs, or is not started again.
        self.due_at: float | None = 0.0
        #: The last failure; empty if there was none.
        self.failure = ""
        #: The exit status that means that every other try would end the same way; ``None`` without such a status.
        self.finality: int | None = None

    @property
    def is_left_alone(self) -> bool:
        """True if it failed too often or permanently, and is not started again."""
        return self.process is None and self.due_at is None

    def start(self) -> bool:
        """Starts the process. Returns whether that succeeded."""
        self.due_at = None
        self.began_at = time.monotonic()
        self.has_joined, self._fault = False, ""
        self._words = b""
        try:
            self.process = subprocess.Popen(
                self._command() if callable(self._command) else self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL if self._line is None else subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C in a terminal is for the client, which ends its agents when it ends.
                start_new_session=True,
            )
        except OSError as error:
            self._plan(str(error))
            return False
        self._hand_over()
        return True

    def _hand_over(self) -> None:
        assert self.process is not None, "started"
        if self.process.stdin is not None and self._line is not None:
            with contextlib.suppress(OSError):  # it has ended already; the supervisor notices that
                os.write(self.process.stdin.fileno(), self._line.encode() + b"\n")
        assert self.process.stderr is not None, "a pipe"
        os.set_blocking(self.process.stderr.fileno(), False)

    def hear(self) -> bool:
        """Copies the process's output to standard error. Returns ``False`` at the end of the output."""
        assert self.process is not None, "started"
        assert self.process.stderr is not None, "a pipe"
        try:
            said = os.read(self.process.stderr.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        self._words = (self._words + said)[-_WORDS_MAX:]
        with contextlib.suppress(OSError):
            os.write(2, said)
        return bool(said)

    def bury(self) -> None:
        """Reaps the ended process and schedules its restart."""
        assert self.process is not None, "started"
        status = self.process.wait()
        for stream in (self.process.stdin, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process = None
        words = self._words.decode(errors="replace").strip()
        if status in (MISUSED, REFUSED):
            self.finality = status
        elif _starting.NESTED in words:
            self.finality = MISUSED
        self._note_host(status, words)
        if status == MISUSED:
            words = words.rpartition(_COMPLAINT)[2]
        how = f"exit status {status}"
        if status < 0:
            from gristmill import _native

            how = f"signal {-status} ({_native.signal_name(-status)})"
        said = self._fault or f"ended with {how}"
        said = f"{said}: {words}" if words else said
        self._plan(said, says_failed=status == IN_VAIN or bool(self._fault))

    def end_for(self, fault: str) -> None:
        """Ends the process because of a fault, which counts as a failure however long the process has run."""
        assert self.process is not None, "it runs"
        if not self._fault:
            self._fault = fault
            self.process.terminate()

    def _note_host(self, status: int, words: str) -> None:
        is_found = status == 0 or self._unknown_host is None or self._unknown_host not in words
        self._not_found = 0 if is_found else self._not_found + 1
        if self._not_found > 1:
            self.finality = UNKNOWN_HOST

    def _plan(self, failure: str, says_failed: bool = False) -> None:
        self.failure = failure
        if self.finality is not None:
            return
        now = time.monotonic()
        lasted_s = now - self.began_at
        if self._fault:
            lasted_s = min(lasted_s, self._pauses.look_s)
        pause = self._pauses.after(lasted_s, says_failed)
        if pause is not None:
            self.due_at = now + pause

    def slip(self) -> None:
        """Closes its standard input, the leash: a process that depends on it ends."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
