"""Errors of modules that differ between a worker and the process that submitted the task.

A worker only sees the difference. The submitting process sees the cause: it has edited the file since it imported it,
or the worker's node has another version.
"""

from __future__ import annotations

import copyreg
import os
import sys

from gristmill._errors import StaleModuleError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    #: The thing that differs, the name of its module, the file that the worker has found, and the worker's node.
    _Difference = tuple[str, str, str, str | None]

#: The environment variable of workers with the name of their node.
_NODE = "GRISTMILL_NODE"


def error_in_worker(what: str, module: str, file: str) -> StaleModuleError:
    """Makes the error of a worker, whose message the submitting process completes.

    :param what: what differs: ``module NAME``, or the name of a function.
    :param module: the name of the module.
    :param file: where the worker has found other code.
    """
    node = os.environ.get(_NODE)
    where = "the worker" if node is None else f"the worker on node {node}"
    text = f"{what} differs from the caller's: {where} finds other code in {file}"
    return _incomplete(text, (what, module, file, node))


def error_in_caller(text: str, difference: _Difference) -> StaleModuleError:
    """Makes the error that the submitting process sees: it says whether the file was edited. Never raises.

    In a process that has not loaded the module, such as one that the error only passes through, it stays as it is.
    """
    what, module, file, node = difference
    if module not in sys.modules or os.environ.get(_NODE) == node is not None:
        return _incomplete(text, difference)
    where = "the worker" if node is None else f"the worker on node {node}"
    if node is None or _is_edited(module):
        return StaleModuleError(
            f"{what} was edited after the caller imported it, or was replaced in the caller: {where} finds other code "
            f"in {file}; reload the module in the caller, or restart the caller"
        )
    return StaleModuleError(
        f"{what} is another version on node {node} than in the caller: {where} finds other code in {file}; install "
        "the caller's version there, or send it with a context"
    )


def _incomplete(text: str, difference: _Difference) -> StaleModuleError:
    error = StaleModuleError(text)
    error._difference = difference
    return error


def _reduce(error: StaleModuleError) -> Any:
    if error._difference is None:
        return StaleModuleError, error.args
    return error_in_caller, (str(error), error._difference)


copyreg.pickle(StaleModuleError, _reduce)


def _is_edited(module: str) -> bool:
    """Returns whether the file of a module holds other source than this process has loaded."""
    from gristmill import _sources

    try:
        loaded = _sources.source_hash(module)
        return loaded is None or loaded != _sources.hash_of_file(sys.modules[module].__spec__)
    except Exception:
        return True
