"""Function contexts: declaration by the caller, setup once per worker, and retention on the worker."""
