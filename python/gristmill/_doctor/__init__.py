"""``gristmill doctor``: a check of what works on this machine and what does not, with advice."""
