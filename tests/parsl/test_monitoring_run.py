"""The database contents after a monitored run."""

from __future__ import annotations

import datetime
import gc
import getpass
import os
import signal
import sqlite3
import weakref
from pathlib import Path
from typing import Any

import pytest

import gristmill.parsl as parsl
from gristmill.parsl import File, GristmillExecutor, ThreadPoolExecutor
from gristmill.parsl._kernel.monitoring.writer import Writer
from gristmill.parsl.concurrent import ParslPoolExecutor

import monitored
import monitored_tasks
from monitored import query
from stage import Script

pytestmark = pytest.mark.slow

STATES = "SELECT task_status_name FROM status WHERE task_id = {} ORDER BY timestamp, rowid"
WHOLE_LIFE = ["pending", "launched", "running", "running_ended", "exec_done"]

#: An environment in which programs find the package under test.
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).parent), str(Path(parsl.__file__).parents[2])]
    )
}
PROGRAM = """
    import sys
    import gristmill.parsl as parsl, monitored

    @parsl.python_app
    def double(number):
        return 2 * number

    from pathlib import Path
    folder = Path(sys.argv[1])
"""


def double(number: int) -> int:
    return 2 * number


def fail(text: str) -> None:
    raise ValueError(text)


class FailsOnce:
    """A function that fails at its first call. It leaves a file behind to know of that call."""

    __name__ = "fails_once"

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self) -> str:
        if self.path.exists():
            return "well"
        self.path.touch()
        raise ValueError("not yet")


def app(function: Any, **options: Any) -> Any:
    return parsl.python_app(function, **options)


def test_a_run_is_a_workflow_that_began_and_completed(tmp_path: Path) -> None:
    with monitored.run(tmp_path, workflow_name="mill", workflow_version="7") as kernel:
        app(double)(1).result()
    columns = "run_id, workflow_name, workflow_version, user, rundir, tasks_completed_count, tasks_failed_count"
    assert query(tmp_path, f"SELECT {columns} FROM workflow") == [
        (kernel.run_id, "mill", "7", getpass.getuser(), kernel.run_dir, 1, 0)
    ]
    assert query(tmp_path, "SELECT time_completed >= time_began FROM workflow") == [1]


def test_a_run_without_a_name_has_that_of_the_file_that_makes_the_kernel(tmp_path: Path) -> None:
    with monitored.run(tmp_path) as kernel:
        assert kernel.workflow_name == "monitored.py"
        datetime.datetime.fromisoformat(kernel.workflow_version)
    named = query(tmp_path, "SELECT workflow_name, workflow_version FROM workflow")
    assert named == [("monitored.py", kernel.workflow_version)]


def test_a_task_goes_through_its_states(tmp_path: Path) -> None:
    with monitored.run(tmp_path):
        assert app(double)(4).result() == 8
    assert query(tmp_path, STATES.format(0)) == WHOLE_LIFE
    assert query(tmp_path, "SELECT task_func_name, task_depends, task_fail_count FROM task") == [
        ("double", "", 0)
    ]
    assert query(tmp_path, "SELECT try_id, task_id, task_executor, hostname FROM try") == [
        (0, 0, "gristmill", os.uname().nodename)
    ]
    ordered = "task_try_time_launched <= task_try_time_running AND task_try_time_running <= task_try_time_returned"
    assert query(tmp_path, f"SELECT {ordered} FROM try") == [1]
    assert query(tmp_path, "SELECT task_time_invoked <= task_time_returned FROM task") == [1]


