"""Records in Parquet files: their contents, and that other tools read them."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gristmill._cli import main
from gristmill_bench import Engine
from gristmill_bench.ended import Ended
from gristmill_bench.executors.here import Inline
from gristmill_bench.records.lines import JsonLines
from gristmill_bench.records.parquet import COLUMNS, Parquet

pytestmark = pytest.mark.skipif(
    Parquet.missing() is not None, reason=f"records parquet: {Parquet.missing()}"
)


def twice(number: int) -> int:
    return 2 * number


def fail(number: int) -> int:
    raise ValueError(f"no {number}")


class Both:
    """A record writer that passes each task to several record writers."""

    def __init__(self, *records: Any) -> None:
        self._records = records

    def note(self, task: Ended) -> None:
        for one in self._records:
            one.note(task)

    def close(self) -> None:
        for one in self._records:
            one.close()


def test_a_table_has_what_lines_of_json_have_with_types(tmp_path: Path) -> None:
    records = Both(Parquet().open(tmp_path), JsonLines().open(tmp_path))
    engine = Engine(Inline().open(), records=records, sizes=True)
    first = engine.submit(twice, 1)
    engine.submit(max, first, engine.submit(twice, first))
    engine.submit(fail, 7)
    records.close()
    table = importlib.import_module("pyarrow.parquet").read_table(tmp_path / "tasks.parquet")
    assert table.column_names == [name for name, _ in COLUMNS]
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert (kinds["task_id"], kinds["success"]) == ("int64", "bool")
    assert kinds["parent_task_ids"].startswith("list<")
    lines = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    assert [_flat(line) for line in lines] == table.to_pylist()
    assert [size is not None for size in table["result_size"].to_pylist()] == [True] * 3 + [False]


def _flat(line: dict[str, Any]) -> dict[str, Any]:
    """Returns a line as a row of the table."""
    row: dict[str, Any] = dict.fromkeys(name for name, _ in COLUMNS)
    exception, execution = line.pop("exception"), line.pop("execution")
    row |= line | (execution or {})
    row |= {f"exception_{name}": value for name, value in (exception or {}).items()}
    row["task_id"] = int(row["task_id"])
    row["parent_task_ids"] = [int(one) for one in row["parent_task_ids"]]
    return row


def test_the_group_of_a_worker_is_in_the_table_where_there_are_groups(tmp_path: Path) -> None:
    records = Parquet().open(tmp_path)
    records.note(Ended("one", 0, (), 1.0, 2.0, group="large"))
    records.note(Ended("one", 1, (), 1.0, 2.0))
    records.close()
    table = importlib.import_module("pyarrow.parquet").read_table(tmp_path / "tasks.parquet")
    assert table["group"].to_pylist() == ["large", None]


def test_groups_are_written_as_tasks_end(tmp_path: Path) -> None:
    records = Parquet(group=10).open(tmp_path)
    for number in range(25):
        records.note(Ended("one", number, (), 1.0, 2.0))
    records.close()
    file = importlib.import_module("pyarrow.parquet").ParquetFile(tmp_path / "tasks.parquet")
    sizes = [file.metadata.row_group(one).num_rows for one in range(file.metadata.num_row_groups)]
    assert sizes == [10, 10, 5]


def test_threads_that_note_at_once_lose_nothing(tmp_path: Path) -> None:
    records = Parquet(group=7).open(tmp_path)

    def note(first: int) -> None:
        for number in range(first, first + 500):
            records.note(Ended("one", number, (), 1.0, 2.0))

    threads = [Thread(target=note, args=(500 * place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records.close()
    table = importlib.import_module("pyarrow.parquet").read_table(tmp_path / "tasks.parquet")
    assert sorted(table["task_id"].to_pylist()) == list(range(2_000))


def test_a_run_without_tasks_leaves_an_empty_table(tmp_path: Path) -> None:
    Parquet().open(tmp_path).close()
    table = importlib.import_module("pyarrow.parquet").read_table(tmp_path / "tasks.parquet")
    assert (table.num_rows, table.column_names) == (0, [name for name, _ in COLUMNS])


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pandas", "duckdb"])
def test_others_read_it(library: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = pytest.importorskip(library)
    words = ["bench", "run", "--app", "fib", "--app.n", "5", "--executor", "inline"]
    assert main([*words, "--records", "parquet", "--run.folder", str(tmp_path)]) == 0
    file = Path(capsys.readouterr().out.splitlines()[-1]) / "tasks.parquet"
    if library == "pandas":
        frame = found.read_parquet(file)
        assert frame["success"].all()
        assert (frame["task_end_time"] >= frame["task_start_time"]).all()
        assert len(frame) == 15
    else:
        query = "SELECT count(*), bool_and(success) FROM read_parquet(?)"
        assert found.execute(query, [str(file)]).fetchone() == (15, True)
