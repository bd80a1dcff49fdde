"""Tasks with large arguments and results. They are not in a test's module, because a worker imports the module of what
it calls, and a test's module imports pytest.
"""

import os
import signal

import numpy as np

_kept = []


def echo(value):
    return value


def describe(value):
    return type(value).__name__, value.flags.writeable, value.flags.owndata, value.base is None


def write_first(value):
    value[0] = 1


def keep(value):
    _kept.append(value)
    return os.getpid()


def sum_of_kept():
    return [float(value.sum()) for value in _kept]


def forget_kept():
    _kept.clear()
    return os.getpid()


def ones(count):
    return np.ones(count)


def total(*values):
    return float(sum(value.sum() for value in values))


def die_of(value):
    os.kill(os.getpid(), signal.SIGKILL)


def raise_large():
    raise ValueError("x" * 1_000_000)


def submit_many(gate, value, count):
    """Submits calls with one value, passes the gate, and returns their results."""
    from gristmill import current_executor

    import calls

    own = value() if callable(value) else value
    executor = current_executor()
    futures = [executor.submit(sized, own, number) for number in range(count)]
    calls.enter(gate, 0)
    return [future.result() for future in futures]


def sized(value, number):
    return len(value) + number


def filled(number):
    return np.full(128 << 10, number % 256, np.uint8)


def submit_changing(gate, count):
    """Submits calls with one array that changes between the calls; returns the sums that the calls found."""
    from gristmill import current_executor

    import calls

    array = np.ones(250_000)
    executor, futures = current_executor(), []
    for number in range(count):
        array[-1] = 1 + number // 2
        futures.append(executor.submit(total, array))
    calls.enter(gate, 0)
    return [future.result() for future in futures]


def views_of_many(count):
    """Keeps results of tasks without their futures; returns the first and last bytes of all results."""
    from gristmill import current_executor

    executor = current_executor()
    arrays = [executor.submit(filled, number).result() for number in range(count)]
    return [(int(array[0]), int(array[-1])) for array in arrays]
