"""Pauses between retries of an operation that keeps failing."""

from __future__ import annotations

import dataclasses

#: The limit of doublings: more would exceed every pause, and eventually the range of a float.
_DOUBLINGS_MAX = 100


@dataclasses.dataclass
class Pauses:
    """The pauses between tries. They double while tries fail in a row, until there were too many tries or too much
    time.

    A pure state machine: the caller says how long a try has lasted.
    """

    first_s: float = 1.0
    longest_s: float = 60.0
    #: The number of failures in a row that ends the tries: about five minutes with the default pauses.
    failures_max: int = 10
    #: The limit of the time spent in a row of failures, seconds. It equals the time of a row of short tries, so that an
    #: unreachable program is reported after three tries of two minutes each and not after ten.
    span_max_s: float = 300.0
    #: The limit of one try's time that counts towards ``span_max_s``, seconds: agents look for a client for two
    #: minutes, and may have worked before.
    look_s: float = 120.0
    #: The duration from which a try counts as a success, seconds, unless the command itself reports a failure.
    calm_s: float = 60.0
    #: The same duration for a try that reports a failure, seconds: several times as long as an agent looks for a
    #: client.
    proof_s: float = 600.0
    failures: int = 0
    #: The time spent since the first failure in the row, seconds.
    spent_s: float = 0.0

    def after(self, lasted_s: float, says_failed: bool = False) -> float | None:
        """Returns the pause before the next try, seconds, after a try of ``lasted_s``; ``None`` for no more tries."""
        is_success = lasted_s >= (self.proof_s if says_failed else self.calm_s)
        self.failures = 1 if is_success else self.failures + 1
        self.spent_s = 0.0 if is_success else self.spent_s + min(lasted_s, self.look_s)
        if self.failures >= self.failures_max or self.spent_s >= self.span_max_s:
            return None
        doublings = min(self.failures - 1, _DOUBLINGS_MAX)
        pause_s = min(self.longest_s, self.first_s * 2.0**doublings)
        self.spent_s += pause_s
        return pause_s
