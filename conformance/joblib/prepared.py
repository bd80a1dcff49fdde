"""Preparation of a worker for joblib's tests.

Workers import it without the adapter, so that nested loops in them stay joblib's.
"""

from __future__ import annotations

import os
from typing import Any


def prepare(environment: dict[str, str], initializer: Any, *values: Any) -> None:
    """Prepares a worker as loky prepares its own: sets environment variables and the depth of nesting.

    :param initializer: the initializer that joblib gives to its workers, or ``None``.
    """
    from joblib.externals.loky import process_executor

    os.environ.update(environment)
    process_executor._CURRENT_DEPTH = 1
    if initializer is not None:
        initializer(*values)
