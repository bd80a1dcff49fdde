"""Monitoring: a database with the tasks of a run, their states, where they ran and what they used.

A program configures a ``hub``, and the kernel calls ``attach``. The tables are those of Parsl's monitoring, so that
queries written for it and ``parsl-visualize`` can read them.
"""
