"""A provider whose jobs are processes on this machine."""

from __future__ import annotations

import os
import signal
import subprocess

from gristmill._nodes.block_status import BlockState, BlockStatus


class Processes:
    """A provider with the interface of Parsl's providers. A job is a shell that runs the command."""

    label = "processes"
    parallelism = 1.0
    nodes_per_block = 1
    min_blocks = 0
    script_dir: str | None = None
    status_polling_interval = 0
    walltime = "01:00:00"

    def __init__(self, init_blocks: int = 1, max_blocks: int = 1, prefix: str = "") -> None:
        self.init_blocks, self.max_blocks = init_blocks, max_blocks
        self.prefix = prefix
        self.jobs: list[subprocess.Popen[str]] = []
        self.commands: list[str] = []
        self.names: list[str] = []

    def submit(self, command: str, tasks_per_node: int, job_name: str) -> str:
        assert tasks_per_node == 1
        self.commands.append(command)
        self.names.append(job_name)
        *first, last = command.split("\n")
        script = "\n".join([self.prefix, *first, f"exec {last}"])
        pipe = subprocess.PIPE
        self.jobs.append(
            subprocess.Popen(["sh", "-c", script], stderr=pipe, text=True, start_new_session=True)
        )
        return f"job {len(self.jobs) - 1}"

    def status(self, jobs: list[str]) -> list[BlockStatus]:
        return [self._status(self.jobs[int(job.split()[1])]) for job in jobs]

    def _status(self, job: subprocess.Popen[str]) -> BlockStatus:
        code = job.poll()
        if code is None:
            return BlockStatus(BlockState.RUNNING)
        state = BlockState.FAILED if code else BlockState.COMPLETED
        assert job.stderr is not None
        return BlockStatus(state, exit_code=code, stderr_summary=job.stderr.read())

    def cancel(self, jobs: list[str]) -> list[bool]:
        for job in jobs:
            process = self.jobs[int(job.split()[1])]
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        return [True for _ in jobs]

    def close(self) -> None:
        for job in self.jobs:
            job.wait()
            assert job.stderr is not None
            job.stderr.close()
