"""Failures of something outside that is asked again and again: each kind of text is logged once."""

from __future__ import annotations

import re

#: Times as messages write them: durations, dates, times of day, and times since an epoch in seconds or parts of them.
#: Ports of addresses and numbers of jobs are no times.
_TIMES = re.compile(
    r"(?<![\w.])\d+(\.\d+)? ?(ms|s|sec|secs|seconds?|min|minutes?)\b"
    r"|(?<![\w.])\d{4}[-/]\d\d[-/]\d\d"
    r"|((?<![\w.:])|(?<=\dT))\d{1,2}:\d\d(:\d\d([.,]\d+)?)?(?![\d:])"
    r"|(?<![\w.])1\d{9}(\d{3}){0,3}(\.\d+)?(?![\w.])"
)
#: Kinds that are logged before the next answer. Some texts have another number each time, such as one of a request.
_KINDS_MAX = 16


class NewTexts:
    """The kinds of texts since the last answer. Texts that differ in times only are of one kind."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()

    def is_new(self, text: str) -> bool:
        """Returns whether a text is the first of its kind, and notes it. Beyond a number of kinds none is new."""
        kind = _TIMES.sub("0", text)
        if kind in self._kinds or len(self._kinds) >= _KINDS_MAX:
            return False
        self._kinds.add(kind)
        return True

    def clear(self) -> None:
        """Notes an answer: the next failure is new, whatever its text is."""
        self._kinds.clear()
