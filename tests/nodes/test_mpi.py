"""Agents as ranks of a launcher that starts them all on this machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gristmill import Executor, StartError, on
from gristmill._nodes import mpi, outer
from gristmill._nodes.parts import rank
from gristmill._nodes.pauses import Pauses

import calls
from stage import Gate, descent, lives

#: A program that is called as ``mpiexec -n COUNT COMMAND...`` is.
_LAUNCHER = """#!/bin/sh
[ "$1" = --version ] && exec echo "{version}"
count=$2
shift 2
for number in $(seq 0 $((count - 1))); do
  PMI_RANK=$number MPI_LOCALNRANKS=$count "$@" &
done
wait
"""


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a launcher on the path; removes the variables of a Slurm allocation around the tests."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    path = tmp_path / "mpiexec"
    path.write_text(_LAUNCHER.format(version="HYDRA build details"))
    path.chmod(0o755)
    return path


def test_ranks_become_nodes(launcher: Path, gate: Gate) -> None:
    with Executor(nodes=on.mpi(2, workers=1)) as executor:
        held = [executor.submit(calls.enter, gate.path) for _ in range(2)]
        gate.wait_entered()
        gate.wait_entered()
        names = sorted(node.name.partition(".rank-")[2] for node in executor.nodes())
        assert names == ["0", "1"]
        gate.open(2)
        assert [future.result() for future in held] == [None, None]
        placement = executor._placement
        assert isinstance(placement, mpi.RankNodes)
        assert placement.supervisor is not None
        below = descent(placement.supervisor.processes()["mpiexec"])
    assert not [process for process in below if lives(process)]


@pytest.mark.slow
def test_a_launcher_that_ends_is_started_again(launcher: Path, gate: Gate) -> None:
    placement = on.mpi(2, workers=1)
    assert isinstance(placement, mpi.RankNodes)
    with Executor(nodes=placement) as executor:
        submit = executor.options(loss_retries=1).submit
        held = [submit(calls.enter, gate.path) for _ in range(2)]
        gate.wait_entered()
        gate.wait_entered()
        assert placement.supervisor is not None
        os.killpg(placement.supervisor.processes()["mpiexec"], signal.SIGKILL)
        gate.wait_entered()
        gate.wait_entered()
        gate.open(4)
        assert [future.result() for future in held] == [None, None]


def test_tasks_fail_with_what_the_launcher_says(
    launcher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher.write_text("#!/bin/sh\necho there are not enough slots >&2\nexit 1\n")
    monkeypatch.setattr(
        "gristmill._nodes.supervised_process.Pauses", lambda: Pauses(failures_max=1)
    )
    with (
        Executor(nodes=on.mpi(4)) as executor,
        pytest.raises(StartError, match="there are not enough slots"),
    ):
        executor.submit(calls.nothing).result()


def test_open_mpi_is_told_to_hand_the_key_over(launcher: Path) -> None:
    command = [str(launcher), "-n", "2"]
    assert mpi.handing_over(command) == command
    launcher.write_text(_LAUNCHER.format(version="mpiexec (OpenRTE) 4.1.4"))
    assert mpi.handing_over(command) == [str(launcher), "-x", "GRISTMILL_NODE_KEY", "-n", "2"]
    assert mpi.handing_over(["jsrun", "-n", "2"]) == ["jsrun", "-n", "2"]


#: A launcher that refuses to start where another launcher has set its variables for a rank, as Open MPI's does.
_JEALOUS = """#!/bin/sh
[ "$1" = --version ] && exec echo "mpiexec (OpenRTE) 4.1.4"
[ -n "$OMPI_UNIVERSE_SIZE$OMPI_MCA_ess_base_jobid$PMIX_RANK" ] && echo no recursive calls >&2 && exit 1
[ "$OMPI_MCA_btl" = self ] || exit 2
shift 4
exec "$@"
"""


def test_a_program_that_is_a_rank_itself_starts_ranks_of_its_own(
    launcher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher.write_text(_JEALOUS)
    monkeypatch.setattr(
        "gristmill._nodes.supervised_process.Pauses", lambda: Pauses(failures_max=1)
    )
    told = {"OMPI_UNIVERSE_SIZE": "4", "OMPI_MCA_ess_base_jobid": "7", "PMIX_RANK": "3"}
    of_rank = {"OMPI_COMM_WORLD_LOCAL_RANK": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
    for name, text in {**told, **of_rank, "OMPI_COMM_WORLD_RANK": "3"}.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("OMPI_MCA_btl", "self")
    with Executor(nodes=on.mpi(1, workers=1)) as executor:
        assert executor.submit(calls.add, 1, 2).result() == 3
        (name,) = [node.name for node in executor.nodes()]
        assert name.endswith(".rank-0"), "the outer rank is not its own"


def test_what_a_user_says_of_open_mpi_is_for_the_programs_launcher_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    monkeypatch.setenv("OMPI_MCA_orte_tmpdir_base", "/scratch")
    assert outer.surroundings() == dict(os.environ), "it is no rank"
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_MCA_plm_rsh_agent", "ssh")
    hidden = os.environ.keys() - outer.surroundings().keys()
    assert hidden == {"OMPI_COMM_WORLD_RANK", "OMPI_MCA_orte_tmpdir_base"}


def test_an_allocation_of_slurm_has_a_rank_on_each_node(
    launcher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    srun = launcher.with_name("srun")
    srun.write_text("#!/bin/sh\n")
    srun.chmod(0o755)
    assert mpi.choose_launcher(3) == [str(launcher), "-n", "3"]
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "4")
    assert mpi.choose_launcher(None)[:3] == ["srun", "--nodes=4", "--ntasks=4"]
    assert mpi.choose_launcher(2)[:3] == ["srun", "--nodes=2", "--ntasks=2"]


def test_the_user_must_name_an_unknown_launcher(
    launcher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="give the number of ranks"):
        on.mpi()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ValueError, match="name a launcher"):
        on.mpi(2)


@pytest.mark.parametrize(
    "variable", ["PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"]
)
def test_a_rank_knows_its_number(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rank() == 0
    monkeypatch.setenv(variable, "3")
    assert rank() == 3
