"""``gristmill top``: what the programs of this user that have nodes are doing, as it happens."""
