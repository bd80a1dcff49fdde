"""Folder on the path of observed programs, which import its ``sitecustomize`` when they start."""
