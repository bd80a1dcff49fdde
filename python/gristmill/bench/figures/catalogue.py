"""All figures that can be made again, by name."""

from __future__ import annotations

from collections.abc import Sequence

from gristmill.bench.errors import BenchError
from gristmill.bench.figures import contexts, kernels, suites
from gristmill.bench.figures.figure import Figure

#: The chapters of the page, each with its figures in order.
CHAPTERS: dict[str, tuple[Figure, ...]] = {
    "Kernels of data-flow programs": kernels.FIGURES,
    "Function contexts": contexts.FIGURES,
    "Executors and applications": suites.FIGURES,
}
#: In the order in which the page has them.
FIGURES: dict[str, Figure] = {one.key: one for each in CHAPTERS.values() for one in each}


def chosen(names: Sequence[str]) -> dict[str, Figure]:
    """Those of some names; ``all``: all of them."""
    if "all" in names:
        return FIGURES
    unknown = sorted(set(names) - set(FIGURES))
    if unknown:
        raise BenchError(f"there is no figure {unknown[0]!r}; there are: all, {', '.join(FIGURES)}")
    return {name: FIGURES[name] for name in FIGURES if name in names}
