"""The result of a design loop as text for the terminal."""

import sys

from molecular_screen.design.outcome import Design, Round, best_mean_ev, values_of
from molecular_screen.design.simulation import METHOD
from molecular_screen.report import signed, table

PRINTED_COUNT = 5
NOTHING = "\N{EN DASH}"


def progress(ended: Round) -> None:
    """Prints a round on standard error as soon as it has ended."""
    best = max(values_of(ended.simulations), default=None)
    print(
        f"round {ended.number}: {len(ended.chosen)} simulated, best {electronvolts(best)} eV, "
        f"error {electronvolts(ended.error_ev)} eV, {ended.ended_s:.1f} s",
        file=sys.stderr,
        flush=True,
    )


def electronvolts(value: float | None) -> str:
    """Formats an energy with two digits, or a dash for `None`."""
    return NOTHING if value is None else signed(value)


def text(design: Design) -> str:
    """Returns the loop's tables and their summary."""
    head = ["eV", "predicted", "round", "molecule"]
    best = [
        [electronvolts(value), electronvolts(predicted), name_of(number), smiles]
        for value, predicted, number, smiles in ranked(design)[:PRINTED_COUNT]
    ]
    rounds_head = ["round", "simulated", "mean, eV", "best so far, eV", "error before, eV", "s"]
    return "\n\n".join(
        [
            f"Design loop: a high ionisation potential, among {design.candidate_count:,} small "
            "molecules of the library",
            table(head, best, {0, 1}),
            table(rounds_head, round_rows(design), {1, 2, 3, 4, 5}),
            comparison(design),
            effort(design),
        ]
    )


def ranked(design: Design) -> list[tuple[float, float | None, int, str]]:
    """Returns the simulated molecules, the best first: value, prediction, round, SMILES."""
    found = [
        (each.ionisation_ev, choice.predicted_ev, batch.number, each.smiles)
        for batch in design.rounds
        for choice, each in zip(batch.chosen, batch.simulations, strict=True)
        if each.ionisation_ev is not None
    ]
    return sorted(found, key=lambda row: -row[0])


def name_of(number: int) -> str:
    """Returns the name of a batch: "random" for the first, which is drawn at random, and its number for the others."""
    return str(number) if number else "random"


def round_rows(design: Design) -> list[list[str]]:
    """Returns one row a round: number, simulations, mean, best so far, error before, seconds so far."""
    return [
        [
            name_of(batch.number),
            str(len(batch.simulations)),
            electronvolts(batch.mean_ev),
            electronvolts(design.best_until(batch.number)),
            electronvolts(batch.error_ev),
            f"{batch.ended_s:.1f}",
        ]
        for batch in design.rounds
    ]


def comparison(design: Design) -> str:
    """Compares the loop's result in words with as many simulations of molecules drawn at random."""
    loop, chance = design.simulations, design.random
    return (
        f"Of {len(loop)} simulations each, the best ten have {best_mean_ev(loop):.2f} eV on "
        f"average with the loop and {best_mean_ev(chance):.2f} eV at random; above "
        f"{design.high_ev:.2f} eV, which a tenth at random reaches, are "
        f"{design.high_count(loop)} against {design.high_count(chance)}."
    )


def effort(design: Design) -> str:
    """Returns in words the number of tasks and the share of time that the quantum chemistry used."""
    count = len(design.failures)
    failures = f"{count} molecules have no value" if count else "no molecule failed"
    return (
        f"{design.task_count:,} tasks in {design.loop_s:.1f} s "
        f"({design.task_count / design.loop_s:,.0f} tasks/s on {design.workers} workers); "
        f"{design.quantum_share:.0%} of the workers\N{RIGHT SINGLE QUOTATION MARK} time in the "
        f"quantum chemistry ({METHOD}); {failures}."
    )
