"""Design of molecules by active learning: the loop simulates some, learns from them, and chooses the next ones.

The loop searches for molecules that hold on to their electrons: a high vertical ionisation potential, as redox-flow
batteries need. The simulation is real quantum chemistry (extended tight binding, by `tblite`), and the loop is a Parsl
program: apps, futures, and no waiting between them. Importing this package needs neither.
"""

from molecular_screen import INSTALL_HINT


def lacking() -> str | None:
    """Returns the reason why no simulation can run here, or `None` if one can."""
    try:
        import tblite.interface  # noqa: F401
    except ImportError as missing:
        # The package is missing, or the OpenMP library that it expects of the system is.
        return f"{missing}; {INSTALL_HINT}"
    return None
