"""Runs the screen on an executor and keeps what the report shows: the best, the spread, failures.

Memory: eight bytes a molecule for the distribution, and one window of molecules in flight.
What is ranked: single molecules (no salts or mixtures), within what the measured molecules cover,
that are not measured themselves.
"""

import heapq
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field

from rdkit import Chem, DataStructs
from rdkit.Chem import Descriptors, rdFingerprintGenerator, rdMolDescriptors

from gristmill.screen.data import Molecule
from gristmill.screen.progress import Progress
from gristmill.screen.score import Score, score
from gristmill.screen.surrogate import Measured

RANKED_COUNT = 30
"""Molecules kept for the report: about what a reader looks through."""

UNREADABLE_SHOWN_COUNT = 20
"""Refused molecules quoted with their reason; the others are counted."""

WINDOW = 8_192
"""Molecules in flight: over half a second of work for two workers, under 3 MB of strings."""

KNOWN_SHARE_MIN = 0.999
"""Everything known: counts are whole, so one unknown environment in 1,000 would show."""


@dataclass(order=True)
class Candidate:
    """A molecule among the best so far; of equal scores the earlier one is better."""

    log_s: float
    order: int
    hydration: float = field(compare=False)
    molecule: Molecule = field(compare=False)


@dataclass
class Outcome:
    """What a screen found."""

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
    """Takes the scores in the order of the molecules."""

    def __init__(self, measured: list[Measured]) -> None:
        self.outcome = Outcome()
        self._measured = {_flat(smiles) for each in measured for smiles in each.smiles}

    def add(self, molecule: Molecule, result: Score | str) -> None:
        """Files one result; a refused molecule is kept with its reason."""
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
    """What the report says of one ranked molecule."""

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
    """Scores molecules on an executor, one a task, and files the results as they come."""
    in_flight: deque[Molecule] = deque()

    def smiles() -> Iterator[str]:
        for molecule in molecules:
            in_flight.append(molecule)
            yield molecule.smiles

    # The standard library's stubs learn of `buffersize` with Python 3.14.
    results: Iterator[Score | str] = executor.map(score, smiles(), buffersize=WINDOW)  # type: ignore[call-arg, unused-ignore]
    for result in results:
        ranking.add(in_flight.popleft(), result)
        progress.advance()


def _flat(smiles: str) -> str:
    """Writes the canonical SMILES without stereochemistry, which solubility tables often omit."""
    return str(Chem.MolToSmiles(Chem.MolFromSmiles(smiles), isomericSmiles=False))


def cards(ranked: list[Candidate], measured: Measured) -> list[Card]:
    """Looks up what a chemist asks of each ranked molecule, the nearest measured one included."""
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
