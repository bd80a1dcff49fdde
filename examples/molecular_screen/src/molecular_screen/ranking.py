"""The screen on an executor, and the results that the report shows: the best, the distribution, the failures.

Memory: eight bytes a molecule for the distribution, and one window of molecules in flight. Only single molecules (no
salts or mixtures) that the measured molecules cover are ranked, and no measured ones.
"""

import heapq
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field

from rdkit import Chem, DataStructs
from rdkit.Chem import Descriptors, rdFingerprintGenerator, rdMolDescriptors

from molecular_screen.data import Molecule
from molecular_screen.progress import Progress
from molecular_screen.score import Score, score
from molecular_screen.surrogate import Measured

RANKED_COUNT = 30
"""The number of molecules kept for the report: about as many as a reader looks through."""

UNREADABLE_SHOWN_COUNT = 20
"""The number of refused molecules quoted with their reason; the others are counted."""

WINDOW = 8_192
"""The number of molecules in flight: over half a second of work for two workers, under 3 MB of strings."""

KNOWN_SHARE_MIN = 0.999
"""The least known share of a ranked molecule: counts are whole, so one unknown environment in 1,000 would show."""


@dataclass(order=True)
class Candidate:
    """A molecule among the best so far. Of equal scores the earlier one is better."""

    log_s: float
    order: int
    hydration: float = field(compare=False)
    molecule: Molecule = field(compare=False)


@dataclass
class Outcome:
    """The results of a screen."""

    scored_count: int = 0
    outside_count: int = 0
    mixture_count: int = 0
    measured_count: int = 0
    unreadable_count: int = 0
    unreadable: list[tuple[Molecule, str]] = field(default_factory=list)
    scores: "array[float]" = field(default_factory=lambda: array("d"))
    best: list[Candidate] = field(default_factory=list)

    @property
    def ranked(self) -> list[Candidate]:
        """The best molecules, the most soluble first."""
        return sorted(self.best, reverse=True)


class Ranking:
    """A collector of the scores, in the order of the molecules."""

    def __init__(self, measured: list[Measured]) -> None:
        self.outcome = Outcome()
        self._measured = {_flat(smiles) for each in measured for smiles in each.smiles}

    def add(self, molecule: Molecule, result: Score | str) -> None:
        """Records one result. A refused molecule is kept with its reason."""
        outcome = self.outcome
        if isinstance(result, str):
            outcome.unreadable_count += 1
            if len(outcome.unreadable) < UNREADABLE_SHOWN_COUNT:
                outcome.unreadable.append((molecule, result))
            return
        outcome.scored_count += 1
        log_s, hydration, known = result
        if "." in molecule.smiles:
            outcome.mixture_count += 1
        elif known < KNOWN_SHARE_MIN:
            outcome.outside_count += 1
        else:
            outcome.scores.append(log_s)
            self._rank(Candidate(log_s, -outcome.scored_count, hydration, molecule))

    def _rank(self, candidate: Candidate) -> None:
        best = self.outcome.best
        if len(best) == RANKED_COUNT and candidate < best[0]:
            return
        if _flat(candidate.molecule.smiles) in self._measured:
            self.outcome.measured_count += 1
        elif len(best) < RANKED_COUNT:
            heapq.heappush(best, candidate)
        else:
            heapq.heapreplace(best, candidate)


@dataclass(frozen=True)
class Card:
    """The facts about one ranked molecule that the report shows."""

    rank: int
    smiles: str
    formula: str
    weight: float
    log_s: float
    hydration: float
    origin: str
    nearest: str
    similarity: float


def screen(
    executor: Executor, molecules: Iterable[Molecule], ranking: Ranking, progress: Progress
) -> None:
    """Scores molecules on an executor, one a task, and records the results as they come."""
    in_flight: deque[Molecule] = deque()

    def smiles() -> Iterator[str]:
        for molecule in molecules:
            in_flight.append(molecule)
            yield molecule.smiles

    # The standard library's stubs have `buffersize` only from Python 3.14 on.
    results: Iterator[Score | str] = executor.map(score, smiles(), buffersize=WINDOW)  # type: ignore[call-arg, unused-ignore]
    for result in results:
        ranking.add(in_flight.popleft(), result)
        progress.advance()


def _flat(smiles: str) -> str:
    """Returns the canonical SMILES without stereochemistry, which solubility tables often omit."""
    return str(Chem.MolToSmiles(Chem.MolFromSmiles(smiles), isomericSmiles=False))


def cards(ranked: list[Candidate], measured: Measured) -> list[Card]:
    """Computes the facts about each ranked molecule that a chemist needs, with the nearest measured one."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(Chem.MolFromSmiles(smiles)) for smiles in measured.smiles]
    made = []
    for rank, candidate in enumerate(ranked, 1):
        molecule = Chem.MolFromSmiles(candidate.molecule.smiles)
        own = generator.GetFingerprint(molecule)
        likeness = DataStructs.BulkTanimotoSimilarity(own, prints)
        nearest = max(range(len(likeness)), key=likeness.__getitem__)
        made.append(
            Card(
                rank,
                Chem.MolToSmiles(molecule),
                rdMolDescriptors.CalcMolFormula(molecule),
                Descriptors.MolWt(molecule),
                candidate.log_s,
                candidate.hydration,
                candidate.molecule.origin,
                measured.smiles[nearest],
                likeness[nearest],
            )
        )
    return made
