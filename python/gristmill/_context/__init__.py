"""Function contexts: declared, set up once for each worker, kept there."""
