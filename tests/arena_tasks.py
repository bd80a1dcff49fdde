"""Tasks with large arguments and results. Not in a test's module: workers import what they call, and pytest with it."""

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
