"""The report of a screen: a table for the terminal and one self-contained HTML file.

The file loads nothing: styles, drawings and charts are inside, and it contains no address. Every text that comes from
data is escaped.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from string import Template

import numpy as np

from molecular_screen import charts
from molecular_screen.ranking import Card, Outcome
from molecular_screen.score import FINGERPRINT_RADIUS, FINGERPRINT_SIZE
from molecular_screen.surrogate import FOLD_COUNT, Surrogate
from molecular_screen.timing import ROUND_COUNT, Timing

PRINTED_COUNT = 10
_COUNT = re.compile(r"(?<=[A-Za-z])(\d+)")
MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Findings:
    """The facts that the report shows; times in seconds. `candidates` are the input of the design loop after it."""

    outcome: Outcome
    cards: list[Card]
    surrogates: list[Surrogate]
    timings: list[Timing]
    workers: int
    screen_s: float
    prepare_s: float
    train_s: float
    real_count: int
    rule_titles: list[str]
    command: str
    machine: dict[str, str]
    candidates: list[str] = field(default_factory=list)

    @property
    def task_count(self) -> int:
        """The tasks of the screen: molecules scored and molecules refused."""
        return self.outcome.scored_count + self.outcome.unreadable_count

    @property
    def sampled(self) -> bool:
        """True if the engines were compared on a part of the molecules."""
        return self.timings[0].molecule_count < self.task_count


def signed(value: float, digits: int = 2) -> str:
    """Formats a number with a true minus sign."""
    return f"{value:.{digits}f}".replace("-", MINUS)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> str:
    """Formats a table in columns for the terminal; `right` contains the columns aligned right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rows]
    ]
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:]])


def timing_rows(found: Findings) -> list[list[str]]:
    """Returns one row an engine: name, seconds, rate, range, against serial, efficiency, whole screen."""
    serial_s = found.timings[0].median_s
    rows = []
    for place, timing in enumerate(found.timings):
        low, high = timing.rate_range
        gain = serial_s / timing.median_s
        efficiency = f"{gain / found.workers:.0%}" if place else "\N{EN DASH}"
        whole = f"{found.task_count / timing.rate:,.1f}"
        rows.append(
            [
                timing.engine,
                f"{timing.median_s:.2f}",
                f"{timing.rate:,.0f}",
                f"{low:,.0f} to {high:,.0f}",
                f"{gain:.2f}{TIMES}",
                efficiency,
                whole,
            ]
        )
    return rows


def timing_note(found: Findings) -> str:
    """Describes what was timed, on which molecules, and which column is computed."""
    count = found.timings[0].molecule_count
    which = (
        f"{count:,} of the {found.task_count:,} molecules, taken evenly"
        if found.sampled
        else f"all {count:,} molecules"
    )
    whole = "computed from the rate" if found.sampled else "the median itself"
    return (
        f"Each engine scored the same molecules ({which}), one a task, with {found.workers} warm "
        f"workers; median of {ROUND_COUNT} interleaved rounds, scores identical to the serial "
        f"run. The last column is {whole}. One molecule costs "
        f"{found.timings[0].median_s / count * 1e6:.0f} µs serially."
    )


def printed(found: Findings) -> str:
    """Returns the report for the terminal: the best ten, the model's error, the times."""
    best = [
        [
            str(card.rank),
            signed(card.log_s),
            signed(card.hydration, 1),
            f"{card.weight:.1f}",
            f"{card.similarity:.2f}",
            card.smiles if len(card.smiles) <= 60 else f"{card.smiles[:59]}…",
        ]
        for card in found.cards[:PRINTED_COUNT]
    ]
    head = ["rank", "log S", "kcal/mol", "g/mol", "Tanimoto", "molecule"]
    errors = [
        f"{each.data.of.title}: held-out RMSE {each.validations[0].rmse:.2f} at random, "
        f"{each.validations[1].rmse:.2f} by scaffold, the mean alone "
        f"{each.validations[0].rmse_of_mean:.2f} {each.data.of.unit}"
        for each in found.surrogates
    ]
    times_head = ["engine", "s", "tasks/s", "range", "gain", "efficiency", "whole screen, s"]
    return "\n\n".join(
        [
            table(head, best, {0, 1, 2, 3, 4}),
            "\n".join(errors),
            _counted(found),
            table(times_head, timing_rows(found), {1, 2, 3, 4, 5, 6}),
            timing_note(found),
        ]
    )


def _counted(found: Findings) -> str:
    outcome = found.outcome
    return (
        f"Scored {outcome.scored_count:,} molecules in {found.screen_s:.1f} s "
        f"({found.task_count / found.screen_s:,.0f} tasks/s on {found.workers} workers); "
        f"{len(outcome.scores):,} within what the model knows, {outcome.outside_count:,} outside, "
        f"{outcome.mixture_count:,} salts or mixtures, {outcome.unreadable_count:,} unreadable."
    )


