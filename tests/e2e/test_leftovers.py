"""A cluster leaves nothing behind, however the program ends that made it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import Cluster, until
from cluster.waiting import states

_PROGRAM = """
import json, signal, sys
from cluster import Cluster

signal.signal(signal.SIGINT, signal.default_int_handler)
with Cluster(nodes=2) as cluster:
    for node in [*cluster.nodes, cluster.login]:
        node.run(["sh", "-c", "setsid sleep infinity >/dev/null 2>&1 &"])
        node.start(["sleep", "infinity"])
    machines = [cluster.login, *cluster.nodes]
    processes = [one.pid for one in machines] + sum([one.processes() for one in machines], [])
    print(json.dumps([str(cluster.shared), processes]), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["in order", "interrupted", "killed"])
def test_nothing_outlives_a_program_that_ends(end: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout
        assert program.stdin
        shared, processes = json.loads(program.stdout.readline())
        assert len(states(processes)) == 3 + 3 * 2
        if end == "in order":
            program.stdin.close()
        else:
            program.send_signal(signal.SIGINT if end == "interrupted" else signal.SIGKILL)
        program.wait()
        until(lambda: not states(processes))
    if end == "killed":
        # The next cluster removes the files that the killed one left on the disk.
        with Cluster(nodes=1):
            pass
    assert not Path(shared).exists()
