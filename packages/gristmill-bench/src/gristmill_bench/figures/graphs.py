"""Graphs of tasks from a recorded run, with their depth and width."""

from __future__ import annotations

from collections import Counter

import msgspec


class Graph(msgspec.Struct):
    """Tasks and their dependencies. Parents come before their children."""

    #: The function of each task.
    functions: list[str]
    #: Pairs of the indices of a parent and a child.
    edges: list[tuple[int, int]]

    def levels(self) -> list[int]:
        """Returns the level of each task: the number of tasks before it on the longest path that leads to it."""
        levels = [0] * len(self.functions)
        for parent, child in sorted(self.edges, key=lambda edge: edge[1]):
            levels[child] = max(levels[child], levels[parent] + 1)
        return levels

    @property
    def depth(self) -> int:
        """The number of tasks on the longest path."""
        return max(self.levels(), default=-1) + 1

    @property
    def width(self) -> int:
        """The most tasks on one level: how many could run at once if each level waited for the one before."""
        return max(Counter(self.levels()).values(), default=0)
