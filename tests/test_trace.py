"""``gristmill trace`` runs a program unchanged and reports where the time of its tasks went."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from gristmill._profile import task_slices
from gristmill._profile.submissions import Sample
from gristmill._profile.timings import COMPONENTS, Recorded, decades, hops, table

PROGRAM = """
import sys
import time

import gristmill


if __name__ == "__main__":
    with gristmill.Executor(max_workers=1) as executor:
        futures = [executor.submit(abs, -number) for number in range(50)]
        print(sum(future.result() for future in futures), sys.argv[1])
        print(sum(executor.map(abs, range(-10, 0))))
    sys.exit(3)
"""


def trace(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "gristmill._cli", "trace", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_traced_program_does_what_it_does_and_gets_a_table(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = trace(str(program), "word")
    assert (done.stdout, done.returncode) == ("1225 word\n55\n", 3)
    assert "60 tasks, 60 of them traced" in done.stderr
    assert all(name in done.stderr for _, _, name in COMPONENTS)


def test_a_missing_program_is_named() -> None:
    done = trace("nowhere.py")
    assert done.returncode == 2
    assert "there is no file nowhere.py" in done.stderr


def test_a_table_shares_out_the_whole_time() -> None:
    timings = {"submitted": 0, "written": 1_000, "claimed": 2_000, "started": 3_000}
    timings |= {"ended": 8_000, "published": 8_000, "drained": 10_000, "at": 0}
    lines = table(Recorded(1, [timings], [], {}))
    assert lines[5].split()[-4:] == ["5.00", "5.00", "5.00", "50.0%"]
    shares = [float(line.split()[-1].rstrip("%")) for line in lines if line.endswith("%")]
    assert sum(shares) == pytest.approx(100)


def test_a_plot_reaches_from_the_median_to_the_95th_percentile() -> None:
    base = dict.fromkeys(("written", "claimed", "started", "ended", "published"), 1_000)
    timings = [
        {"submitted": 0, **base, "drained": 1_000 + (1_000_000 if place > 90 else 10_000)}
        for place in range(100)
    ]
    found = hops(timings)
    assert [found[-1].median, found[-1].p95] == [10_000, 1_000_000]
    assert decades(found) == (3, 6)
    *_, axis, waits, _, _, _, _, ring = table(Recorded(100, timings, [], {}))
    assert axis.split()[-8:] == ["1", "us", "10", "us", "100", "us", "1", "ms"]
    assert ring.rindex("|") - ring.rindex("o") == 20
    assert waits.endswith("o         .         .         .")


def test_what_was_recorded_is_shown_again_without_the_program(tmp_path: Path) -> None:
    program, file, page = (
        tmp_path / "program.py",
        tmp_path / "timings.jsonl",
        tmp_path / "page.html",
    )
    program.write_text(PROGRAM)
    first = trace("--record", str(file), str(program), "word")
    program.unlink()
    again = trace("--html", str(page), str(file))
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == first.stderr
    assert "ring to the client" in page.read_text()
    assert f"gristmill trace --record {file} {program} word" in page.read_text()


def test_perfetto_has_each_task_with_its_hops_below_it(tmp_path: Path) -> None:
    program, file = tmp_path / "program.py", tmp_path / "timings.jsonl"
    program.write_text(PROGRAM)
    traces = [tmp_path / "first.json", tmp_path / "again.json"]
    trace("--record", str(file), "--perfetto", str(traces[0]), str(program), "word")
    trace("--perfetto", str(traces[1]), str(file))
    first, again = (json.loads(one.read_text()) for one in traces)
    assert first == again
    slices = [one for one in first["traceEvents"] if one["ph"] == "X"]
    tasks = [one for one in slices if one["name"] == "task"]
    assert [one["args"]["task"] for one in tasks] == list(range(60))
    assert {one["name"] for one in slices} >= {"task", "ring to the client"}
    # The hops of a task follow it. They share out its time, from the first slice to the last.
    borders = [*(slices.index(task) for task in tasks), len(slices)]
    for begin, end in pairwise(borders):
        task, hops = slices[begin], slices[begin + 1 : end]
        times = [task["ts"], *(hop["ts"] + hop["dur"] for hop in hops)]
        assert [hop["ts"] for hop in hops] == pytest.approx(times[:-1])
        assert times[-1] == pytest.approx(task["ts"] + task["dur"])


def test_rows_of_perfetto_have_one_task_at_a_time() -> None:
    def task(at: int, drained: int) -> dict[str, int]:
        names = ("submitted", "written", "claimed", "started", "ended", "published")
        return {name: place for place, name in enumerate(names)} | {"drained": drained, "at": at}

    recorded = Recorded(4, [task(0, 100), task(10, 20), task(20, 60), task(30, 50)], [], {})
    events = task_slices.document(recorded)["traceEvents"]
    tasks = [one for one in events if one["name"] == "task"]
    assert [(one["tid"], one["ts"], one["dur"]) for one in tasks] == [
        (1, 0.0, 0.1),
        (2, 0.01, 0.02),
        (3, 0.02, 0.06),
        (2, 0.03, 0.05),
    ]
    hops = [one for one in events if one.get("tid") == 1 and one["name"] != "task"]
    assert [(one["ts"], one["dur"]) for one in hops][-1] == (0.005, 0.095)
    assert [one["name"] for one in hops] == [name for _, _, name in COMPONENTS]


#: The beginning of a file of timings as the command writes it, with slots for its counts, words and a time.
HEAD = '{"kind": "gristmill timings", "version": 2, "count": %s, "command": %s, "machine": {}}\n'
TIMES = (
    '{"at": 0, "submitted": %s, "written": 1, "claimed": 2, "started": 3, "ended": 4, "published": 5, '
    '"drained": 6}\n'
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"kind": "gristmill timings", "version": 7, "count": 1, "command": []}\n', "version 7"),
        (
            '{"kind": "gristmill timings", "version": 2, "count": 1, "command": []}\n{}\n',
            "without all",
        ),
        ('{"kind": "gristmill timings", "version": 2, "count": 1', "damaged"),
        (HEAD % ("1", "3"), "not a list of words"),
        (HEAD % ('"1"', "[]"), "not all whole numbers"),
        (HEAD % ("1", "[]") + TIMES % "-1e999", "not all whole numbers"),
        (HEAD % ("1", "[]") + TIMES % "null", "not all whole numbers"),
        (HEAD % ("1", "[]") + "[" * 100_000, "damaged"),
    ],
)
def test_a_damaged_record_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "timings.jsonl"
    file.write_text(text)
    done = trace(str(file))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_calls_of_parsl_programs_are_seen(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import gristmill.parsl as parsl\n"
        "@parsl.python_app\n"
        "def twice(number): return 2 * number\n"
        "if __name__ == '__main__':\n"
        "    with parsl.load(parsl.Config(executors=[parsl.GristmillExecutor(max_workers=1)])):\n"
        "        print(sum(future.result() for future in [twice(one) for one in range(9)]))\n"
    )
    done = trace(str(program))
    assert (done.stdout, done.returncode) == ("72\n", 0), done.stderr
    assert "9 tasks, 9 of them traced" in done.stderr


#: A program whose tasks take each way into an engine; their number shows which are missing.
WAYS = """
import gristmill


