"""Tells waiting from working where stacks of Python cannot: in native code called right from an engine or a program.

A stack ends at the last Python frame. Whether ``future.result()`` or ``matrix @ matrix`` waits or works below it, the
kernel knows: it was asked just as often what the thread slept in. The sleep that no stack explains is taken from the
samples that end in code of an engine, then from those of a program, and put where it belongs.
"""

from __future__ import annotations

from collections import Counter

from gristmill._profile import kernel
from gristmill._profile.categories import Category

#: What the kernel may find a thread to sleep in, with the categories of stacks that explain such a sleep, and where it
#: belongs if none does. Locks that Python takes have frames of their own, so that a futex below an engine's or a
#: program's frame is somebody who waits for tasks or results.
_SLEEPS: tuple[tuple[str, tuple[Category, ...], Category], ...] = (
    (kernel.INTERPRETER, (), "semaphore"),
    ("semaphore", ("semaphore", "queue"), "poll"),
    ("poll", ("poll",), "poll"),
    ("receive", ("receive",), "receive"),
    ("send", ("send",), "send"),
    ("standard library", ("standard library",), "standard library"),
    (kernel.SLEEPS, (), "poll"),
)

#: From whose samples that is taken: engines wait first, functions of programs last.
_WAITERS: tuple[Category, ...] = ("engine", "standard library", "program")


def settle(
    categories: Counter[Category], open_: Counter[Category], states: Counter[str]
) -> dict[Category, float]:
    """Where the time of a thread went.

    :param categories: its samples by stack.
    :param open_: of these, how many end in code that may have waited or worked.
    :param states: what the kernel said of it, so many times.
    :returns: as many samples as there were; parts of them where they were shared out.
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
