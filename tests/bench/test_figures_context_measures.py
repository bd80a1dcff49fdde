"""Measurements that figures about contexts make themselves: calls at each level, bytes, processes, phases."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill_bench import BenchError
from gristmill_bench.figures.contexts import (
    calls,
    orphans,
    program,
    programs,
    sending,
    shares,
    starts,
)
from gristmill_bench.figures.contexts.levels import opened
from gristmill_bench.figures.session import Sample

#: Real runs that take seconds: ./dev suite runs all of them.
pytestmark = pytest.mark.slow

OURS = {"name": "gristmill-parsl", "kernel": "gristmill", "workers": 2}


def ready(factor: int) -> dict[str, int]:
    return {"factor": factor, "setter": os.getpid()}


def scaled(context: Any, number: int) -> tuple[int, int]:
    return context["factor"] * number, context["setter"]


def broken() -> dict[str, Any]:
    raise OSError("no such model")


def values(samples: list[Sample]) -> dict[tuple[str, Any], float]:
    return {(one.series, one.at): one.value for one in samples}


@pytest.mark.parametrize(("name", "setups"), [("L1", 3), ("L2", 3), ("L3", 1)])
def test_a_level_keeps_what_was_set_up_or_does_not(name: str, setups: int) -> None:
    with opened(name, ready, 10) as level:
        ended = level.calls(scaled, [(number,) for number in range(3)], at_once=2)
    assert sorted(one.result[0] for one in ended) == [0, 10, 20]
    assert len({one.result[1] for one in ended}) == setups
    assert all(one.seconds > 0 for one in ended)


def test_a_setup_that_fails_is_said_with_its_level() -> None:
    with pytest.raises(BenchError, match=r"(?s)L3: .*no such model"), opened("L3", broken) as level:
        level.call(scaled, 1)


def hang(_context: Any, told: str) -> None:
    Path(told).write_text("it runs")
    threading.Event().wait()


@pytest.mark.parametrize("name", ["L1", "L3"])
def test_a_call_that_hangs_does_not_outlive_what_was_measured(name: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)

    def measure() -> None:
        with opened(name, ready, 1) as level:
            level.submit(hang, level.context, str(told))
            told.read_text()
            raise BenchError("its time is over")

    with pytest.raises(BenchError, match="its time is over"):
        measure()


def test_additions_are_timed_as_tasks_as_invocations_and_here() -> None:
    for name in ("L1", "L3"):
        took = calls.elsewhere(name, 2)
        assert len(took) == 3
        assert min(took) > 0
    found = values(list(calls.overheads("task", lambda: [3.0, 1.0, 1.0])))
    assert found == {
        ("task", "for a worker"): 2.0,
        ("task", "for a call"): 1.0,
        ("task", "1,000 calls"): 1002.0,
    }
    assert 0 < calls.local()[0] < 1


def test_tasks_bring_their_data_and_invocations_their_arguments() -> None:
    task, invocation = (values(list(programs.counted(name))) for name in ("task", "invocation"))
    assert task["task", "bytes sent for a call"] > 500_000
    assert invocation["invocation", "bytes sent for a call"] < 5_000
    assert (task["task", "setups"], invocation["invocation", "setups"]) == (10, 1)
    assert task["task", "calls that found those before them"] == 0
    assert invocation["invocation", "calls that found those before them"] == 9


@pytest.mark.parametrize(("topology", "given"), [("client", 6), ("groups", 2)])
def test_bytes_are_counted_on_each_link(topology: sending.Topology, given: int) -> None:
    nodes = sending.sent(topology)
    size = sending._SIZE
    assert len(nodes) == 6
    assert {one["given"] + one["fetched"] for one in nodes.values()} == {size}
    sent = sum(one["given"] for one in nodes.values())
    passed_on = sum(one["passed_on"] for one in nodes.values())
    assert sent + passed_on == 6 * size
    assert size <= sent <= given * size


def test_a_context_under_load_is_looked_at_as_its_calls_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shares, "_CALLS", 40)
    monkeypatch.setattr(shares, "_STEPS", (20, 40))
    for figure, most in ((shares.Deployments(), 8), (shares.ShareValue(), 40)):
        found = figure._looks()
        assert [one.at for one in found] == [20, 40]
        assert all(1 <= one.value <= most for one in found)


def commands(pid: int) -> str:
    return Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")[0].decode()


def test_no_process_is_left_of_a_program_that_ends_or_is_killed() -> None:
    with orphans.started(OURS) as run:
        # The keeper has no environment, and is found nevertheless.
        assert "gristmill-keeper" in {commands(pid) for pid in run.processes()}
        run.end()
        assert run.left() == 0
    with orphans.started(OURS, "busy") as run:
        run.process.kill()
        run.process.wait()
        assert run.left() == 0


def test_processes_that_stay_are_counted_and_then_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    stays = (
        "import subprocess, sys; subprocess.Popen(['sleep', '600'], start_new_session=True, "
        "stdout=subprocess.DEVNULL); print('ready', flush=True); sys.stdin.read()"
    )
    monkeypatch.setattr(program, "COMMAND", stays)
    monkeypatch.setattr(orphans, "GRACE_S", 0.0)
    with orphans.started(OURS) as run:
        assert len(run.processes()) == 2
        run.end()
        assert run.left() == 1
    assert not run.processes()


def test_a_program_that_does_not_come_up_is_said() -> None:
    with (
        pytest.raises(BenchError, match=r"did not come up.*there is no executor"),
        orphans.started({"name": "nobody"}),
    ):
        pytest.fail("it came up")


def light() -> Callable[[str], dict[str, Any]]:
    """Returns a setup that imports a package which only the image has."""

    def opened(path: str) -> dict[str, Any]:
        import packaging  # from the opened image

        class Session:
            def run(self, *_: Any) -> None:
                # This is no assert, because the worker would have to import pytest for its rewritten asserts.
                if not str(packaging.__file__).startswith(path):
                    raise ImportError(packaging.__file__)

        return {"session": Session(), "image": None, "setup": (0.0, 1.0)}

    return opened


def test_first_calls_are_taken_apart_each_on_an_empty_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "_PACKAGES", ("packaging", "nobody-has-this"))
    monkeypatch.setattr(starts, "ready", light)
    monkeypatch.setattr(starts, "_CALLS", 2)
    monkeypatch.delenv(starts.IMAGE_FOLDER, raising=False)
    image = starts.packed(tmp_path)
    shutil.rmtree(tmp_path / "environment")
    with monkeypatch.context() as local:
        local.setenv("TMPDIR", str(tmp_path))
        local.setattr(tempfile, "tempdir", None)
        place = str(tmp_path)
        found = values([*starts.on_disk(image, place), *starts.in_memory(image, place)])
    assert starts.IMAGE_FOLDER not in os.environ
    assert {series for series, _ in found} == {
        "L2 (cold)",
        "L2 (hot)",
        "L3 (library)",
        "L3 (invocation)",
    }
    assert found["L2 (cold)", "setup"] == found["L3 (library)", "setup"] == 1.0
    assert found["L3 (invocation)", "setup"] == 0.0
    assert found["L3 (invocation)", "inference"] > 0
