"""Designs molecules by active learning: simulate some, learn from them, choose which come next.

Sought are molecules that hold on to their electrons: a high vertical ionisation potential, as
redox-flow batteries need. The simulation is real quantum chemistry (extended tight binding, by
`tblite`), and the loop is a Parsl program: apps, futures, and no waiting between them. Importing
this package needs neither.
"""

INSTALL_HINT = "pip install --no-deps -r requirements/screen.txt"


def lacking() -> str | None:
    """Says why no simulation can run here; `None` when one can."""
    try:
        import tblite.interface  # noqa: F401
    except ImportError as missing:
        # Not there, or without the OpenMP library that it expects of the system.
        return f"{missing}; {INSTALL_HINT}"
    return None
