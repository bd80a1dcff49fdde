"""The result of a design loop as a section of the report's page: drawings, values, charts."""

from collections.abc import Sequence
from html import escape
from itertools import accumulate

from molecular_screen import charts
from molecular_screen.design import printed
from molecular_screen.design.outcome import BEST_COUNT, Design, values_of

NOTE = (
    "The loop simulates some molecules, learns from them, predicts all others, one a task, and "
    "simulates those predicted best. The simulation is quantum chemistry: two energies by extended "
    "tight binding (IPEA1-xTB), of the molecule and without one electron, at the geometry of a "
    "force field. Against experiment such values are good to some tenths of an eV."
)


def section(design: Design) -> str:
    """Returns the section. Every text from data is escaped."""
    best = "".join(
        _molecule(rank, row) for rank, row in enumerate(printed.ranked(design)[:BEST_COUNT], 1)
    )
    rounds = "".join(_row(row) for row in printed.round_rows(design))
    return (
        "<h2>Molecules that are hard to ionise</h2>"
        f"<p class='soft'>{escape(NOTE)}</p><p>{escape(printed.comparison(design))}</p>"
        "<div class='scroll'><table><thead><tr><th class='number'>Rank</th><th>Structure</th>"
        "<th class='number'>Ionisation<br>eV</th><th class='number'>Predicted before<br>eV</th>"
        f"<th class='number'>Round</th><th>Molecule</th></tr></thead><tbody>{best}</tbody>"
        f"</table></div><div class='charts'>{_course(design)}</div>"
        "<div class='scroll'><table><thead><tr><th>Round</th><th class='number'>Simulated</th>"
        "<th class='number'>Mean<br>eV</th><th class='number'>Best so far<br>eV</th>"
        "<th class='number'>Error before<br>RMSE, eV</th><th class='number'>Ended after<br>s</th>"
        f"</tr></thead><tbody>{rounds}</tbody></table></div>"
        f"<p class='soft'>{escape(printed.effort(design))}</p>{_failures(design)}"
    )


def _molecule(rank: int, row: tuple[float, float | None, int, str]) -> str:
    value, predicted, number, smiles = row
    return (
        f"<tr><td class='number'>{rank}</td><td class='molecule'>{charts.drawing(smiles)}</td>"
        f"<td class='number first'>{printed.electronvolts(value)}</td>"
        f"<td class='number'>{printed.electronvolts(predicted)}</td>"
        f"<td class='number'>{printed.name_of(number)}</td>"
        f"<td><code>{escape(smiles)}</code></td></tr>"
    )


def _row(cells: Sequence[str]) -> str:
    first, *others = cells
    numbers = "".join(f"<td class='number'>{escape(cell)}</td>" for cell in others)
    return f"<tr><td>{escape(first)}</td>{numbers}</tr>"


def _course(design: Design) -> str:
    """Draws every simulation in the order of its choice, and the best value so far."""
    loop, chance = values_of(design.simulations), values_of(design.random)
    if not loop or not chance:
        return ""
    low, high = min(loop + chance), max(loop + chance)
    margin = 0.04 * (high - low) or 1.0
    frame = charts.Frame((0, max(len(loop), len(chance)) + 1), (low - margin, high + margin))
    body = _series(frame, chance, "chance") + _series(frame, loop, "dots")
    chart = frame.svg(
        body, "Simulated values in their order", "simulation", "ionisation potential, eV"
    )
    caption = (
        "Each simulation in the order of its choice, with the best until then as a line; "
        "in colour the loop, in grey molecules drawn at random."
    )
    return f"<figure>{chart}<figcaption>{caption}</figcaption></figure>"


def _series(frame: charts.Frame, values: Sequence[float], kind: str) -> str:
    dots = "".join(
        f"<circle cx='{frame.across(place):.1f}' cy='{frame.up(value):.1f}' r='2.4'/>"
        for place, value in enumerate(values, 1)
    )
    steps = "".join(
        f"H{frame.across(place):.1f}V{frame.up(value):.1f}"
        for place, value in enumerate(accumulate(values, max), 1)
    )
    start = f"M{frame.across(1):.1f} {frame.up(values[0]):.1f}"
    return f"<g class='{kind}'>{dots}</g><path class='course {kind}' d='{start}{steps}'/>"


def _failures(design: Design) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(each.smiles)}</code></td><td>{escape(each.failure)}</td></tr>"
        for each in design.failures
    )
    head = "<thead><tr><th>Without a value</th><th>Reason</th></tr></thead>"
    return f"<table>{head}<tbody>{rows}</tbody></table>" if rows else ""
