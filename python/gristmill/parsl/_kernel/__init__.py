"""Gristmill's data-flow kernel and what a Parsl program uses around it: apps, futures, files, executors, monitoring.

The modules are private. The modules of ``gristmill.parsl`` export from here, under Parsl's paths and names.
"""
