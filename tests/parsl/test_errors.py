"""Exceptions that are Parsl's exceptions too, in programs that import Parsl."""

from __future__ import annotations

import pytest

from stage import Script

_PROGRAM = """
import sys, tempfile
import gristmill
from gristmill.parsl import Config, GristmillExecutor, ThreadPoolExecutor

def fail():
    raise ValueError

def command():
    return "exit 3"

executor = {executor}
with gristmill.parsl.load(Config(executors=[executor], run_dir=tempfile.mkdtemp())) as kernel:
    python = gristmill.parsl.python_app(fail)()
    bash = gristmill.parsl.bash_app(command)()
    assert isinstance(python.exception(), ValueError)
    assert isinstance(bash.exception(), gristmill.parsl.app.errors.BashExitFailure)
    assert not {{"parsl", "parsl.errors"}} & set(sys.modules)
    import parsl
    from parsl.app.errors import AppException, BashExitFailure
    for kind in BashExitFailure, AppException, parsl.errors.ParslError:
        try:
            bash.result()
        except kind as error:
            print(error.exitcode)
    try:
        file = gristmill.parsl.File("zip://host/a.zip/b")
        gristmill.parsl.data_provider.zip.ZipFileStaging().is_zip_url(file)
    except parsl.data_provider.zip.ZipAuthorityError as error:
        print(error.file.netloc)
"""


@pytest.mark.parametrize("executor", ["GristmillExecutor(max_workers=1)", "ThreadPoolExecutor()"])
def test_a_failure_imports_no_parsl_and_a_later_import_makes_it_parsls(
    script: Script, executor: str
) -> None:
    # Python finds the folder of these tests as a package ``parsl``.
    pytest.importorskip("parsl.version", reason="Parsl is not installed")
    printed = script.run(_PROGRAM.format(executor=executor))
    assert printed.split() == ["3", "3", "3", "host"]