if __name__ == "__main__":
    with gristmill.Executor(max_workers=1) as executor:
        context = gristmill.Context(dict)
        executor.submit_many(abs, range(1))
        several = [executor.options(loss_retries=1).submit(abs, one) for one in range(2)]
        several += [executor.options(context=context).submit(abs, one) for one in range(4)]
        several += [context.submit(abs, one) for one in range(8)]
        several += executor.options(priority=1).map(abs, range(16))
        several += executor.options(views=True).map(max, range(32), range(32), ordered=False)
        with gristmill.Lease(max_workers=1) as lease:
            several += [lease.options(priority=1).submit(abs, one) for one in range(64)]
"""


@pytest.mark.slow
def test_every_way_into_an_engine_is_seen(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(WAYS)
    done = trace(str(program))
    assert done.returncode == 0, done.stderr
    assert "127 tasks, 127 of them traced" in done.stderr


#: A program with maps as users write them: unread, dropped, abandoned, with results in order of completion, and with
#: too short a timeout.
MAPS = """
import os
import sys
import time

import gristmill


def note(text):
    with open(sys.argv[1], "a") as file:
        file.write(text)
    return text


def enter(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return path


if __name__ == "__main__":
    gate = sys.argv[1] + ".gate"
    with gristmill.Executor(max_workers=2) as executor:
        kept = executor.map(note, "abc", buffersize=1)
        executor.map(note, "def", buffersize=1)
    print("".join(sorted(open(sys.argv[1]).read())))
    with gristmill.Executor(max_workers=2) as executor:
        results = executor.map(enter, [gate, "/"], ordered=False)
        print(next(results))
        late = executor.map(enter, [gate], timeout=0)
        try:
            next(late)
        except TimeoutError:
            print("late")
        open(gate, "w").close()
        print(list(results) == [gate])
        begun = executor.map(abs, [-1, -2, -3], buffersize=1)
        print(next(begun))
        begun.close()
        print(list(begun))
"""


@pytest.mark.slow
def test_a_traced_map_does_what_it_does(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(MAPS)
    outputs = [
        subprocess.run(
            [*command, str(program), str(tmp_path / name)],
            capture_output=True,
            text=True,
            check=False,
        )
        for name, command in (
            ("plain", [sys.executable]),
            ("traced", [sys.executable, "-m", "gristmill._cli", "trace"]),
        )
    ]
    assert [one.stdout for one in outputs] == ["abcdef\n/\nlate\nTrue\n1\n[]\n"] * 2, outputs


def test_a_sample_is_bounded_and_reaches_late_tasks() -> None:
    sample = Sample(10)
    for number in range(1_000):
        sample.offer(number)  # type: ignore[arg-type]
    assert len(sample.futures) == 10
    assert sample.count == 1_000
    assert max(future for future, _ in sample.futures) >= 100  # type: ignore[type-var]


@pytest.mark.parametrize("option", ["--record", "--html", "--perfetto"])
def test_a_full_disk_is_named_and_the_table_is_there_all_the_same(
    tmp_path: Path, option: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("sys.exit(3)", ""))
    done = trace(option, "/dev/full", str(program), "word")
    assert (done.stdout, done.returncode) == ("1225 word\n55\n", 1)
    assert "60 tasks, 60 of them traced" in done.stderr
    assert "gristmill trace: cannot write /dev/full: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_hides_no_exit_status_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = trace("--record", "/dev/full", "--html", str(tmp_path / "page"), str(program), "word")
    assert done.returncode == 3
    assert (tmp_path / "page").read_text()
