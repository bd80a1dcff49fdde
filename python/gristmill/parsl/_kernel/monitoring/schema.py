"""The tables of a monitoring database: names, columns, types and keys are Parsl's."""

from __future__ import annotations

from functools import cache

#: The columns of each table, in SQLite's syntax.
_COLUMNS = {
    "workflow": (
        "run_id TEXT NOT NULL",
        "workflow_name TEXT",
        "workflow_version TEXT",
        "time_began DATETIME NOT NULL",
        "time_completed DATETIME",
        "host TEXT NOT NULL",
        "user TEXT NOT NULL",
        "rundir TEXT NOT NULL",
        "tasks_failed_count INTEGER NOT NULL",
        "tasks_completed_count INTEGER NOT NULL",
    ),
    "task": (
        "task_id INTEGER NOT NULL",
        "run_id TEXT NOT NULL",
        "task_depends TEXT",
        "task_func_name TEXT NOT NULL",
        "task_memoize TEXT NOT NULL",
        "task_hashsum TEXT",
        "task_inputs TEXT",
        "task_outputs TEXT",
        "task_stdin TEXT",
        "task_stdout TEXT",
        "task_stderr TEXT",
        "task_time_invoked DATETIME",
        "task_time_returned DATETIME",
        "task_fail_count INTEGER NOT NULL",
        "task_fail_cost FLOAT NOT NULL",
    ),
    "try": (
        "try_id INTEGER NOT NULL",
        "task_id INTEGER NOT NULL",
        "run_id TEXT NOT NULL",
        "block_id TEXT",
        "hostname TEXT",
        "task_executor TEXT NOT NULL",
        "task_try_time_launched DATETIME",
        "task_try_time_running DATETIME",
        "task_try_time_returned DATETIME",
        "task_fail_history TEXT",
        "task_joins TEXT",
    ),
    "node": (
        "id INTEGER NOT NULL",
        "run_id TEXT NOT NULL",
        "hostname TEXT NOT NULL",
        "uid TEXT NOT NULL",
        "block_id TEXT NOT NULL",
        "cpu_count INTEGER NOT NULL",
        "total_memory BIGINT NOT NULL",
        "active BOOLEAN NOT NULL",
        "worker_count INTEGER NOT NULL",
        "python_v TEXT NOT NULL",
        "timestamp DATETIME NOT NULL",
        "last_heartbeat DATETIME NOT NULL",
    ),
    "block": (
        "run_id TEXT NOT NULL",
        "executor_label TEXT NOT NULL",
        "block_id TEXT NOT NULL",
        "job_id TEXT",
        "timestamp DATETIME NOT NULL",
        "status TEXT NOT NULL",
    ),
    "status": (
        "task_id INTEGER NOT NULL",
        "task_status_name TEXT NOT NULL",
        "timestamp DATETIME NOT NULL",
        "run_id TEXT NOT NULL",
        "try_id INTEGER NOT NULL",
    ),
    "resource": (
        "try_id INTEGER NOT NULL",
        "task_id INTEGER NOT NULL",
        "run_id TEXT NOT NULL",
        "timestamp DATETIME NOT NULL",
        "resource_monitoring_interval FLOAT",
        "psutil_process_pid INTEGER",
        "psutil_process_memory_percent FLOAT",
        "psutil_process_children_count FLOAT",
        "psutil_process_time_user FLOAT",
        "psutil_process_time_system FLOAT",
        "psutil_process_memory_virtual FLOAT",
        "psutil_process_memory_resident FLOAT",
        "psutil_process_disk_read FLOAT",
        "psutil_process_disk_write FLOAT",
        "psutil_process_status TEXT",
        "psutil_cpu_num TEXT",
        "psutil_process_num_ctx_switches_voluntary FLOAT",
        "psutil_process_num_ctx_switches_involuntary FLOAT",
    ),
}
_KEYS = {
    "workflow": ("run_id",),
    "task": ("task_id", "run_id"),
    "try": ("try_id", "task_id", "run_id"),
    "node": ("id",),
    "block": ("run_id", "block_id", "executor_label", "timestamp"),
    "status": ("task_id", "run_id", "task_status_name", "timestamp"),
    "resource": ("try_id", "task_id", "run_id", "timestamp"),
}
#: Tables whose rows belong to an existing workflow.
_OF_A_WORKFLOW = ("status", "resource")
#: Tables whose rows are written once.
_UNCHANGING = ("status", "resource", "block")

#: The names of each table's columns, in their order.
COLUMNS = {
    table: tuple(column.split()[0] for column in columns) for table, columns in _COLUMNS.items()
}


def definitions() -> list[str]:
    """Returns the statements that make the missing tables."""
    statements = []
    for table, columns in _COLUMNS.items():
        parts = [*columns, f"PRIMARY KEY ({', '.join(_KEYS[table])})"]
        if table in _OF_A_WORKFLOW:
            parts.append("FOREIGN KEY(run_id) REFERENCES workflow (run_id)")
        statements.append(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(parts)})")
    statements.append("CREATE INDEX IF NOT EXISTS ix_task_task_hashsum ON task (task_hashsum)")
    return statements


@cache
def adding(table: str, columns: tuple[str, ...]) -> str:
    """Returns a statement that writes some columns of a row, and keeps the other columns of an existing row."""
    keys = _KEYS[table]
    changes = [f"{column} = excluded.{column}" for column in columns if column not in keys]
    # States and readings never change after they are written.
    action = "NOTHING" if table in _UNCHANGING else f"UPDATE SET {', '.join(changes)}"
    places = ", ".join("?" * len(columns))
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places}) "
        f"ON CONFLICT ({', '.join(keys)}) DO {action}"
    )


@cache
def changing(table: str, columns: tuple[str, ...]) -> str:
    """Returns a statement that changes some columns of all rows of a run. The ``run_id`` is its last value."""
    changes = ", ".join(f"{column} = ?" for column in columns)
    return f"UPDATE {table} SET {changes} WHERE run_id = ?"
