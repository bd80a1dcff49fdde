"""The ``gristmill profile`` command: samples where the threads of a run's processes spend their time.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", section 3.1, which
profiles each thread of each process of Parsl and divides its time among ten categories. py-spy samples Python stacks
from outside; the state of threads is read from ``/proc``; only objects and garbage collections are counted inside the
program.
"""
