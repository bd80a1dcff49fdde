"""``gristmill doctor``: what works on this machine and what does not, and what to do about it."""
