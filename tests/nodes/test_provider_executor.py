"""Blocks of a provider under the data-flow kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

import gristmill.parsl as parsl
from gristmill import StartError
from gristmill.parsl import Config, GristmillExecutor
from gristmill.parsl._kernel.choice import worker_count
from gristmill.parsl.dataflow.states import States
from gristmill.parsl.errors import ConfigurationError

import calls
from processes import Processes
from stage import Script

pytestmark = pytest.mark.slow


def config(folder: Path, executor: GristmillExecutor, **fields: object) -> Config:
    return Config(executors=[executor], run_dir=str(folder / "runs"), **fields)  # type: ignore[arg-type]


def test_the_first_blocks_are_there_before_the_first_task(tmp_path: Path) -> None:
    provider = Processes(init_blocks=2, max_blocks=2)
    executor = GristmillExecutor(provider=provider, max_workers_per_node=1)
    with parsl.load(config(tmp_path, executor, strategy="none")) as kernel:
        while worker_count(executor) < 2:
            pass
        assert len(provider.jobs) == 2
        assert kernel.task_count == 0
        same = parsl.python_app(calls.same)
        assert [future.result() for future in map(same, range(100))] == list(range(100))
        assert provider.script_dir == f"{kernel.run_dir}/submit_scripts"
        assert kernel.task_state_counts[States.exec_done] == 100
    provider.close()


def test_the_configuration_says_when_blocks_go(tmp_path: Path) -> None:
    provider = Processes(init_blocks=1)
    executor = GristmillExecutor(provider=provider, max_workers_per_node=1)
    settings = {"max_idletime": 0.0, "strategy_period": 0.05}
    with parsl.load(config(tmp_path, executor, **settings)):
        assert parsl.python_app(calls.same)(1).result() == 1
        provider.jobs[0].wait()
    provider.close()


def test_tasks_of_apps_fail_when_all_blocks_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gristmill._nodes.scaler._POLL_S", 0.01)
    provider = Processes(prefix="echo no such partition >&2; exit 1")
    executor = GristmillExecutor(provider=provider)
    with (
        parsl.load(config(tmp_path, executor)),
        pytest.raises(StartError, match="no such partition"),
    ):
        parsl.python_app(calls.nothing)().result()
    provider.close()


def test_blocks_come_and_go_under_the_kernel_of_parsl(script: Script, tmp_path: Path) -> None:
    pytest.importorskip("parsl.version")
    program = """
        import sys
        import parsl
        import calls
        from processes import Processes
        from gristmill.parsl import GristmillExecutor

        provider = Processes(init_blocks=2, max_blocks=2)
        executor = GristmillExecutor(provider=provider, max_workers_per_node=1)
        with parsl.load(parsl.Config(executors=[executor], run_dir=sys.argv[1])) as kernel:
            while executor.block_count < 2:
                pass
            same = parsl.python_app(calls.same)
            print(sum(future.result() for future in [same(number) for number in range(100)]))
            print(executor.block_count, provider.script_dir == f"{kernel.run_dir}/submit_scripts")
        print([job.wait() is not None for job in provider.jobs])
    """
    here = Path(__file__).parent
    paths = {"PYTHONPATH": f"{here}:{here.parent}"}
    printed = script.run(program, str(tmp_path / "runs"), env=paths)
    assert printed.splitlines() == ["4950", "2 True", "[True, True]"]


def test_a_provider_beside_other_nodes_is_refused(tmp_path: Path) -> None:
    from gristmill import on

    executor = GristmillExecutor(provider=Processes(), nodes=on.local(1))
    with pytest.raises(ConfigurationError, match="give only one of the two"):
        parsl.load(config(tmp_path, executor))


def test_other_nodes_are_taken_as_they_are(tmp_path: Path) -> None:
    from gristmill import on

    with parsl.load(config(tmp_path, GristmillExecutor(nodes=on.local(1, 1)))):
        assert parsl.python_app(calls.same)(1).result() == 1
