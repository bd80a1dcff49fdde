"""Supervision of processes that are restarted when they end: agents, or launchers of agents.

One thread supervises all of them. It sleeps until a process ends, writes output, or is due.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import selectors
import socket
import threading
import time

from gristmill._nodes.command import MISUSED, REFUSED, UNKNOWN_HOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from gristmill._nodes.supervised_process import SupervisedProcess

_log = logging.getLogger("gristmill.nodes")

#: The time that a process gets to leave once its client has finished, and then between the signal and its kill,
#: seconds.
_LEAVE_S, _KILL_S = 10.0, 5.0
#: The time after the kill from which a process is not waited for any more, seconds.
_STUCK_S = 10.0
#: The time between the signal and the kill for a process without a node that could leave, seconds.
_KILL_SOON_S = 1.0
#: The time after a start from which a missing node is reported, seconds.
_REPORTED_S = 10.0
#: The time between two looks at nodes that have not joined, seconds: a look costs as much as all nodes together.
_CHECK_S = 1.0
#: The longest sleep, seconds. An executor that was garbage-collected is noticed after this time.
_SLEEP_MAX_S = 5.0
#: The reasons why a process is not started again, by its final exit status.
_WHY_ALONE = {
    None: "it failed too often",
    MISUSED: "its command line was refused",
    REFUSED: "the client refused it permanently",
    UNKNOWN_HOST: "its host is unknown",
}


class Supervisor:
    """A thread that keeps commands running.

    :param posts: the commands.
    :param is_over: returns whether no process is needed any more.
    :param abandoned: called with a sentence when no process is started again, because all failed too often or
        permanently.
    :param leaving: returns the names of the nodes that end by themselves. A process without such a node, because none
        came or all were lost, is told to end at once. ``None`` stands for all nodes, here and below.
    :param connected: returns the names of the nodes that are connected.
    :param node_of: returns the name of a process's node, given the name of the process; ``None`` if any node may be
        its node.
    :param start_limit_s: the time within which the node of a process has to join, seconds.
    """

    def __init__(
        self,
        posts: Sequence[SupervisedProcess],
        is_over: Callable[[], bool] = lambda: False,
        abandoned: Callable[[str], None] = lambda text: None,
        leaving: Callable[[], AbstractSet[str] | None] = lambda: None,
        connected: Callable[[], AbstractSet[str] | None] = lambda: None,
        node_of: Callable[[str], str | None] = lambda name: name,
        start_limit_s: float = math.inf,
    ) -> None:
        self._posts = list(posts)
        self._is_over = is_over
        self._abandoned = abandoned
        self._leaving = leaving
        self._connected = connected
        self._node_of = node_of
        self._start_limit_s = start_limit_s
        #: The time of the next look at the nodes of processes whose nodes have not joined.
        self._check_at = 0.0
        #: Reentrant: log handlers and signal handlers run in threads that hold it, and may ask what runs, or end it.
        self._lock = threading.RLock()
        self._end_began_at = 0.0
        self._end_at: float | None = None
        self._slips = True
        self._selector = selectors.DefaultSelector()
        self._waker, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="gristmill-posts", daemon=True)

    def start(self) -> None:
        """Starts all processes. Does not wait for them."""
        self._thread.start()

    def failures(self) -> list[tuple[str, str]]:
        """Returns the processes that do not run now, or whose nodes have not joined yet: their names, and why.

        A process that was started a moment ago is left out.
        """
        now = time.monotonic()
        # Once for all processes: each of a thousand hosts may be without its node.
        connected = self._connected()
        with self._lock:
            texts = [
                (post.name, self._what_is_missing(post, connected, now)) for post in self._posts
            ]
        return [(name, text) for name, text in texts if text is not None]

    def _is_among(self, post: SupervisedProcess, nodes: AbstractSet[str] | None) -> bool:
        """Returns whether a node of a process is among these; ``None`` stands for all nodes."""
        if nodes is None:
            return True
        name = self._node_of(post.name)
        return bool(nodes) if name is None else name in nodes

    def _what_is_missing(
        self, post: SupervisedProcess, connected: AbstractSet[str] | None, now: float
    ) -> str | None:
        if post.process is None:
            return post.failure
        started_s = now - post.began_at
        if started_s < _REPORTED_S or post.has_joined or self._is_among(post, connected):
            return None
        before = f". Before, it {post.failure}" if post.failure else ""
        return f"started {started_s:.0f} s ago, and its node has not joined yet{before}"

    def processes(self) -> dict[str, int]:
        """Returns the process ids of the running processes, by name."""
        with self._lock:
            return {post.name: post.process.pid for post in self._posts if post.process is not None}

    def running(self) -> list[subprocess.Popen[bytes]]:
        """Returns the processes that run now, in the order of the posts."""
        with self._lock:
            return [post.process for post in self._posts if post.process is not None]

    def is_left_alone(self) -> bool:
        """Returns whether all processes failed too often or permanently, and none is started again."""
        with self._lock:
            return all(post.is_left_alone for post in self._posts)

    def begin_end(self, leave_s: float = _LEAVE_S, slips: bool = True) -> None:
        """Stops starting processes, and begins to end the running ones.

        Closes their leashes at once if ``slips``, and signals those that still run after ``leave_s``.
        """
        with self._lock:
            self._slips = slips
            self._begin(leave_s)
        with contextlib.suppress(OSError):
            self._waker.send(b".")

    def _begin(self, leave_s: float) -> None:
        if self._end_at is None:
            self._end_began_at = time.monotonic()
            self._end_at = self._end_began_at + leave_s

    def end(self, leave_s: float = _LEAVE_S) -> None:
        """Ends all processes as ``begin_end`` does, and waits for them."""
        self.begin_end(leave_s)
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_done():
                with self._lock:
                    self._check_starts()
                    wake_at = self._start_due()
                self._sleep(wake_at)
        except Exception as error:  # without this thread tasks would wait forever
            _log.exception("agents can no longer be supervised")
            self._abandoned(f"agents can no longer be supervised: {error}")
        finally:
            self._selector.close()
            self._waker.close()
            self._bell.close()

    def _is_done(self) -> bool:
        with self._lock:
            if self._is_over():
                self._begin(_LEAVE_S)
            if self._end_at is None:
                return False
            running = [post for post in self._posts if post.process is not None]
            leaving = self._leaving() if running else None
            for post in running:
                self._hasten(post, self._is_among(post, leaving))
            return not running or self._are_stuck(running)

    def _are_stuck(self, running: Sequence[SupervisedProcess]) -> bool:
        """Returns whether even the kill has not ended processes: those that wait for a device or a file server stay."""
        assert self._end_at is not None, "the end has begun"
        if time.monotonic() - self._end_at < _KILL_S + _STUCK_S:
            return False
        for post in running:
            assert post.process is not None, "it runs"
            _log.warning("process %s of %s cannot be killed", post.process.pid, post.name)
        return True

    def _hasten(self, post: SupervisedProcess, leaves: bool) -> None:
        """Ends a process in steps: it closes the leash, then sends SIGTERM, then kills."""
        assert post.process is not None, "it runs"
        assert self._end_at is not None, "the end has begun"
        late_s = time.monotonic() - (self._end_at if leaves else self._end_began_at)
        if late_s > (_KILL_S if leaves else _KILL_SOON_S):
            post.process.kill()
        elif late_s > 0:
            post.process.terminate()
        elif self._slips and post.process.stdin is not None and not post.process.stdin.closed:
            post.slip()

    def _check_starts(self) -> None:
        """Ends the processes whose nodes take too long to join."""
        now = time.monotonic()
        awaited = [one for one in self._posts if one.process is not None and not one.has_joined]
        limit_at = min((one.began_at for one in awaited), default=math.inf) + self._start_limit_s
        if not awaited or now < min(self._check_at, limit_at):
            return
        self._check_at = now + _CHECK_S
        connected = self._connected()
        for post in awaited:
            assert post.process is not None, "it runs"
            post.has_joined = self._is_among(post, connected)
            late_s = now - post.began_at - self._start_limit_s
            if post.has_joined or late_s < 0:
                continue
            post.end_for(f"was ended: its node had not joined after {self._start_limit_s:g} s")
            if late_s > _KILL_S:
                post.process.kill()

    def _start_due(self) -> float:
        """Starts the processes that are due. Returns the time of the next wake-up."""
        now = time.monotonic()
        if self._end_at is not None:
            return now + 0.1
        wake_at = now + _SLEEP_MAX_S
        for post in self._posts:
            if post.due_at is None:
                if post.process is not None and not post.has_joined:
                    limit_at = post.began_at + self._start_limit_s
                    wake_at = min(wake_at, max(limit_at, now + 0.1))
                continue
            if post.due_at > now:
                wake_at = min(wake_at, post.due_at)
            elif post.start():
                self._watch(post)
            else:
                self._note(post)
        return wake_at

    def _watch(self, post: SupervisedProcess) -> None:
        process = post.process
        assert process is not None, "started"
        assert process.stderr is not None, "a pipe"
        self._selector.register(process.stderr, selectors.EVENT_READ, post)
        self._selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ, post)

    def _sleep(self, wake_at: float) -> None:
        for key, _ in self._selector.select(max(0.0, wake_at - time.monotonic())):
            if key.fileobj is self._bell:
                self._bell.recv(4096)
            elif isinstance(key.fileobj, int):
                self._ended(key.data, key.fileobj)
            elif key.data.process is not None and not key.data.hear():
                self._selector.unregister(key.fileobj)

    def _ended(self, post: SupervisedProcess, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        with self._lock:
            assert post.process is not None, "it ended just now"
            post.hear()  # its last output
            with contextlib.suppress(KeyError):
                self._selector.unregister(post.process.stderr)  # type: ignore[arg-type]
            post.bury()
            if self._end_at is None:
                self._note(post)

    def _note(self, post: SupervisedProcess) -> None:
        """Logs a lost process, and at a higher level one that is not restarted.

        Reports all failures once no process is restarted any more.
        """
        if not post.is_left_alone:
            _log.info("%s is started again: %s", post.name, post.failure)
            return
        # The peer that refused it, or the agent itself, has logged the reason.
        level = logging.INFO if post.finality == REFUSED else logging.WARNING
        why = _WHY_ALONE[post.finality]
        _log.log(level, "%s is not started again, %s: %s", post.name, why, post.failure)
        if all(one.is_left_alone for one in self._posts):
            text = "; ".join(f"{one.name} {one.failure}" for one in self._posts)
            threading.Thread(target=self._abandoned, args=(text,), daemon=True).start()
