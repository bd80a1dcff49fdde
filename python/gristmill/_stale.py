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

    #: The thing that differs, the name of its module, the file that the worker has found, the worker's node, and the
    #: hash of the source in that file.
    _Difference = tuple[str, str, str, str | None, bytes | None]

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
    return _incomplete(text, (what, module, file, node, _source_hash_of_file(module)))


def error_in_caller(text: str, difference: _Difference) -> StaleModuleError:
    """Makes the error that the submitting process sees: it says whether the file was edited. Never raises.

    In a process that has not loaded the module, such as one that the error only passes through, it stays as it is.
    """
    what, module, file, node, source = difference
    here = os.environ.get(_NODE)
    is_on_that_node = here is not None and here == node
    if module not in sys.modules or is_on_that_node:
        return _incomplete(text, difference)
    where = "the worker" if node is None else f"the worker on node {node}"
    if node is None or _is_edited(module, source):
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


def _is_edited(module: str, source_there: bytes | None) -> bool:
    """Returns whether this process has other code of a module than its file, or than a file with the same source.

    :param source_there: the hash of the source in the file that the worker has found.
    """
    from gristmill import _sources

    try:
        loaded = _sources.source_hash(module)
    except Exception:
        return True
    return loaded is None or loaded == source_there or loaded != _source_hash_of_file(module)


def _source_hash_of_file(module: str) -> bytes | None:
    """Returns the hash of the source that the file of a loaded module holds now. Never raises."""
    from gristmill import _sources

    return _sources.hash_of_file(getattr(sys.modules.get(module), "__spec__", None))
