"""What the suite refuses, in words."""


class BenchError(Exception):
    """A benchmark cannot be run as it is asked for; the text says why, and what there is instead."""


class WrongResult(BenchError):
    """An application has computed something else than it should."""
