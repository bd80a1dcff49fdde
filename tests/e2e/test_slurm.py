"""Slurm on a cluster: its commands, its jobs, and pilot jobs of Parsl in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cluster import Cluster, until
from slurm import Slurm

_MEET = Path(__file__).with_name("meet.py")


def test_srun_runs_a_command_on_every_node(slurm: Slurm) -> None:
    printed = slurm.run(["srun", "--nodes", "4", "hostname"]).stdout
    assert sorted(printed.split()) == ["n1", "n2", "n3", "n4"]


def test_a_batch_job_is_submitted_seen_and_cancelled(nodes: Cluster, slurm: Slurm) -> None:
    job, begun = nodes.shared / "job", nodes.shared / "begun"
    job.write_text(f"#!/bin/sh\nsrun hostname >>{begun}\nsleep infinity\n")
    number = slurm.run(
        ["sbatch", "--parsable", "--nodes", "2", job], cwd=nodes.shared
    ).stdout.strip()
    until(lambda: begun.exists() and len(begun.read_text().split()) == 2)
    assert slurm.jobs() == {number: "RUNNING"}
    slurm.run(["scancel", number])
    until(lambda: not slurm.jobs())
    until(lambda: slurm.states() == ["idle"] * 4)


def test_a_job_can_be_two_nodes_with_a_process_on_each_core(slurm: Slurm) -> None:
    command = [
        "srun",
        "--nodes",
        "2",
        "--ntasks-per-node",
        "2",
        "sh",
        "-c",
        "echo $(hostname) $SLURM_PROCID",
    ]
    lines = slurm.run(command).stdout.splitlines()
    names, ranks = zip(*map(str.split, lines), strict=True)
    assert sorted(ranks) == ["0", "1", "2", "3"]
    assert len(set(names)) == 2


def test_slurm_starts_parsl_on_two_nodes(nodes: Cluster, slurm: Slurm) -> None:
    pytest.importorskip("parsl.version")
    folder = nodes.shared / "parsl"
    folder.mkdir()
    # Parsl looks for its own programs on the path.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**slurm.environment, "PATH": path}
    done = nodes.login.run([sys.executable, _MEET, "parsl"], env=environment, cwd=folder)
    assert done.stdout.split() == ["n1", "n2"]
    until(lambda: not slurm.jobs())


def test_a_node_that_was_killed_and_booted_again_takes_jobs(nodes: Cluster, slurm: Slurm) -> None:
    node = nodes.node("n3")
    node.kill()
    node.boot()
    slurm.start_daemon(node)
    assert slurm.run(["srun", "--nodelist", "n3", "hostname"]).stdout == "n3\n"
