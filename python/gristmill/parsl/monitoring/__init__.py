"""What a run leaves in a database: its tasks, their states, where they ran and what they used.

``hub`` is what a program configures, ``attach`` what the kernel calls. The tables are those of Parsl's monitoring, so
that queries written for it and ``parsl-visualize`` read them.
"""