def test_many_tasks_are_all_there(tmp_path: Path) -> None:
    with monitored.run(tmp_path) as kernel, ParslPoolExecutor(dfk=kernel) as pool:
        assert sum(pool.map(double, range(500))) == 500 * 499
    for table in ("task", "try"):
        assert query(tmp_path, f"SELECT count(*), sum(task_id) FROM {table}") == [
            (500, 500 * 499 // 2)
        ]
    assert query(tmp_path, "SELECT count(*) FROM status GROUP BY task_status_name") == [500] * 5


def test_each_attempt_has_its_row_and_its_failure(tmp_path: Path) -> None:
    with monitored.run(tmp_path, retries=1):
        assert app(FailsOnce(tmp_path / "called"))().result() == "well"
    assert query(tmp_path, "SELECT try_id, task_fail_history FROM try ORDER BY try_id") == [
        (0, "ValueError('not yet')"),
        (1, ""),
    ]
    assert query(tmp_path, "SELECT task_fail_count, task_fail_cost FROM task") == [(1, 1.0)]
    half = ["pending", "launched", "running", "running_ended"]
    assert query(tmp_path, STATES.format(0)) == [*half, "fail_retryable", *WHOLE_LIFE]


def test_an_exception_arrives_as_it_was_raised(tmp_path: Path) -> None:
    with monitored.run(tmp_path):
        error = app(fail)("badly").exception()
    assert repr(error) == "ValueError('badly')"
    assert vars(error) == {}
    assert query(tmp_path, "SELECT tasks_failed_count FROM workflow") == [1]
    assert query(tmp_path, "SELECT task_fail_history, task_try_time_running IS NULL FROM try") == [
        ("ValueError('badly')", 0)
    ]


def test_tasks_name_those_that_they_depend_on(tmp_path: Path) -> None:
    with monitored.run(tmp_path):
        first, second = app(double)(1), app(fail)("badly")
        assert app(pow)(first, app(double)(first)).result() == 16
        app(double)(second).exception()
    assert query(tmp_path, "SELECT task_depends FROM task ORDER BY task_id") == [
        "",
        "",
        "0",
        "0,2",
        "1",
    ]
    assert query(tmp_path, STATES.format(4)) == ["pending", "dep_fail"]


def test_a_join_app_names_what_it_waits_for(tmp_path: Path) -> None:
    with monitored.run(tmp_path):
        assert parsl.join_app(lambda: [app(double)(1), app(double)(2)])().result() == [2, 4]
    assert query(tmp_path, "SELECT task_joins FROM try WHERE task_id = 0") == ["1,2"]
    assert "joining" in query(tmp_path, STATES.format(0))


def test_a_result_that_was_known_is_no_run(tmp_path: Path) -> None:
    with monitored.run(tmp_path):
        cached = app(double, cache=True)
        assert cached(3).result() == cached(3).result() == 6
    assert query(tmp_path, STATES.format(1)) == ["pending", "memo_done"]
    assert query(tmp_path, "SELECT count(DISTINCT task_hashsum) FROM task") == [1]


def test_a_cancelled_task_is_a_failed_one(tmp_path: Path) -> None:
    import concurrent.futures

    never: Any = concurrent.futures.Future()
    with monitored.run(tmp_path):
        future = app(double)(never)
        assert future.cancel()
    assert query(tmp_path, STATES.format(0)) == ["pending", "failed"]
    assert query(tmp_path, "SELECT task_fail_history FROM try") == ["CancelledError()"]


def test_files_and_streams_have_their_names(tmp_path: Path) -> None:
    output, stdout = tmp_path / "out.txt", str(tmp_path / "log.txt")

    @parsl.bash_app
    def touch(inputs: Any = (), outputs: Any = (), stdout: Any = None, stderr: Any = None) -> str:
        return f"touch {outputs[0]}"

    with monitored.run(tmp_path):
        touch(inputs=[5], outputs=[File(str(output))], stdout=(stdout, "w")).result()
    columns = "task_inputs, task_stdout, task_stderr, task_stdin"
    assert query(tmp_path, f"SELECT {columns} FROM task") == [("[5]", stdout, "", None)]
    assert str(output) in query(tmp_path, "SELECT task_outputs FROM task")[0]


@pytest.mark.parametrize("kind", [GristmillExecutor, ThreadPoolExecutor])
def test_arguments_go_with_their_task_before_it_is_written(
    tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Writer.__init__, "__defaults__", (10_000,))
    with monitored.run(tmp_path, executor=kind()):
        value = monitored_tasks.Value()
        reference = weakref.ref(value)
        app(monitored_tasks.ignore)(value, inputs=[value]).result()
        text = str([value])
        del value
        while reference() is not None:  # the thread that ended the task may still hold it
            gc.collect()
        assert query(tmp_path, "SELECT count(*) FROM task") == [0]
    assert query(tmp_path, "SELECT task_inputs FROM task") == [text]


def test_a_long_failure_is_cut_in_the_middle(tmp_path: Path) -> None:
    with monitored.run(tmp_path, resource_monitoring_enabled=False):
        app(fail)("x" * 1_000_000).exception()
    (text,) = query(tmp_path, "SELECT task_fail_history FROM try")
    assert text.startswith("ValueError('xxx")
    assert text.endswith("xxx')")
    assert len(text) < 51_000


def test_the_engines_node_is_there_and_then_no_longer_active(tmp_path: Path) -> None:
    columns = "hostname, worker_count, active, total_memory > 0, cpu_count"
    with monitored.run(tmp_path):
        pass
    assert query(tmp_path, f"SELECT {columns} FROM node") == [
        (os.uname().nodename, 2, 0, 1, os.cpu_count())
    ]


def test_a_task_can_be_joined_with_its_node(tmp_path: Path) -> None:
    with monitored.run(tmp_path):
        app(double)(4).result()
    joined = "SELECT task_id, worker_count FROM try JOIN node USING (run_id, block_id, hostname)"
    assert query(tmp_path, joined) == [(0, 2)]


def test_without_measuring_the_engine_says_when_a_task_ran(tmp_path: Path) -> None:
    with monitored.run(tmp_path, resource_monitoring_enabled=False):
        assert app(double)(4).result() == 8
    assert query(tmp_path, STATES.format(0)) == WHOLE_LIFE
    assert query(tmp_path, "SELECT count(*) FROM resource") == [0]


def test_tasks_in_threads_run_and_have_no_resources_of_their_own(tmp_path: Path) -> None:
    with monitored.run(tmp_path, executor=ThreadPoolExecutor()):
        assert app(double)(4).result() == 8
    assert query(tmp_path, STATES.format(0)) == WHOLE_LIFE
    assert query(tmp_path, "SELECT count(*) FROM resource") == [0]


def test_two_runs_share_a_database(tmp_path: Path) -> None:
    for _ in range(2):
        with monitored.run(tmp_path):
            app(double)(1).result()
    assert query(tmp_path, "SELECT count(*) FROM workflow") == [2]
    assert query(tmp_path, "SELECT count(DISTINCT run_id) FROM task") == [2]


def test_a_killed_program_leaves_a_sound_database_with_its_earlier_batches(
    tmp_path: Path, script: Script
) -> None:
    program = (
        PROGRAM
        + """
    with monitored.run(folder):
        double(1).result()
        while not monitored.query(folder, "SELECT 1 FROM status WHERE task_status_name = 'exec_done'"):
            pass
        double(2).result()
        print("a batch is written", flush=True)
        sys.stdin.read()
    """
    )
    with script.start(program, str(tmp_path), env=ENVIRONMENT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "a batch is written\n"
        process.send_signal(signal.SIGKILL)
    assert query(tmp_path, "PRAGMA integrity_check") == ["ok"]
    assert query(tmp_path, "SELECT time_completed FROM workflow") == [None]
    assert query(tmp_path, STATES.format(0))[-1] == "exec_done"


def test_a_program_that_ends_without_cleanup_has_all_of_its_rows(
    tmp_path: Path, script: Script
) -> None:
    program = (
        PROGRAM
        + """
    running = monitored.run(folder)
    running.__enter__()
    double(1).result()
    """
    )
    script.run(program, str(tmp_path), env=ENVIRONMENT)
    assert query(tmp_path, STATES.format(0)) == WHOLE_LIFE
    assert query(tmp_path, "SELECT time_completed IS NULL FROM workflow") == [0]


def test_parsls_module_path_has_the_hub() -> None:
    import gristmill.parsl.monitoring
    from gristmill.parsl import MonitoringHub

    assert gristmill.parsl.monitoring.MonitoringHub is MonitoringHub


def test_the_visualizer_of_parsl_shows_a_run(tmp_path: Path) -> None:
    flask = pytest.importorskip("flask")
    models = pytest.importorskip("parsl.monitoring.visualization.models")
    from parsl.monitoring import visualization

    with monitored.run(tmp_path, resource_monitoring_interval=1) as kernel:
        first = app(double)(1)
        app(double)(first).result()
        app(fail)("badly").exception()
    server = flask.Flask("test", root_path=os.path.dirname(visualization.__file__))
    server.config["SQLALCHEMY_DATABASE_URI"] = f"sqlite:///{tmp_path}/monitoring.db"
    models.db.init_app(server)
    with server.app_context():
        models.db.create_all()
        from parsl.monitoring.visualization import views  # noqa: F401

        client = server.test_client()
        run = f"/workflow/{kernel.run_id}"
        for page in (
            "/",
            f"{run}/",
            f"{run}/task/",
            f"{run}/task/0",
            f"{run}/resource_usage",
            f"{run}/app/double",
        ):
            answer = client.get(page)
            assert answer.status_code == 200, page
            assert b"could not be found" not in answer.data
            assert b"does not have any resource usage" not in answer.data


def test_queries_of_the_tables_see_times_as_times(tmp_path: Path) -> None:
    with monitored.run(tmp_path):
        app(double)(1).result()
    connection = sqlite3.connect(tmp_path / "monitoring.db")
    (seconds,) = connection.execute(
        "SELECT julianday(time_completed) - julianday(time_began) FROM workflow"
    ).fetchone()
    connection.close()
    assert seconds > 0
