"""No result that a program saw is lost when the program is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from memo_tasks import ask, make_task, start

pytestmark = pytest.mark.slow

# A run that computes numbers one after the other, prints each once the checkpoint has it, and never ends.
PROGRAM = """
import os, sys
sys.path[:0] = {path!r}
from pathlib import Path
from memo_tasks import call, start
from test_checkpoint_kill import square
memoizer = start(Path({folder!r}), {number}, checkpoint_mode="task_exit")
number = 0
while True:
    result = call(memoizer, square, number)
    os.write(1, b"%d %d\\n" % (number, len(result)))
    number += 1
"""


def square(number: int) -> Any:
    # Some results are so large that they take several writes.
    return [number * number] * (50_000 if number % 40 == 39 else 1)


def run_and_kill(folder: Path, number: int, after: int) -> int:
    """Kills a run after it has printed ``after`` numbers; returns how many it had printed by its death."""
    path = [str(Path(__file__).parent), *sys.path]
    program = PROGRAM.format(path=path, folder=str(folder), number=number)
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None
    said = [child.stdout.readline() for _ in range(after)]
    child.send_signal(signal.SIGKILL)
    said += child.stdout.readlines()
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    return sum(line.endswith(b"\n") for line in said)


@pytest.mark.parametrize("seed", range(int(os.environ.get("GRISTMILL_FAULT_SEEDS", "1"))))
def test_results_that_were_seen_before_a_kill_are_found_after_it(tmp_path: Path, seed: int) -> None:
    moments = random.Random(seed)
    seen = 0
    for number in range(3):
        seen = max(seen, run_and_kill(tmp_path, number, moments.randint(1, 200)))
        memoizer = start(tmp_path, 900 + number, checkpoint_mode="manual")
        for value in range(seen):
            known = ask(memoizer, make_task(square, value))
            assert known is not None, f"the result for {value} of {seen} is lost"
            assert known.result() == square(value)
