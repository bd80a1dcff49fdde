"""Times at which tasks cross the borders between components: of Gristmill by its tags, of Parsl and HTEX by notes.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", thesis, section
2.2.2, which stamps each task of Parsl as it enters and leaves every component.
"""
