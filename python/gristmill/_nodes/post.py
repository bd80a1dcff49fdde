"""One place where an agent, or a launcher of agents, is to run: its process, and what that said last."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time

from gristmill._nodes.command import IN_VAIN, MISUSED, REFUSED
from gristmill._nodes.pauses import Pauses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: How much of what a process says is kept to tell why it ended, bytes.
_WORDS_MAX = 2000
#: Stands between the usage of a program whose command line is refused and the sentence that says why.
_COMPLAINT = ": error: "


class Post:
    """A command that is to run until it is told to end, and is started again when it ends before, unless in vain.

    :param name: what it is called.
    :param command: its words, or what gives them each time.
    :param environment: what it finds there beyond ``surroundings``.
    :param surroundings: this process's environment if not given.
    :param line: what it reads from its standard input, which stays open while it is to run; ``None``: it has none.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str] | Callable[[], Sequence[str]],
        environment: Mapping[str, str] | None = None,
        line: str | None = None,
        surroundings: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._command = command
        self._environment = {**(surroundings or os.environ), **(environment or {})}
        self._line = line
        self._pauses = Pauses()
        self._began_at = 0.0
        self._words = b""
        self.process: subprocess.Popen[bytes] | None = None
        #: When to start it, on the monotonic clock; ``None``: it runs, or is left alone.
        self.due_at: float | None = 0.0
        #: What went wrong last; empty if nothing did.
        self.trouble = ""
        #: What it ended with that says that every other try would end the same way, if it did.
        self.finality: int | None = None

    @property
    def is_left_alone(self) -> bool:
        """Whether it failed too often, or for good, and is not started again."""
        return self.process is None and self.due_at is None

    def start(self) -> bool:
        """Starts it; says whether it could be started."""
        self.due_at = None
        self._began_at = time.monotonic()
        self._words = b""
        try:
            self.process = subprocess.Popen(
                self._command() if callable(self._command) else self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL if self._line is None else subprocess.PIPE,
                stderr=subprocess.PIPE,
                # A terminal's Ctrl-C is for the client, which ends its agents when it ends.
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
            with contextlib.suppress(OSError):  # it has ended already, which is noticed elsewhere
                os.write(self.process.stdin.fileno(), self._line.encode() + b"\n")
        assert self.process.stderr is not None, "a pipe"
        os.set_blocking(self.process.stderr.fileno(), False)

    def hear(self) -> bool:
        """Passes on what it says; false when it says nothing more."""
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
        """Takes leave of the process, which has ended, and plans the next one."""
        assert self.process is not None, "started"
        status = self.process.wait()
        for stream in (self.process.stdin, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process = None
        words = self._words.decode(errors="replace").strip()
        if status in (MISUSED, REFUSED):
            self.finality = status
        if status == MISUSED:
            words = words.rpartition(_COMPLAINT)[2]
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        said = f"ended with {how}: {words}" if words else f"ended with {how}"
        self._plan(said, says_failed=status == IN_VAIN)

    def _plan(self, trouble: str, says_failed: bool = False) -> None:
        self.trouble = trouble
        if self.finality is not None:
            return
        now = time.monotonic()
        pause = self._pauses.after(now - self._began_at, says_failed)
        if pause is not None:
            self.due_at = now + pause

    def slip(self) -> None:
        """Lets go of the leash: what hangs on it ends."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
