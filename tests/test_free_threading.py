"""On a free-threaded interpreter the module enables the interpreter lock, because its code relies on it."""

from __future__ import annotations

import sys
import sysconfig

import pytest

from stage import Script

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.skipif(
        not sysconfig.get_config_var("Py_GIL_DISABLED"),
        reason=f"{sys.version.split()[0]} is not a free-threaded build",
    ),
]


def test_the_module_turns_the_lock_on(script: Script) -> None:
    printed = script.run(
        """
        import sys, warnings
        warnings.simplefilter("ignore")
        import gristmill
        with gristmill.Executor(2) as executor:
            print(executor.submit(int, "7").result(), executor.submit(sys._is_gil_enabled).result())
            print(sys._is_gil_enabled())
        """
    )
    assert printed == "7 True\nTrue\n"
