"""Times at which tasks cross the borders between components: Gristmill's timings, and timestamps in Parsl and HTEX.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", thesis, section
2.2.2, which stamps each task of Parsl as it enters and leaves every component.
"""
