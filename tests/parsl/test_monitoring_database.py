"""The database of a monitored run: its tables, and its batches."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl import MonitoringHub
from gristmill.parsl._kernel.monitoring import database as databases
from gristmill.parsl._kernel.monitoring import rows
from gristmill.parsl._kernel.monitoring import writer as writing
from gristmill.parsl._kernel.monitoring.database import Database, Rows
from gristmill.parsl._kernel.monitoring.facts import TaskFacts
from gristmill.parsl._kernel.monitoring.schema import COLUMNS, adding
from gristmill.parsl._kernel.monitoring.writer import EventQueue, Writer
from gristmill.parsl._kernel.states import States
from gristmill.parsl.errors import ConfigurationError

#: Tables that Parsl 2026.10.26 makes: name, type, ``!`` for columns that are never null, and the position in the key.
PARSLS = {
    "workflow": "run_id TEXT!1 workflow_name TEXT workflow_version TEXT time_began DATETIME! time_completed DATETIME "
    "host TEXT! user TEXT! rundir TEXT! tasks_failed_count INTEGER! tasks_completed_count INTEGER!",
    "task": "task_id INTEGER!1 run_id TEXT!2 task_depends TEXT task_func_name TEXT! task_memoize TEXT! task_hashsum TEXT "
    "task_inputs TEXT task_outputs TEXT task_stdin TEXT task_stdout TEXT task_stderr TEXT task_time_invoked DATETIME "
    "task_time_returned DATETIME task_fail_count INTEGER! task_fail_cost FLOAT!",
    "try": "try_id INTEGER!1 task_id INTEGER!2 run_id TEXT!3 block_id TEXT hostname TEXT task_executor TEXT! "
    "task_try_time_launched DATETIME task_try_time_running DATETIME task_try_time_returned DATETIME "
    "task_fail_history TEXT task_joins TEXT",
    "node": "id INTEGER!1 run_id TEXT! hostname TEXT! uid TEXT! block_id TEXT! cpu_count INTEGER! total_memory BIGINT! "
    "active BOOLEAN! worker_count INTEGER! python_v TEXT! timestamp DATETIME! last_heartbeat DATETIME!",
    "block": "run_id TEXT!1 executor_label TEXT!3 block_id TEXT!2 job_id TEXT timestamp DATETIME!4 status TEXT!",
    "status": "task_id INTEGER!1 task_status_name TEXT!3 timestamp DATETIME!4 run_id TEXT!2 try_id INTEGER!",
    "resource": "try_id INTEGER!1 task_id INTEGER!2 run_id TEXT!3 timestamp DATETIME!4 resource_monitoring_interval FLOAT "
    "psutil_process_pid INTEGER psutil_process_memory_percent FLOAT psutil_process_children_count FLOAT "
    "psutil_process_time_user FLOAT psutil_process_time_system FLOAT psutil_process_memory_virtual FLOAT "
    "psutil_process_memory_resident FLOAT psutil_process_disk_read FLOAT psutil_process_disk_write FLOAT "
    "psutil_process_status TEXT psutil_cpu_num TEXT psutil_process_num_ctx_switches_voluntary FLOAT "
    "psutil_process_num_ctx_switches_involuntary FLOAT",
}
BLOCK = ("run_id", "executor_label", "block_id", "job_id", "timestamp", "status")


def columns_of(path: Path, table: str) -> str:
    connection = sqlite3.connect(path)
    found = connection.execute(f"PRAGMA table_info({table})").fetchall()
    connection.close()
    return " ".join(
        f"{name} {kind}{'!' * never}{key or ''}" for _, name, kind, never, _, key in found
    )


def block(status: str) -> tuple[str, Sequence[Any]]:
    """Returns a statement with one row."""
    return adding("block", BLOCK), [
        ("run", "label", status, None, "2026-01-01 00:00:00.000000", status)
    ]


def statuses(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT status FROM block ORDER BY rowid").fetchall()
    connection.close()
    return [status for (status,) in found]


class StandIn:
    """A stand-in for a database that records its batches, and fails a given number of times."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.batches: list[list[Any]] = []
        self.is_closed = False

    def write(self, batch: list[Rows]) -> None:
        if self.failures:
            self.failures -= 1
            raise sqlite3.OperationalError("database or disk is full")
        self.batches.append([row for _, rows in batch for row in rows])

    def close(self) -> None:
        self.is_closed = True


