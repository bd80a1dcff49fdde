"""The whole job on a given executor: the same scores as a serial run, and a self-contained report."""

import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from standin import StandIn, open_stand_in

from molecular_screen import (
    INSTALL_HINT,
    data,
    design,
    ranking,
    report,
    run,
    score,
    surrogate,
    timing,
)
from molecular_screen import __main__ as command
from molecular_screen.data import Molecule
from molecular_screen.progress import Progress
from molecular_screen.ranking import Ranking
from molecular_screen.report import Findings
from molecular_screen.surrogate import Surrogate

pytestmark = pytest.mark.slow

COUNT = 400


@pytest.fixture(scope="module")
def found() -> Findings:
    return run.run(COUNT, 2, 0, "python -m molecular_screen", open_stand_in)


@pytest.fixture(scope="module")
def executor(surrogates: list[Surrogate]) -> StandIn:
    return open_stand_in(2, surrogate.combined(surrogates))


def ranked_on(
    executor: StandIn, molecules: list[Molecule], surrogates: list[Surrogate]
) -> ranking.Outcome:
    filed = Ranking([each.data for each in surrogates])
    ranking.screen(executor, iter(molecules), filed, Progress(len(molecules), io.StringIO()))
    return filed.outcome


def test_the_executor_gives_the_scores_of_the_serial_run(
    executor: StandIn, measured: list[data.Property], surrogates: list[Surrogate]
) -> None:
    molecules = list(data.real_molecules(measured))[:COUNT]
    outcome = ranked_on(executor, molecules, surrogates)
    score.load(surrogate.combined(surrogates))
    serial = Ranking([each.data for each in surrogates])
    for molecule in molecules:
        serial.add(molecule, score.score(molecule.smiles))
    assert outcome == serial.outcome
    assert outcome.scored_count == COUNT


def test_an_unreadable_molecule_is_reported_and_the_others_are_scored(
    executor: StandIn, surrogates: list[Surrogate]
) -> None:
    molecules = [Molecule(smiles, "test") for smiles in ("CCO", "not one", "CCN", "C1CC")]
    outcome = ranked_on(executor, molecules, surrogates)
    assert outcome.scored_count == 2
    assert [molecule.smiles for molecule, _ in outcome.unreadable] == ["not one", "C1CC"]


def test_measured_molecules_and_mixtures_are_scored_but_not_ranked(
    executor: StandIn, surrogates: list[Surrogate]
) -> None:
    molecules = [Molecule(smiles, "test") for smiles in ("CCCCC", "CCO.CCO", "NCCOCCO")]
    outcome = ranked_on(executor, molecules, surrogates)
    assert outcome.scored_count == 3
    assert [each.molecule.smiles for each in outcome.ranked] == ["NCCOCCO"]


def test_the_best_molecules_are_ranked_from_the_most_soluble_down(found: Findings) -> None:
    values = [card.log_s for card in found.cards]
    assert values == sorted(values, reverse=True)
    assert [card.rank for card in found.cards] == list(range(1, len(values) + 1))


def test_all_engines_are_timed_on_the_same_molecules(found: Findings) -> None:
    names = [each.engine for each in found.timings]
    assert names[0].startswith("serial")
    assert names[1:] == [
        "ProcessPoolExecutor, chunk 1",
        next(name for name in names if "best chunk" in name),
        "standin.StandIn",
    ]
    assert {each.molecule_count for each in found.timings} == {COUNT}
    assert all(len(each.seconds) == timing.ROUND_COUNT for each in found.timings)


def test_an_engine_with_another_score_is_an_error() -> None:
    with pytest.raises(timing.ScoreMismatchError, match="for molecule 1"):
        timing.check_same("broken", [(0.0, 1.0, 1.0), "x"], [(0.0, 1.0, 1.0), "y"])


def test_the_report_loads_nothing_and_names_no_address(found: Findings) -> None:
    page = report.html(found)
    assert not re.search(r"https?:|//\w|\bsrc\s*=|<link|<script|@import|url\(", page)
    assert page.count("<svg role='img' aria-label='") == len(found.cards)


def test_the_report_is_well_formed(found: Findings) -> None:
    open_elements: list[str] = []

    class Nesting(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag not in {"meta", "br"}:
                open_elements.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_elements.pop() == tag

    Nesting().feed(report.html(found))
    assert open_elements == []


def test_the_report_escapes_names_from_the_data(found: Findings) -> None:
    nasty = "<script>alert('&')</script>"
    outcome = replace(found.outcome, unreadable=[(Molecule(nasty, nasty), nasty)])
    cards = [replace(found.cards[0], origin=nasty, formula=nasty, nearest=nasty)]
    page = report.html(replace(found, outcome=outcome, cards=cards, command=nasty))
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(&#x27;&amp;&#x27;)") == 7


def test_a_part_of_the_molecules_is_named_as_such(found: Findings) -> None:
    sample = [replace(each, molecule_count=100) for each in found.timings]
    text = report.printed(replace(found, timings=sample))
    assert "100 of the 400 molecules, taken evenly" in text
    assert "computed from the rate" in text
    assert "all 400 molecules" in report.printed(found)


def test_the_sample_is_taken_evenly() -> None:
    kept: list[str] = []
    molecules = [Molecule(str(number), "test") for number in range(10)]
    assert list(run.every(iter(molecules), 3, kept)) == molecules
    assert kept == ["0", "3", "6", "9"]


def test_the_bar_is_drawn_only_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, drawn in ((io.StringIO(), False), (Terminal(), True)):
        progress = Progress(10, stream)
        progress.close()
        assert bool(stream.getvalue()) == drawn


def test_a_missing_package_is_one_line_that_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "NEEDED", ("rdkit", "a_package_nobody_has"))
    assert command.main(["--molecules", "5"]) == 2
    error = capsys.readouterr().err
    assert "a_package_nobody_has" in error
    assert INSTALL_HINT in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("text", ["0", "-3", "many"])
def test_a_wrong_count_is_refused_with_the_usage(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(["--molecules", text])
    assert "usage:" in capsys.readouterr().err


def test_the_command_writes_the_report_and_prints_the_tables(
    found: Findings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run, "run", lambda *_, **__: found)
    out = tmp_path / "report.html"
    assert command.main(["--molecules", "400", "--out", str(out), "--no-design"]) == 0
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    printed = capsys.readouterr().out
    assert "tasks/s" in printed
    assert printed.splitlines()[-1].endswith(str(out))


@pytest.mark.parametrize(("more", "lines"), [([], 1), (["--no-design"], 0)])
def test_without_a_quantum_code_the_loop_alone_is_left_out_with_one_line(
    found: Findings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    lines: int,
) -> None:
    monkeypatch.setattr(run, "run", lambda *_, **__: found)
    monkeypatch.setattr(design, "lacking", lambda: "no quantum code here")
    out = tmp_path / "report.html"
    assert command.main(["--molecules", "400", "--out", str(out), *more]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("no quantum code here") == captured.err.count("\n") == lines
    assert "tasks/s" in captured.out


def test_candidates_come_from_all_real_molecules_however_few_are_screened() -> None:
    found = run.run(30, 2, 0, "python -m molecular_screen", open_stand_in, candidate_count=500)
    assert found.task_count == 30
    assert len(found.candidates) == len(set(found.candidates)) == 500
