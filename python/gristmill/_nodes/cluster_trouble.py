"""A cluster that cannot be asked for its state: what keeps it from answering, and when it is given up."""

from __future__ import annotations

import logging

from gristmill._nodes.new_texts import NewTexts
from gristmill._nodes.pauses import Pauses
from gristmill._reasons import reason_of

_log = logging.getLogger("gristmill.nodes")


class ClusterTrouble:
    """The failures of the polls of one cluster. A pure state machine but for its log.

    :param cluster: what the cluster is, for messages.
    :param look_s: the time between two polls of a cluster that answers, seconds.
    """

    def __init__(self, cluster: str, look_s: float) -> None:
        self._cluster = cluster
        self._look_s = look_s
        self._pauses = Pauses()
        self._texts = NewTexts()
        #: The reason of the last poll's failure; empty if it did not fail.
        self.text = ""

    def clear(self) -> None:
        """Notes an answer."""
        self.text = ""
        self._texts.clear()
        self._pauses = Pauses()

    def note(self, error: Exception, lasted_s: float, has_node: bool) -> float | None:
        """Notes a failed poll. Returns the pause before the next one, seconds; ``None`` if the cluster is given up.

        :param lasted_s: the time that the poll has taken, seconds.
        :param has_node: whether a node is connected: then tasks run, and the cluster is not given up.
        """
        text = f"its state cannot be read: {reason_of(error)}"
        if self._texts.is_new(text):
            _log.warning("%s: %s", self._cluster, text)
        self.text = text
        if has_node:
            self._pauses = Pauses()
            return self._look_s
        pause_s = self._pauses.after(lasted_s, says_failed=True)
        return None if pause_s is None else max(self._look_s, pause_s)

    def failures(self) -> list[tuple[str, str]]:
        """Returns the cluster and why it could not be asked, if so."""
        return [(self._cluster, self.text)] if self.text else []