def writer_to(database: StandIn) -> Writer:
    """Returns a writer that writes when its buffer is full or it is closed, and never because of time."""

    def render(events: Sequence[Any]) -> list[list[Rows]]:
        return [[("", list(events))]] if events else []

    return Writer(database, render, lambda: None, period=10_000)  # type: ignore[arg-type]


def test_tables_and_columns_are_those_of_parsl(tmp_path: Path) -> None:
    Database(tmp_path / "ours.db").close()
    assert {table: columns_of(tmp_path / "ours.db", table) for table in PARSLS} == PARSLS


def test_the_tables_are_those_of_the_parsl_that_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from parsl.monitoring.db_manager import Database as Parsls

    theirs = Parsls(f"sqlite:///{tmp_path}/theirs.db")
    theirs.session.close()
    theirs.eng.dispose()
    assert {table: columns_of(tmp_path / "theirs.db", table) for table in PARSLS} == PARSLS


def test_a_database_that_is_there_is_added_to(tmp_path: Path) -> None:
    for status in ("first", "second"):
        database = Database(tmp_path / "it.db")
        database.write([block(status)])
        database.close()
    assert statuses(tmp_path / "it.db") == ["first", "second"]


def test_a_batch_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    database = Database(tmp_path / "it.db")
    database.write([block("kept")])
    with pytest.raises(sqlite3.Error):
        database.write([block("lost"), ("INSERT INTO status VALUES (?)", [(1,)])])
    database.write([block("after")])
    database.close()
    assert statuses(tmp_path / "it.db") == ["kept", "after"]


def test_a_reader_in_the_middle_of_its_transaction_does_not_hold_up_the_run(tmp_path: Path) -> None:
    database = Database(tmp_path / "it.db")
    database.write([block("seen")])
    reader = sqlite3.connect(tmp_path / "it.db", isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM block").fetchone() == (1,)
    database.write([block("written meanwhile")])
    assert reader.execute("SELECT count(*) FROM block").fetchone() == (1,)
    reader.execute("COMMIT")
    assert reader.execute("SELECT count(*) FROM block").fetchone() == (2,)
    reader.close()
    database.close()


def test_a_run_may_begin_while_another_program_reads(tmp_path: Path) -> None:
    Database(tmp_path / "it.db").close()
    reader = sqlite3.connect(tmp_path / "it.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM block").fetchone()
    database = Database(tmp_path / "it.db")
    reader.execute("COMMIT")
    reader.close()
    database.write([block("written")])
    database.close()
    assert statuses(tmp_path / "it.db") == ["written"]


def test_a_closed_database_is_one_file(tmp_path: Path) -> None:
    database = Database(tmp_path / "it.db")
    database.write([block("written")])
    database.close()
    assert [path.name for path in tmp_path.iterdir()] == ["it.db"]


@pytest.mark.parametrize(
    "url", ["postgresql://host/db", "sqlite://", "sqlite:///:memory:", "runs.db"]
)
def test_a_url_of_another_database_is_refused_where_it_is_written(url: str) -> None:
    with pytest.raises(ConfigurationError, match="logging_endpoint"):
        MonitoringHub(logging_endpoint=url)


def test_a_file_that_is_no_database_is_refused_as_the_run_begins(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("these are notes, and no database at all\n" * 100)
    with pytest.raises(ConfigurationError, match=r"notes\.db"):
        MonitoringHub(logging_endpoint=f"sqlite:///{tmp_path}/notes.db").open(tmp_path)
    assert (tmp_path / "notes.db").read_text().startswith("these are notes")


def test_the_database_is_in_the_folder_of_all_runs_if_nothing_else_is_said(tmp_path: Path) -> None:
    hub = MonitoringHub()
    hub.open(tmp_path / "runs").close()
    assert hub.logging_endpoint == f"sqlite:///{tmp_path}/runs/monitoring.db"
    assert (tmp_path / "runs" / "monitoring.db").exists()


def test_a_hub_is_made_again_from_its_repr() -> None:
    hub = MonitoringHub(workflow_name="mine", resource_monitoring_interval=0.5)
    assert vars(eval(repr(hub))) == vars(hub)


def test_ports_that_nothing_connects_to_are_said_to_be_unused() -> None:
    with pytest.warns(DeprecationWarning, match="hub_port is not used"):
        MonitoringHub(hub_port=55055)


@pytest.mark.parametrize("interval", [-1, float("nan"), "30"])
def test_an_interval_that_cannot_be_meant_is_refused(interval: Any) -> None:
    with pytest.raises(TypeError, match="resource_monitoring_interval"):
        MonitoringHub(resource_monitoring_interval=interval)


def test_what_happens_in_one_period_is_one_batch() -> None:
    database = StandIn()
    writer = writer_to(database)
    for number in range(1000):
        writer.put(number)
    writer.close()
    assert database.batches == [list(range(1000))]
    assert database.is_closed


def test_who_finds_the_queue_full_waits_until_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "_HELD_SIZE_MAX", 1000)
    database = StandIn()
    writer = writer_to(database)
    for number in range(25):
        writer.put(number, 100)
    writer.put("large", 2000)
    writer.put("small", 1)
    writer.close()
    # Each batch has one event more than the queue has room for.
    batches = [list(range(11)), list(range(11, 22)), [22, 23, 24, "large"], ["small"]]
    assert database.batches == batches


def test_texts_are_handed_over_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_PART_SIZE", 1000)
    batch = rows.Batch("run", 0)
    for number in range(20):
        columns = dict.fromkeys(COLUMNS["task"]) | {"task_id": number, "task_inputs": "y" * 300}
        attempt = rows.Attempt(0, "label", None, None, "x" * 300, None)
        batch.moved(number, TaskFacts(columns, 1.0, 2.0), States.failed, 3.0, attempt)
    parts = list(batch.rows())
    assert len(parts) > 10
    texts = [
        sum(
            len(value)
            for _, found in part
            for row in found
            for value in row
            if value and set(str(value)) <= {"x", "y"}
        )
        for part in parts
    ]
    assert max(texts) <= 2500
    assert sum(texts) == 20 * 600


def test_a_batch_that_could_not_be_written_is_written_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "_PAUSE_S", 0)
    database = StandIn(failures=3)
    writer = writer_to(database)
    writer.put("event")
    writer.close()
    assert database.batches == [["event"]]


