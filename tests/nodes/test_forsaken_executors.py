"""Executors with nodes that the program has dropped without a shutdown: submitted tasks still run."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Executor, Lease, _executor, on

import calls
from stage import Script


def wait_for_end() -> None:
    """Waits until all dropped executors are gone; the watchdog ends a wait that never succeeds."""
    while _executor._forsaken:
        pass


@pytest.mark.parametrize("kind", [Executor, Lease])
def test_what_was_submitted_runs_although_no_node_was_there_yet(
    kind: type[Executor], tmp_path: Path
) -> None:
    path = tmp_path / "ran"
    placement = on.local(1)
    kind(nodes=placement).submit(calls.append, str(path), "once")
    wait_for_end()
    assert path.read_text() == "once\n"
    assert placement not in _executor._placed.values()


@pytest.mark.parametrize("seconds", [None, 1000.0])
def test_the_collector_ends_none_before_its_tasks(tmp_path: Path, seconds: float | None) -> None:
    path = tmp_path / "ran"
    lease = Lease(on.local(1), seconds=seconds)
    lease.me = lease  # type: ignore[attr-defined]
    lease.submit(calls.append, str(path), "once")
    del lease
    gc.collect()
    wait_for_end()
    assert path.read_text() == "once\n"


def test_a_program_ends_when_what_it_has_forsaken_has_run(script: Script, tmp_path: Path) -> None:
    program = """
        import sys
        import calls
        from gristmill import Executor, on
        Executor(nodes=on.local(1)).submit(calls.append, sys.argv[1], "once")
    """
    script.run(program, str(tmp_path / "ran"))
    assert (tmp_path / "ran").read_text() == "once\n"


@pytest.mark.parametrize("kind", [Executor, Lease])
def test_a_standing_node_gets_its_workers_back_by_a_word(
    kind: type[Executor],
    keys: tuple[str, str],
    start_node: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gristmill._nodes.opening.EXPIRY_S", 10_000.0)  # silence ends nothing
    client, node = keys
    address = start_node(node, "--workers", "1")
    for number in range(3):
        held = kind(nodes=on.hosts(address, key=client))
        assert held.submit(calls.same, number).result() == number
        del held
    wait_for_end()
