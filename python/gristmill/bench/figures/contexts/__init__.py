"""Figures about function contexts: what is saved when what calls share is set up once."""

from gristmill.bench.figures.figure import Figure

#: In the order of the paper.
FIGURES: tuple[Figure, ...] = ()
