"""Environments as images: one file each, built once, named by its hash, opened once per node."""
