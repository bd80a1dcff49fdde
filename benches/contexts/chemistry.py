"""A search for molecules in small: quantum chemistry, a regression that learns from it, and what that predicts.

As ExaMol does it, in three kinds of calls: simulate one molecule (its ionisation potential by extended tight binding),
train on all that were simulated, predict a share of the candidates. Everything is seeded: each level of reuse finds
the same molecules.
"""

import importlib
from collections.abc import Sequence
from typing import Any

from benches.contexts.levels import Level

GROUPS = ("O", "N", "F", "Cl", "C=O", "C#N", "OC", "SC", "c1ccccc1", "c1ccncc1", "C1CC1", "N(C)C")
CHAINS = tuple("C" * length for length in range(1, 9))
CANDIDATES = tuple(f"{chain}{group}" for chain in CHAINS for group in GROUPS)
MODULES = (
    "numpy",
    "rdkit.Chem",
    "rdkit.Chem.rdFingerprintGenerator",
    "sklearn.ensemble",
    "gristmill.screen.design.simulation",
)
ROUNDS, BATCH, SHARES = 2, 6, 3
#: Of the regression's forest; one core.
TREES, FINGERPRINT_SIZE, SEED = 40, 1024, 7


def ready() -> dict[str, Any]:
    """Sets up all three kinds of calls."""
    modules = {name: importlib.import_module(name) for name in MODULES}
    make = modules["rdkit.Chem.rdFingerprintGenerator"].GetMorganGenerator
    return {"modules": modules, "generator": make(radius=2, fpSize=FINGERPRINT_SIZE)}


def simulate(context: Any, smiles: str) -> float:
    """Simulates one molecule; returns its ionisation potential in eV."""
    found = context["modules"]["gristmill.screen.design.simulation"].simulate(smiles)
    if found.ionisation_ev is None:
        raise RuntimeError(f"{smiles}: {found.failure}")
    return float(found.ionisation_ev)


def train(context: Any, known: dict[str, float]) -> Any:
    """Fits a forest to what was simulated."""
    forest = context["modules"]["sklearn.ensemble"].RandomForestRegressor(TREES, random_state=SEED)
    return forest.fit(features(context, tuple(known)), tuple(known.values()))


def predict(context: Any, forest: Any, candidates: Sequence[str]) -> list[float]:
    """Predicts the ionisation potentials of candidates."""
    return [float(value) for value in forest.predict(features(context, candidates))]


def features(context: Any, candidates: Sequence[str]) -> Any:
    """Describes each molecule by the surroundings of its atoms."""
    read = context["modules"]["rdkit.Chem"].MolFromSmiles
    rows = [context["generator"].GetFingerprintAsNumPy(read(smiles)) for smiles in candidates]
    return context["modules"]["numpy"].stack(rows)


def searched(level: Level) -> str:
    """Runs the search at one level; returns the molecule with the lowest value that was simulated."""
    context, engine = level.context, level.engine
    known: dict[str, float] = {}
    # Every so many first, so that there is something of each kind to learn from.
    batch = list(CANDIDATES[:: len(CANDIDATES) // BATCH][:BATCH])
    for _ in range(ROUNDS):
        values = engine.collect([level.submit(simulate, context, smiles) for smiles in batch])
        known.update(zip(batch, values, strict=True))
        forest = level.call(train, context, known)
        free = [smiles for smiles in CANDIDATES if smiles not in known]
        shares = [free[share::SHARES] for share in range(SHARES)]
        found = engine.collect([level.submit(predict, context, forest, share) for share in shares])
        ranked = sorted(
            (value, smiles)
            for share, values in zip(shares, found, strict=True)
            for smiles, value in zip(share, values, strict=True)
        )
        batch = [smiles for _, smiles in ranked[:BATCH]]
    return min(known, key=lambda smiles: known[smiles])