def test_a_database_that_stays_full_costs_its_batches_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writing, "_HELD_SIZE_MAX", 2)
    monkeypatch.setattr(writing, "_RETRY_S", 0)
    database = StandIn(failures=1)
    writer = writer_to(database)
    for number in range(4):
        writer.put(number, 1)
    with pytest.warns(RuntimeWarning, match="^3 rows of monitoring are not in the database"):
        writer.close()
    assert database.batches == [[3]]
    assert "3 rows could not be recorded" in caplog.text


class Locked(StandIn):
    """A database that another program locks for so many tries."""

    def __init__(self, tries: int) -> None:
        super().__init__()
        self.tries = tries
        self.is_written = threading.Event()

    def write(self, batch: list[Rows]) -> None:
        if self.tries:
            self.tries -= 1
            error: Any = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        super().write(batch)
        self.is_written.set()


def test_a_locked_database_is_tried_again_while_the_run_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "_RETRY_S", 0)
    monkeypatch.setattr(writing, "_PAUSE_S", 0)
    database = Locked(100)
    writer = writer_to(database)
    writer.put("event")
    writer.hurry()
    database.is_written.wait()
    writer.close()
    assert database.batches == [["event"]]


def test_a_full_queue_takes_no_more_events_while_the_database_is_locked_and_no_thread_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "_HELD_SIZE_MAX", 1000)
    database = Locked(1 << 30)
    writer = writer_to(database)
    writer.put("first")
    writer.hurry()
    while database.tries == 1 << 30:
        pass
    for number in range(30):
        writer.put(number, 100)
    database.tries = 0
    with pytest.warns(RuntimeWarning, match="^at least 19 rows of monitoring are not in the"):
        writer.close(["last"])
    assert database.batches == [["first"], [*range(11), "last"]]


def test_a_queue_in_which_nothing_waits_holds_up_no_thread() -> None:
    writer = writer_to(StandIn())
    queue = EventQueue()
    # Threads that count at the same time may leave this.
    queue.size = queue.size_max + 1
    assert writer.make_room(queue)
    writer.close()


def test_a_database_that_stays_locked_after_the_end_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(writing, "_RETRY_S", 0)
    monkeypatch.setattr(databases, "_BUSY_MS", 0)
    statement = "INSERT INTO workflow (run_id) VALUES (?)"
    path = tmp_path / "monitoring.db"
    database = Database(path)

    def render(events: Sequence[Any]) -> list[list[Rows]]:
        return [[(statement, [(one,) for one in events])]]

    writer = Writer(database, render, lambda: None, period=10_000)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    writer.put("run")
    with pytest.warns(RuntimeWarning, match="^1 rows of monitoring are not in the database"):
        writer.close()
    other.execute("ROLLBACK")
    assert other.execute("SELECT count(*) FROM workflow").fetchone() == (0,)
    other.close()
