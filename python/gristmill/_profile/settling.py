"""Separation of waiting from working in native code that an engine or a program calls directly.

A stack ends at the last Python frame. Whether ``future.result()`` or ``matrix @ matrix`` waits or works below it, only
the kernel knows. The profiler asks the kernel, as often as it samples stacks, in which system call the thread sleeps.
The sleep that no stack explains is subtracted from the samples that end in code of an engine, then from those of a
program, and added to the category of the sleep.
"""

from __future__ import annotations

from collections import Counter

from gristmill._profile import kernel
from gristmill._profile.categories import Category

#: The states in which the kernel may find a thread, with the categories of stacks that explain such a sleep, and the
#: category if none does. Locks that Python takes have frames of their own, so a futex below a frame of an engine or a
#: program is a wait for tasks or results.
_SLEEPS: tuple[tuple[str, tuple[Category, ...], Category], ...] = (
    (kernel.INTERPRETER, (), "semaphore"),
    ("semaphore", ("semaphore", "queue"), "poll"),
    ("poll", ("poll",), "poll"),
    ("receive", ("receive",), "receive"),
    ("send", ("send",), "send"),
    ("standard library", ("standard library",), "standard library"),
    (kernel.SLEEPS, (), "poll"),
)

#: The categories whose samples are reduced, in order: engines wait first, functions of programs last.
_WAITERS: tuple[Category, ...] = ("engine", "standard library", "program")


def settle(
    categories: Counter[Category], open_: Counter[Category], states: Counter[str]
) -> dict[Category, float]:
    """Returns the time of a thread by category.

    :param categories: its samples by stack.
    :param open_: of these, how many end in code that may have waited or worked.
    :param states: the number of times that the kernel reported each state.
    :returns: as many samples as there were; fractions where they were divided.
    """
    looks, samples, movable = states.total(), categories.total(), open_.total()
    settled: dict[Category, float] = dict(categories)
    if not (looks and movable):
        return settled
    unexplained: dict[Category, float] = {}
    for state, explained_by, belongs in _SLEEPS:
        slept = states[state] / looks * samples
        explained = sum(categories[one] - open_[one] for one in explained_by)
        unexplained[belongs] = unexplained.get(belongs, 0.0) + max(0.0, slept - explained)
    whole = sum(unexplained.values())
    if not whole:
        return settled
    moved = min(whole, movable)
    left = moved
    for category in _WAITERS:
        taken = min(left, open_[category])
        if taken:
            settled[category] -= taken
        left -= taken
    for category, count in unexplained.items():
        settled[category] = settled.get(category, 0.0) + moved * count / whole
    return {category: count for category, count in settled.items() if count > 0}
