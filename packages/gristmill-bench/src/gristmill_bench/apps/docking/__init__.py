"""Protein docking with a model in the loop: the application, its tasks, and its receptor."""
