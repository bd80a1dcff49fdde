"""Graphs of tasks, as a run was recorded: how deep and how wide they are."""

from __future__ import annotations

from collections import Counter

import msgspec


class Graph(msgspec.Struct):
    """Tasks, and which needs what another one returns. Parents come before their children."""

    #: What each task calls.
    functions: list[str]
    #: From a parent to a child, by their places.
    edges: list[tuple[int, int]]

    def levels(self) -> list[int]:
        """How many tasks come before each one on its longest way from a task that needs none."""
        levels = [0] * len(self.functions)
        for parent, child in sorted(self.edges, key=lambda edge: edge[1]):
            levels[child] = max(levels[child], levels[parent] + 1)
        return levels

    @property
    def depth(self) -> int:
        """Tasks on the longest way."""
        return max(self.levels(), default=-1) + 1

    @property
    def width(self) -> int:
        """The most tasks of one level: how many could run at once, if each level waits for the one before."""
        return max(Counter(self.levels()).values(), default=0)
