"""The surface fuzzer's batches of leases: a lease as the executor, and short leases that end during use."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from surface_judge import RESULT_S
from surface_values import same
from surface_world import Kinds, World, options_of


class LeaseWorld(World):
    """A lease on this machine, and the results of earlier calls."""

    def make_executor(self) -> Any:
        return self.gristmill.Lease(max_workers=2, seconds=self.random.choice((None, 1000)))

    def make_short_lived(self) -> Any:
        return self.gristmill.Lease(
            max_workers=1, seconds=self.random.choice((None, 1e-9, 0.02, 1000)), spin_seconds=0.001
        )

    def kinds(self) -> Kinds:
        gristmill = self.gristmill
        own = options_of(gristmill.Lease, "options")
        inherited = options_of(gristmill.Executor, *own)
        return super().kinds() | {
            "lease": (self.short_lease, own + inherited),
            "lease again": (self.short_lease, own),
            "extend": (self.executor.extend if self.has_end() else self.extend_short, ["seconds"]),
            "wait": (self.wait_for_worker, ["timeout"]),
        }

    def has_end(self) -> bool:
        """Returns whether the batch's lease can be extended."""
        return self.executor.ends_in is not None

    def extend_short(self, seconds: Any) -> None:
        """Extends a new lease."""
        with self.gristmill.Lease(max_workers=1, seconds=1000) as lease:
            lease.extend(seconds=seconds)

    def wait_for_worker(self, timeout: Any) -> None:
        """Waits for a worker, which may take longer than the timeout."""
        with contextlib.suppress(TimeoutError):
            self.executor.wait(timeout=timeout)

    def short_lease(self, **terms: Any) -> None:
        """Takes a lease without tasks."""
        self.gristmill.Lease(**terms).release()

    def look_at_lease(self) -> None:
        """Reads the state of a lease, or extends it."""
        lease = self.executor
        asked: list[Callable[[], Any]] = [
            lambda: lease.ends_in,
            lease.use,
            lambda: lease.extend(1),
            lambda: repr(lease) and None,
        ]
        call = self.random.choice(asked)
        self.attempt(call)

    def ends(self) -> None:
        """Lets a lease end while several threads use, extend and release it."""
        lease = self.make_short_lived()
        futures: list[Any] = []

        def use() -> None:
            for _ in range(5):
                future = self.attempt(lambda: lease.submit(same, 1))
                if future is not None:
                    futures.append(future)
                self.attempt(lambda: lease.extend(0.001))
                self.attempt(lease.use)
                self.attempt(lambda: lease.ends_in)
            if self.random.random() < 0.5:
                self.attempt(lease.release)

        thread = threading.Thread(target=use)
        thread.start()
        use()
        thread.join()
        for future in futures:
            self.attempt(lambda future=future: future.result(RESULT_S))
        self.attempt(lambda: lease.shutdown(cancel_futures=True))
        self.attempt(lease.use)

    def interferences(self) -> list[Callable[[], None]]:
        return [*super().interferences(), self.look_at_lease]

    def calls(self) -> list[Callable[[], None]]:
        return [*super().calls(), *[self.look_at_lease] * 3, self.ends]
