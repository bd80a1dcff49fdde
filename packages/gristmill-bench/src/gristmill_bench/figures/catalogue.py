"""All figures that can be made again, by name."""

from __future__ import annotations

from collections.abc import Sequence

from gristmill_bench.errors import BenchError
from gristmill_bench.figures import contexts, kernels, suites
from gristmill_bench.figures.figure import Figure

#: The chapters of the page, each with its figures in order.
CHAPTERS: dict[str, tuple[Figure, ...]] = {
    "Kernels of data-flow programs": kernels.FIGURES,
    "Function contexts": contexts.FIGURES,
    "Executors and applications": suites.FIGURES,
}
#: The figures in the order of the page.
FIGURES: dict[str, Figure] = {one.key: one for each in CHAPTERS.values() for one in each}


def chosen(names: Sequence[str]) -> dict[str, Figure]:
    """Returns the figures of some names; ``all`` stands for all figures."""
    if "all" in names:
        return FIGURES
    unknown = sorted(set(names) - set(FIGURES))
    if unknown:
        raise BenchError(f"there is no figure {unknown[0]!r}; there are: all, {', '.join(FIGURES)}")
    return {name: FIGURES[name] for name in FIGURES if name in names}