def html(found: Findings, design: str = "") -> str:
    """Returns the whole page; `design` is the section of the design loop, if there was one."""
    template = resources.files("molecular_screen").joinpath("page.html").read_text("utf-8")
    first = found.surrogates[0]
    return Template(template).substitute(
        summary=escape(_counted(found)),
        figures=_figures(found),
        ranking_note=escape(
            "Predicted, not measured; the held-out error is "
            f"±{first.validations[1].rmse:.2f} log units by scaffold. Ranked are single molecules "
            "made of atom environments that measured molecules have, and of no more of each than "
            "any of them has; measured molecules are left out. The further the nearest measured "
            "molecule, the weaker the prediction."
        ),
        ranked="".join(map(_ranked_row, found.cards)),
        distribution=charts.histogram(np.array(found.outcome.scores), "predicted log S"),
        distribution_note=escape(
            f"{len(found.outcome.scores):,} single molecules within what the model knows."
        ),
        radius=str(FINGERPRINT_RADIUS),
        columns=f"{FINGERPRINT_SIZE:,}",
        folds=str(FOLD_COUNT),
        quality="".join(map(_quality_rows, found.surrogates)),
        parities="".join(map(_parity, found.surrogates)),
        design=design,
        timing_note=escape(timing_note(found)),
        asked=f"{found.task_count:,}",
        timings=_timings(found),
        unreadable=_unreadable(found.outcome),
        run=_run(found),
    )


def _figures(found: Findings) -> str:
    ours, serial = found.timings[-1], found.timings[0]
    figures = [
        (f"{found.task_count:,}", "molecules, one a task"),
        (f"{found.screen_s:.1f} s", f"whole screen, {found.workers} workers"),
        (f"{found.task_count / found.screen_s:,.0f}", "tasks a second"),
        (f"{serial.median_s / ours.median_s:.2f}{TIMES}", "against one process"),
        (f"{found.surrogates[0].validations[1].rmse:.2f}", "held-out RMSE, log units"),
    ]
    return "".join(f"<li><b>{escape(a)}</b><span>{escape(b)}</span></li>" for a, b in figures)


def _number(text: str, kind: str = "number") -> str:
    return f"<td class='{kind}'>{escape(text)}</td>"


def _ranked_row(card: Card) -> str:
    return (
        f"<tr>{_number(str(card.rank))}<td class='molecule'>{charts.drawing(card.smiles)}</td>"
        f"{_number(signed(card.log_s), 'number first')}{_number(signed(card.hydration, 1))}"
        f"{_number(f'{card.weight:.1f}')}<td><code>{escape(card.smiles)}</code>"
        f"<small>{_formula(card.formula)} · {escape(card.origin)}</small></td>"
        f"<td class='number' title='{escape(card.nearest)}'>{card.similarity:.2f}</td></tr>"
    )


def _formula(formula: str) -> str:
    """Formats the counts of a formula as subscripts; a charge at its end stays on the line."""
    parts = _COUNT.split(formula)
    return "".join(f"<sub>{part}</sub>" if part.isdigit() else escape(part) for part in parts)


def _quality_rows(surrogate: Surrogate) -> str:
    of = surrogate.data.of
    return "".join(
        f"<tr><td>{escape(of.title)}</td><td>{escape(check.split)}</td>"
        + _number(f"{len(check.measured):,}")
        + _number(f"{check.rmse:.2f}", "number first")
        + _number(f"{check.mean_absolute_error:.2f}")
        + _number(f"{check.r_squared:.2f}")
        + _number(f"{check.rmse_of_mean:.2f}")
        + f"<td>{escape(of.unit)}</td></tr>"
        for check in surrogate.validations
    )


def _parity(surrogate: Surrogate) -> str:
    check, of = surrogate.validations[1], surrogate.data.of
    chart = charts.parity(check.measured, check.predicted, of.unit)
    caption = f"{of.title} ({of.source}), held out by scaffold; on the line both agree."
    return f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>"


def _timings(found: Findings) -> str:
    rows = timing_rows(found)
    lines = []
    for row in rows:
        kind = " class='ours'" if row is rows[-1] else ""
        lines.append(f"<tr{kind}><td>{escape(row[0])}</td>{''.join(map(_number, row[1:]))}</tr>")
    return "".join(lines)


def _unreadable(outcome: Outcome) -> str:
    if not outcome.unreadable:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(molecule.smiles)}</code></td><td>{escape(molecule.origin)}</td>"
        f"<td>{escape(reason)}</td></tr>"
        for molecule, reason in outcome.unreadable
    )
    shown = f"{outcome.unreadable_count:,} refused; the first {len(outcome.unreadable)} are shown."
    return (
        f"<h2>Molecules that could not be read</h2><p class='soft'>{shown}</p><table><thead><tr>"
        f"<th>SMILES</th><th>Origin</th><th>Reason</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _run(found: Findings) -> str:
    made = max(found.task_count - found.real_count, 0)
    facts = {
        "Command": found.command,
        "Molecules": f"{min(found.task_count, found.real_count):,} from the data files, "
        f"{made:,} made from them by reaction rules; none twice",
        "Reactions": "; ".join(found.rule_titles) or "none needed",
        "Before the screen": f"training and validation {found.train_s:.1f} s, "
        f"reading and preparing molecules {found.prepare_s:.1f} s",
        **found.machine,
    }
    return "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
