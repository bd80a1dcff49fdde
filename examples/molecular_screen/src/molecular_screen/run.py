"""The screen from start to end: train, prepare the library, screen, compare the engines."""

import sys
import time
from collections.abc import Iterator

from molecular_screen import data, library, machine, ranking, surrogate, timing
from molecular_screen.data import Molecule
from molecular_screen.design.candidates import candidates
from molecular_screen.progress import Progress
from molecular_screen.ranking import Ranking
from molecular_screen.report import Findings
from molecular_screen.score import load

SAMPLE_COUNT_MAX = 6_000
"""The limit of molecules for the comparison. With so many, each engine takes more than a second per round, and the
comparison about 20 s."""


def every(molecules: Iterator[Molecule], step: int, kept: list[str]) -> Iterator[Molecule]:
    """Yields the molecules and keeps each `step`-th SMILES for the comparison."""
    for place, molecule in enumerate(molecules):
        if place % step == 0 and len(kept) < SAMPLE_COUNT_MAX:
            kept.append(molecule.smiles)
        yield molecule


def run(
    count: int,
    workers: int,
    seed: int,
    command: str,
    open_executor: timing.OpenExecutor = timing.open_executor,
    candidate_count: int = 0,
) -> Findings:
    """Runs the screen with `count` molecules; `open_executor` opens the engine that runs it.

    Selects up to `candidate_count` molecules for the design loop, from the screened molecules and from all real ones.
    """
    start = time.perf_counter()
    _say("training on the measured values")
    measured = [data.solubility(), data.hydration()]
    surrogates = [surrogate.train(source, seed) for source in measured]
    model = surrogate.combined(surrogates)
    load(model)
    trained = time.perf_counter()
    _say(f"preparing {count:,} molecules")
    shelf = library.open_library(measured, seed)
    shelf.prepare(count)
    prepared = time.perf_counter()
    sample: list[str] = []
    step = max(1, -(-count // SAMPLE_COUNT_MAX))
    ranked = Ranking([each.data for each in surrogates])
    progress = Progress(count)
    with open_executor(workers, model) as executor:
        list(executor.map(str, range(workers)))  # starts the workers before the clock
        began = time.perf_counter()
        ranking.screen(executor, every(shelf.molecules(count), step, sample), ranked, progress)
        screen_s = time.perf_counter() - began
    progress.close()
    done = ranked.outcome.scored_count + ranked.outcome.unreadable_count
    if done < count:
        _say(f"the rules give {done:,} different molecules, fewer than the {count:,} asked for")
    walk = shelf.molecules(max(count, shelf.real_count))
    _say(f"comparing the engines on {len(sample):,} molecules")
    return Findings(
        outcome=ranked.outcome,
        cards=ranking.cards(ranked.outcome.ranked, surrogates[0].data),
        surrogates=surrogates,
        timings=timing.compare(sample, workers, model, open_executor),
        workers=workers,
        screen_s=screen_s,
        prepare_s=prepared - trained,
        train_s=trained - start,
        real_count=shelf.real_count,
        rule_titles=shelf.rule_titles,
        command=command,
        machine=machine.description(),
        candidates=candidates(walk, candidate_count),
    )


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
