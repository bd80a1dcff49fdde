"""``gristmill top``: a live view of the executors of this user's programs."""
