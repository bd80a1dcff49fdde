"""Two commits side by side: whether a row of `./dev bench` became worse.

`./dev bench --compare COMMIT ROW...` builds COMMIT and HEAD, measures both in interleaved pairs of fresh processes with
a second run of HEAD beside each pair (A/A). Each commit is measured by its own `benches`. For rows with a program in
`counted_tasks.py`, the instructions of a task are counted too, if the machine has a valgrind that can run the engine.
"""
