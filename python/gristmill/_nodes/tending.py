"""Processes that are started again when they end: agents, or launchers of agents.

One thread looks after all of them; it sleeps until a process ends, says something, or is due.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import threading
import time

from gristmill._nodes.command import MISUSED, REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

    from gristmill._nodes.post import Post

_log = logging.getLogger("gristmill.nodes")

#: Seconds that a process may take to leave once its client has finished, and then from the signal to its end.
_LEAVE_S, _KILL_S = 10.0, 5.0
#: The longest sleep, seconds: an executor that nobody holds any more is noticed after it.
_SLEEP_MAX_S = 5.0
#: Why something is left alone, by what it ended with for good.
_WHY_ALONE = {
    None: "it failed too often",
    MISUSED: "its command line was refused",
    REFUSED: "it was refused for good",
}


class Tender:
    """Keeps commands running.

    :param posts: what is to run where.
    :param is_over: whether nothing needs to run any more.
    :param abandoned: called with a sentence when all are left alone, because they failed too often or for good.
    """

    def __init__(
        self,
        posts: Sequence[Post],
        is_over: Callable[[], bool] = lambda: False,
        abandoned: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._posts = list(posts)
        self._is_over = is_over
        self._abandoned = abandoned
        self._lock = threading.Lock()
        self._end_at: float | None = None
        self._slips = True
        self._selector = selectors.DefaultSelector()
        self._waker, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="gristmill-posts", daemon=True)

    def start(self) -> None:
        """Starts everything. Does not wait for it."""
        self._thread.start()

    def troubles(self) -> list[tuple[str, str]]:
        """What went wrong last where nothing runs now."""
        with self._lock:
            return [(post.name, post.trouble) for post in self._posts if post.process is None]

    def processes(self) -> dict[str, int]:
        """The process ids of what runs now, by name."""
        with self._lock:
            return {post.name: post.process.pid for post in self._posts if post.process is not None}

    def running(self) -> list[subprocess.Popen[bytes]]:
        """The processes that run now, in the order of the posts."""
        with self._lock:
            return [post.process for post in self._posts if post.process is not None]

    def is_left_alone(self) -> bool:
        """Whether everything failed too often, or for good, and is not started again."""
        with self._lock:
            return all(post.is_left_alone for post in self._posts)

    def begin_end(self, leave_s: float = _LEAVE_S, slips: bool = True) -> None:
        """Starts nothing any more; what runs is let off its leash if it ``slips``, and is ended if it stays."""
        with self._lock:
            self._slips = slips
            if self._end_at is None:
                self._end_at = time.monotonic() + leave_s
        with contextlib.suppress(OSError):
            self._waker.send(b".")

    def end(self, leave_s: float = _LEAVE_S) -> None:
        """As ``begin_end``, and waits until everything has ended."""
        self.begin_end(leave_s)
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_done():
                with self._lock:
                    wake_at = self._start_due()
                self._sleep(wake_at)
        except Exception as error:  # without this thread tasks would wait for ever
            _log.exception("agents can be looked after no more")
            self._abandoned(f"agents can be looked after no more: {error}")
        finally:
            self._selector.close()
            self._waker.close()
            self._bell.close()

    def _is_done(self) -> bool:
        with self._lock:
            if self._end_at is None and self._is_over():
                self._end_at = time.monotonic() + _LEAVE_S
            if self._end_at is None:
                return False
            running = [post for post in self._posts if post.process is not None]
            late = time.monotonic() - self._end_at
            for post in running:
                _hasten(post, late, self._slips)
            return not running

    def _start_due(self) -> float:
        """Starts what is due; gives when to look again."""
        now = time.monotonic()
        if self._end_at is not None:
            return now + 0.1 if now >= self._end_at else self._end_at
        wake_at = now + _SLEEP_MAX_S
        for post in self._posts:
            if post.due_at is None:
                continue
            if post.due_at > now:
                wake_at = min(wake_at, post.due_at)
            elif post.start():
                self._watch(post)
            else:
                self._note(post)
        return wake_at

    def _watch(self, post: Post) -> None:
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

    def _ended(self, post: Post, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        with self._lock:
            assert post.process is not None, "it ended just now"
            post.hear()  # its last words
            with contextlib.suppress(KeyError):
                self._selector.unregister(post.process.stderr)  # type: ignore[arg-type]
            post.bury()
            if self._end_at is None:
                self._note(post)

    def _note(self, post: Post) -> None:
        """Says that something was lost, and more loudly that it is given up: all that failed is said again with it."""
        if not post.is_left_alone:
            _log.info("%s is started again: %s", post.name, post.trouble)
            return
        # Who has refused it for good, or the agent itself, has said so.
        level = logging.INFO if post.finality == REFUSED else logging.WARNING
        why = _WHY_ALONE[post.finality]
        _log.log(level, "%s is left alone, %s: %s", post.name, why, post.trouble)
        if all(one.is_left_alone for one in self._posts):
            text = "; ".join(f"{one.name} {one.trouble}" for one in self._posts)
            threading.Thread(target=self._abandoned, args=(text,), daemon=True).start()


def _hasten(post: Post, late_s: float, slips: bool) -> None:
    """Ends a process that is to end: it is asked, then told, then killed."""
    process = post.process
    assert process is not None, "it runs"
    if late_s > _KILL_S:
        process.kill()
    elif late_s > 0:
        process.terminate()
    elif slips and process.stdin is not None and not process.stdin.closed:
        post.slip()
