"""Protein docking with a model in the loop: the application, what its tasks do, and its receptor."""
