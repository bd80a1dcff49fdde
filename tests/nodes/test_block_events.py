"""The records of a provider's blocks, and the calls that describe them, under either kernel."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

import gristmill.parsl as parsl
from gristmill import StartError
from gristmill._nodes.block_status import BlockState
from gristmill.parsl import Config, GristmillExecutor, MonitoringHub

import calls
from processes import Processes
from stage import Script

pytestmark = pytest.mark.slow

_ROWS = "select executor_label, block_id, job_id, status from block order by block_id, timestamp"
#: The states of a block that had work and was removed at the end.
_COURSE = ["PENDING", "RUNNING", "SCALED_IN"]


def blocks(database: Path) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(database)
    rows = connection.execute(_ROWS).fetchall()
    connection.close()
    return rows


def test_each_state_of_a_block_is_a_row(tmp_path: Path) -> None:
    provider = Processes(init_blocks=2, max_blocks=2)
    executor = GristmillExecutor("blocks", provider=provider, max_workers_per_node=1)
    config = Config(
        executors=[executor], run_dir=str(tmp_path), monitoring=MonitoringHub(), strategy="none"
    )
    with parsl.load(config):
        while [one.state for one in executor.status().values()] != [BlockState.RUNNING] * 2:
            pass
        assert parsl.python_app(calls.same)(1).result() == 1
        assert executor.status_facade.keys() == executor.blocks_to_job_id.keys() == {"0", "1"}
    assert {one.state for one in executor.status().values()} == {BlockState.SCALED_IN}
    told = blocks(tmp_path / "monitoring.db")
    assert told == [
        ("blocks", number, f"job {number}", state) for number in ("0", "1") for state in _COURSE
    ]
    provider.close()


def test_a_block_that_was_not_taken_is_a_row_without_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Processes()
    monkeypatch.setattr(provider, "submit", lambda *_: None)
    executor = GristmillExecutor("blocks", provider=provider)
    config = Config(executors=[executor], run_dir=str(tmp_path), monitoring=MonitoringHub())
    with parsl.load(config), pytest.raises(StartError, match="could not be submitted"):
        parsl.python_app(calls.nothing)().result()
    assert ("blocks", "0", None, "FAILED") in blocks(tmp_path / "monitoring.db")
    assert executor.blocks_to_job_id == {}


def test_an_executor_of_this_machine_has_no_blocks(tmp_path: Path) -> None:
    executor = GristmillExecutor(max_workers=1)
    with parsl.load(Config(executors=[executor], run_dir=str(tmp_path))):
        assert executor.status() == executor.blocks_to_job_id == {}
        assert executor.block_count is None


def test_parsls_monitoring_has_the_blocks_under_its_kernel(script: Script, tmp_path: Path) -> None:
    pytest.importorskip("parsl.version")
    pytest.importorskip("sqlalchemy", reason="Parsl's hub writes with it")
    program = """
        import sys
        import parsl
        from parsl.monitoring import MonitoringHub
        import calls
        from processes import Processes
        from gristmill.parsl import GristmillExecutor

        if __name__ == "__main__":
            provider = Processes()
            executor = GristmillExecutor("blocks", provider=provider, max_workers_per_node=1)
            hub = MonitoringHub(logging_endpoint=f"sqlite:///{sys.argv[1]}/monitoring.db")
            config = parsl.Config(executors=[executor], run_dir=sys.argv[1], monitoring=hub)
            with parsl.load(config):
                print(parsl.python_app(calls.same)(7).result())
                while executor.status()["0"].status_name != "RUNNING":
                    pass
            provider.close()
    """
    here = Path(__file__).parent
    paths = [str(here), str(here.parent), os.environ.get("PYTHONPATH", "")]
    path_variable = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    printed = script.run(program, str(tmp_path), env=path_variable)
    assert printed.split() == ["7"]
    told = blocks(tmp_path / "monitoring.db")
    assert told == [("blocks", "0", "job 0", state) for state in _COURSE]
