"""The page of all figures: description, picture, table, and whether the paper's relations hold here."""

from __future__ import annotations

from pathlib import Path

from gristmill_bench.figures import drawing
from gristmill_bench.figures.catalogue import CHAPTERS
from gristmill_bench.figures.data import Data, Place, read
from gristmill_bench.figures.figure import DOES_NOT_HOLD, Figure, Relation
from gristmill_bench.statistics import median_of

#: The page's file, beside the measurements of each figure.
PAGE = "index.md"
_HEAD = """# Results

Figures of the papers that Gristmill builds on, measured again. What counts is the *relation* that a figure shows (who
wins, which shape): numbers are those of the machine. Each can be made again with one command, which writes the
measurements, the picture and this page:

```sh
pip install gristmill-bench matplotlib
gristmill bench reproduce all --folder docs/results
```

Values are medians of the runs, with 95 % confidence intervals where there are samples enough, the extremes otherwise.
"""


def write(folder: Path) -> Path:
    """Writes the page of all measured figures into their folder, with their pictures.

    If another page also shows the table of a figure, writes the table there as well.
    """
    parts = [_HEAD]
    for chapter, figures in CHAPTERS.items():
        measured = [one for one in figures if (folder / f"{one.key}.json").exists()]
        if measured:
            parts.append(f"## {chapter}\n")
        parts += [_section(figure, folder) for figure in measured]
        for figure in measured:
            _write_elsewhere(figure, folder)
    page = folder / PAGE
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


def _section(figure: Figure, folder: Path) -> str:
    name = figure.key
    data = read(folder / f"{name}.json")
    lines = [
        f"### {figure.title}",
        f"{figure.source}; `gristmill bench reproduce {name}`. {figure.about}",
        "",
    ]
    missing = [f"- {series} is missing: {why}" for series, why in data.missing.items()]
    if not data.cells:
        return "\n".join([*lines, "Nothing of it could be measured.", "", *missing, ""])
    if figure.form == "table":
        lines += [*_table(figure, data), ""]
    else:
        drawing.draw(data, figure.title, folder / f"{name}.svg", figure.form)
        lines += [f"![{figure.title}]({name}.svg)", ""]
    lines += [
        "| The paper's relation | here | measured |",
        "|---|---|---|",
        *(_row(relation, data) for relation in figure.relations),
        "",
        *missing,
        "",
    ]
    if figure.form == "table":
        lines += [f"In {data.upward}. {_where(data)}", ""]
    else:
        # ``details`` is HTML, which any Markdown reader folds; ``markdown="1"`` makes some parse the table in it.
        lines += ['<details markdown="1">', f"<summary>Measurements, {data.upward}</summary>", ""]
        lines += [*_table(figure, data), "", _where(data), "", "</details>", ""]
    return "\n".join(lines)


def _write_elsewhere(figure: Figure, folder: Path) -> None:
    """Writes the table of a figure into its other page, if that page exists and has the marks."""
    other = folder / figure.elsewhere if figure.elsewhere is not None else None
    if other is None or not other.exists():
        return
    before, opened, rest = other.read_text(encoding="utf-8").partition(f"<!-- {figure.key} -->\n")
    _, closed, behind = rest.partition(f"<!-- end of {figure.key} -->\n")
    if not closed:
        return
    data = read(folder / f"{figure.key}.json")
    missing = [f"- {series} is missing: {why}" for series, why in data.missing.items()]
    lines = [*_table(figure, data), "", *missing, *([""] if missing else []), _where(data)]
    text = "".join(f"{line}\n" for line in lines)
    other.write_text(before + opened + text + closed + behind, encoding="utf-8")


def _where(data: Data) -> str:
    """Returns the sentence about the machine and its load."""
    facts = data.environment
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"Measured {facts['day']} on {facts['cpu']}, {facts['cores_allowed']} cores, "
        f"Python {facts['python'].split()[0]}, {versions}; load before: {facts['load_1_min']:.2f}."
    )


def _row(relation: Relation, data: Data) -> str:
    verdict, numbers = relation.verdict(data)
    shown = f"**{verdict}**" if verdict == DOES_NOT_HOLD else verdict
    return f"| {relation.text} | {shown} | {numbers} |"


def _table(figure: Figure, data: Data) -> list[str]:
    """Returns the table; the longer of series and places become the rows, because a page is longer than wide."""
    names, places = data.series(), data.places()
    found = {(cell.series, cell.at): cell.samples for cell in data.cells}
    cells = {
        (name, place): _cell(figure, place, found.get((name, place), []))
        for name in names
        for place in places
    }
    labels = [place if isinstance(place, str) else f"{place:,g}" for place in places]
    if len(names) > len(places):
        rows = [[name, *(cells[name, place] for place in places)] for name in names]
        return _lines(["", *labels], rows)
    rows = [
        [label, *(cells[name, place] for name in names)]
        for label, place in zip(labels, places, strict=True)
    ]
    return _lines([data.across, *names], rows)


def _lines(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in [head, *rows]]
    return [lines[0], "|---" * len(head) + "|", *lines[1:]]


def _cell(figure: Figure, place: Place, samples: list[float]) -> str:
    if not samples:
        return ""
    words = figure.words(place, samples)
    if words is not None:
        return words
    one = median_of(samples)
    return f"{_number(one.value)} ({_number(one.low)}-{_number(one.high)}; {one.samples})"


def _number(value: float) -> str:
    """Returns a number with three significant digits, without an exponent below a thousand million."""
    return f"{value:,.0f}" if 100 <= value < 1e9 else f"{value:.3g}"
