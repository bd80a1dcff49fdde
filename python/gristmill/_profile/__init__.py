"""``gristmill profile``: where the threads of a run's processes spend their time, by samples.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", section 3.1, which
profiles each thread of each process of Parsl and shares its time out among ten categories. Python stacks are sampled by
py-spy, from outside; the state of threads is read from ``/proc``; only objects and collections of garbage are counted
inside of the program.
"""
