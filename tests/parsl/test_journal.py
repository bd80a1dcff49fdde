"""Journals as Python sees them. The Rust tests beside their source cover the faults that they survive."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from gristmill._native import Journal


@pytest.mark.parametrize("durable", [False, True])
def test_entries_are_found_by_the_next_writer_and_by_readers(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, durable)
    journal.append(b"one", b"1")
    journal.append_all([(b"two", b"2" * 3_000_000), (b"", b"")])
    journal.sync()
    expected = [(b"one", b"1"), (b"two", b"2" * 3_000_000), (b"", b"")]
    assert list(Journal.read(path)) == expected
    assert list(journal.entries()) == []
    journal.close()
    journal.close()
    again = Journal(str(path))
    again.append(b"later", b"")
    assert (again.lost, again.recovered, list(again.entries())) == (0, 3, expected)


def test_a_torn_end_is_cut_by_a_writer_and_left_by_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.append(b"whole", b"1")
    journal.append(b"torn", b"2")
    journal.close()
    path.write_bytes(path.read_bytes()[:-1])
    reader = Journal.read(path)
    assert reader.lost == 0
    assert list(reader) == [(b"whole", b"1")]
    size = path.stat().st_size
    journal = Journal(path)
    assert journal.lost == reader.lost == size - path.stat().st_size > 0


def test_errors_say_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    with pytest.raises(BlockingIOError, match="being written by another process"):
        Journal(path)
    with pytest.raises(ValueError, match="too long"):
        journal.append(b"k" * 1000, b"")
    journal.close()
    with pytest.raises(ValueError, match="closed"):
        journal.append(b"", b"")
    path.write_bytes(b"a diary of a few lines")
    with pytest.raises(ValueError, match="is not a journal"):
        Journal(path)
    with pytest.raises(ValueError, match="is not a journal"):
        Journal.read(path)
    with pytest.raises(FileNotFoundError):
        Journal.read(tmp_path / "missing")


def test_a_forked_child_does_not_write_its_parents_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    context = multiprocessing.get_context("fork")
    messages = context.SimpleQueue()

    def append() -> None:
        try:
            journal.append(b"child", b"")
        except RuntimeError as error:
            messages.put(str(error))

    child = context.Process(target=append)
    child.start()
    assert "forked child" in messages.get()
    child.join()
    journal.append(b"parent", b"")
    assert [key for key, _ in Journal.read(tmp_path / "journal")] == [b"parent"]
