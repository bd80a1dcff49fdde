"""The resources that each task of a monitored run has used."""

from __future__ import annotations

import gc
import math
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill.parsl as parsl
from gristmill.parsl import GristmillExecutor
from gristmill.parsl._kernel.monitoring import sampling
from gristmill.parsl._kernel.monitoring.measure import measured, taken_from, value_in
from gristmill.parsl._kernel.monitoring.measured_functions import MeasuredFunctions

import monitored
import monitored_tasks
from monitored import query
from monitored_tasks import CPU_S, MEMORY_SIZE
from stage import Script


class Value:
    """A value that functions capture."""


def resources(folder: Path, columns: str, task_id: int = 0) -> list[Any]:
    return query(
        folder, f"SELECT {columns} FROM resource WHERE task_id = {task_id} ORDER BY timestamp"
    )


def test_a_task_has_its_cpu_time_and_its_memory(tmp_path: Path) -> None:
    with monitored.run(tmp_path):
        parsl.python_app(monitored_tasks.use_much)().result()
    first, last = resources(
        tmp_path,
        "psutil_process_time_user + psutil_process_time_system, psutil_process_memory_resident",
    )
    assert first[0] == 0
    assert last[0] >= 0.9 * CPU_S
    assert last[1] - first[1] >= 0.9 * MEMORY_SIZE
    (percent,) = resources(tmp_path, "max(psutil_process_memory_percent)")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert percent == pytest.approx(100 * last[1] / total)


def test_one_tasks_use_is_not_the_next_ones(tmp_path: Path) -> None:
    with monitored.run(tmp_path, executor=GristmillExecutor(max_workers=1)):
        parsl.python_app(monitored_tasks.use_much)().result()
        parsl.python_app(len)("").result()
    used = "max(psutil_process_time_user + psutil_process_time_system)"
    assert resources(tmp_path, used, 1) < resources(tmp_path, used, 0)
    assert resources(tmp_path, "DISTINCT psutil_process_pid", 0) == resources(
        tmp_path, "DISTINCT psutil_process_pid", 1
    )


def test_commands_count_for_the_task_that_ran_them(tmp_path: Path) -> None:
    @parsl.bash_app
    def burn() -> str:
        return "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"

    with monitored.run(tmp_path):
        burn().result()
    (used,) = resources(tmp_path, "max(psutil_process_time_user + psutil_process_time_system)")
    assert used > 0.01


def test_a_long_task_is_read_again_and_again_by_one_thread_of_its_worker(tmp_path: Path) -> None:
    with monitored.run(
        tmp_path, executor=GristmillExecutor(max_workers=1), resource_monitoring_interval=0.01
    ):
        sample = parsl.python_app(monitored_tasks.be_sampled)
        assert [sample(count).result() for count in (2, 5)] == [1, 1]
    assert query(tmp_path, "SELECT count(*) >= 6 FROM resource WHERE task_id = 1") == [1]
    assert set(resources(tmp_path, "resource_monitoring_interval")) == {0.01}
    used = resources(tmp_path, "psutil_process_time_user + psutil_process_time_system", 1)
    assert used == sorted(used)


def test_the_readings_of_one_call_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_READINGS_MAX", 8)
    watch = sampling.Watch(1.0)
    first = watch.readings[0]
    for _ in range(100):
        watch.sample()
        assert len(watch.readings) < 8
    assert watch.readings[0] is first
    assert watch.readings == sorted(watch.readings)
    assert watch.interval == 2.0 ** round(math.log2(watch.interval)) >= 16


def test_a_task_that_raises_has_its_resources(tmp_path: Path) -> None:
    with monitored.run(tmp_path):
        assert parsl.python_app(monitored_tasks.fail)("badly").exception() is not None
    assert len(resources(tmp_path, "psutil_process_status")) == 2


def test_an_interval_of_nothing_is_no_reading(tmp_path: Path) -> None:
    with monitored.run(tmp_path, resource_monitoring_interval=0):
        parsl.python_app(len)("").result()
    assert resources(tmp_path, "*") == []
    assert query(tmp_path, "SELECT count(*) FROM status WHERE task_status_name = 'running'") == [1]


def test_files_that_a_task_reads_count(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(300_000))
    with monitored.run(tmp_path):
        parsl.python_app(Path.read_bytes)(tmp_path / "data").result()
    (read,) = resources(tmp_path, "max(psutil_process_disk_read)")
    assert read >= 300_000


def test_a_measured_function_keeps_its_name_and_what_it_does() -> None:
    call = measured(divmod, 0)
    assert call.__name__ == "divmod"
    value, found = value_in(call(7, 2))
    assert value == (3, 1)
    assert found is not None
    assert found.pid == os.getpid()
    with pytest.raises(ZeroDivisionError) as raised:
        call(1, 0)
    assert taken_from(raised.value) is not None
    assert taken_from(raised.value) is None


def test_of_measured_functions_that_capture_values_few_are_kept() -> None:
    functions = MeasuredFunctions()
    values: list[weakref.ref[Value]] = []

    def capturing() -> Callable[[], object]:
        value = Value()
        values.append(weakref.ref(value))
        return lambda: value

    def with_default(value: Value | None = None) -> None: ...

    plain = functions.get(with_default, 0)
    for _ in range(300):
        functions.get(capturing(), 0)
    gc.collect()
    assert sum(value() is not None for value in values) == 16
    assert functions.get(with_default, 0) is plain, "it takes no place of theirs"
    assert functions.get(with_default, 1) is not plain


def test_a_result_that_was_not_measured_is_itself() -> None:
    for result in (None, (1, 2, 3), ("gristmill", "is", "fine")):
        assert value_in(result) == (result, None)


def test_a_process_that_a_task_forks_reads_itself(tmp_path: Path) -> None:
    def fork() -> bool:
        import os

        from gristmill.parsl._kernel.monitoring.readings import take

        child = os.fork()
        if child == 0:
            os._exit(int(take().memory_resident == 0))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    with monitored.run(tmp_path):
        assert parsl.python_app(fork)().result()


def test_a_task_is_read_after_one_that_was_interrupted_as_readings_began(script: Script) -> None:
    program = script.start(
        """
        import threading, time
        from gristmill.parsl._kernel.monitoring import sampling

        start = threading.Thread.start

        def interrupted(thread):
            threading.Thread.start = start
            raise KeyboardInterrupt

        threading.Thread.start = interrupted
        try:
            sampling.begin(0.01)
        except KeyboardInterrupt:
            print("interrupted")
        watch = sampling.begin(0.01)
        while len(watch.readings) < 2:
            time.sleep(0.001)
        print("read")
        """
    )
    assert program.communicate()[0] == "interrupted\nread\n"
