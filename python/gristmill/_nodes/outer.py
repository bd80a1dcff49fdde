"""The environment for launchers if this program is itself a rank of a launcher."""

from __future__ import annotations

import os

#: The prefixes of the variables by which launchers tell a rank its identity and the address of its job: Open MPI (4,
#: and 5 with PRRTE), MPICH's Hydra and compatible launchers, MVAPICH, PALS. Slurm's own launcher supports steps within
#: steps.
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
#: The variables of which every rank has at least one. Without them, variables with the prefixes above are the user's.
_RANK = (
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "PALS_RANKID",
)


def surroundings() -> dict[str, str]:
    """Returns this process's environment without the variables of an outer launcher.

    Open MPI's launcher refuses to start in the environment of another launcher's rank.
    """
    environment = dict(os.environ)
    if any(name in environment for name in _RANK):
        for name in [name for name in environment if name.startswith(_TOLD)]:
            del environment[name]
    return environment
