"""When to try again what keeps failing."""

from __future__ import annotations

import dataclasses

#: More of them would be more than any pause, and some day more than a float.
_DOUBLINGS_MAX = 100


@dataclasses.dataclass
class Pauses:
    """Pauses between tries that double while these fail one after the other, until it was tried often or long enough.

    A pure state machine: whoever asks says how long a try has lasted.
    """

    first_s: float = 1.0
    longest_s: float = 60.0
    #: Failures in a row after which there is no other try: some five minutes with the pauses given here.
    failures_max: int = 10
    #: The same for tries that last: as long as a row of short ones, so that a program which nobody can reach says so
    #: after three looks of two minutes and not after ten.
    span_max_s: float = 300.0
    #: No more than this of a try is counted there: agents look for a client for two minutes, and may have worked
    #: before.
    look_s: float = 120.0
    #: What has lasted longer than this counts as a success, unless it said itself that it failed.
    calm_s: float = 60.0
    #: What said so has worked before if it lasted longer than this, several times as long as it looks for a client.
    proof_s: float = 600.0
    failures: int = 0
    #: How long it was tried since the first failure in the row.
    spent_s: float = 0.0

    def after(self, lasted_s: float, says_failed: bool = False) -> float | None:
        """How long to wait before the next try, seconds, after one that lasted so long; ``None``: no more tries."""
        is_success = lasted_s >= (self.proof_s if says_failed else self.calm_s)
        self.failures = 1 if is_success else self.failures + 1
        self.spent_s = 0.0 if is_success else self.spent_s + min(lasted_s, self.look_s)
        if self.failures >= self.failures_max or self.spent_s >= self.span_max_s:
            return None
        doublings = min(self.failures - 1, _DOUBLINGS_MAX)
        pause_s = min(self.longest_s, self.first_s * 2.0**doublings)
        self.spent_s += pause_s
        return pause_s
