"""When to try again what keeps failing."""

from __future__ import annotations

import dataclasses

#: More of them would be more than any pause, and some day more than a float.
_DOUBLINGS_MAX = 100


@dataclasses.dataclass
class Pauses:
    """Pauses between tries that double while these fail one after the other, until there have been too many.

    A pure state machine: whoever asks says how long a try has lasted.
    """

    first_s: float = 1.0
    longest_s: float = 60.0
    #: Failures in a row after which there is no other try: some five minutes with the pauses given here.
    failures_max: int = 10
    #: What has lasted longer than this counts as a success, unless it said itself that it failed.
    calm_s: float = 60.0
    #: What said so has worked before if it lasted longer than this: agents look for a client for two minutes.
    proof_s: float = 600.0
    failures: int = 0

    def after(self, lasted_s: float, says_failed: bool = False) -> float | None:
        """How long to wait before the next try, seconds, after one that lasted so long; ``None``: no more tries."""
        is_success = lasted_s >= (self.proof_s if says_failed else self.calm_s)
        self.failures = 1 if is_success else self.failures + 1
        if self.failures >= self.failures_max:
            return None
        doublings = min(self.failures - 1, _DOUBLINGS_MAX)
        return min(self.longest_s, self.first_s * 2.0**doublings)
