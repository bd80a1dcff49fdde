"""A program that is itself a rank of a launcher: what it was told as one is not meant for what it starts."""

from __future__ import annotations

import os

#: What begins the names of variables by which launchers tell a rank who it is and where its job is: Open MPI (4, and 5
#: with PRRTE), MPICH's Hydra and those like it, MVAPICH, PALS. Slurm's own launcher knows steps in steps.
_TOLD = (
    "OMPI_APP_CTX_",
    "OMPI_ARGV",
    "OMPI_COMMAND",
    "OMPI_COMM_WORLD_",
    "OMPI_FILE_LOCATION",
    "OMPI_FIRST_RANKS",
    "OMPI_MCA_ess",
    "OMPI_MCA_initial_wdir",
    "OMPI_MCA_orte_",
    "OMPI_MCA_pmix",
    "OMPI_NUM_APP_CTX",
    "OMPI_UNIVERSE_SIZE",
    "PMIX_",
    "PRTE_LAUNCHED",
    "PRTE_MCA_ess",
    "PRTE_MCA_prte_",
    "PMI_",
    "MPI_LOCAL",
    "MV2_COMM_WORLD_",
    "PALS_RANKID",
    "PALS_LOCAL_",
)
#: What a rank of any of them has: without these, what begins so is a user's own.
_RANK = (
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "PALS_RANKID",
)


def surroundings() -> dict[str, str]:
    """The environment for a launcher of this process's own: Open MPI's refuses to start in that of another's rank."""
    environment = dict(os.environ)
    if any(name in environment for name in _RANK):
        for name in [name for name in environment if name.startswith(_TOLD)]:
            del environment[name]
    return environment
