"""The findings of the loop are printed, and form a self-contained section of the page."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from molecular_screen import __main__ as command
from molecular_screen.design import page, printed
from molecular_screen.design.learning import Choice
from molecular_screen.design.outcome import Design, Plan, Round, best_mean_ev
from molecular_screen.design.simulation import Simulation

FIRST = Round(
    0,
    [Choice("CCCO", None), Choice("CCCN", None), Choice("C[Se]C", None)],
    [Simulation("CCCO", 10.0, "", 0.2), Simulation("CCCN", 9.0), Simulation("C[Se]C", None)],
    1.5,
)
SECOND = Round(
    1,
    [Choice("CCC#N", 11.0), Choice("CCCF", 12.0)],
    [Simulation("CCC#N", 12.0, "", 0.3), Simulation("CCCF", 12.0)],
    2.5,
)
DESIGN = Design(
    plan=Plan(rounds=1, batch=2),
    candidate_count=50,
    rounds=[FIRST, SECOND],
    random=[*FIRST.simulations, Simulation("CCS", 8.0), Simulation("CCCO", 10.0)],
    workers=2,
    task_count=60,
    loop_s=2.5,
)


def test_the_error_of_a_round_is_the_one_before_it_was_simulated() -> None:
    assert FIRST.error_ev is None
    assert SECOND.error_ev == pytest.approx((1.0 / 2) ** 0.5)


def test_the_loop_is_compared_with_as_many_random_simulations() -> None:
    assert best_mean_ev(DESIGN.simulations) == pytest.approx(43 / 4)
    assert DESIGN.high_ev == 10.0
    assert DESIGN.high_count(DESIGN.simulations) == 2
    assert "10.75 eV on average with the loop and 9.25 eV at random" in printed.text(DESIGN)


def test_the_quantum_share_is_of_the_time_of_all_workers() -> None:
    assert DESIGN.quantum_share == pytest.approx(0.5 / 5.0)
    assert "60 tasks in 2.5 s (24 tasks/s on 2 workers); 10%" in printed.text(DESIGN)


def test_each_round_is_printed_with_what_it_found() -> None:
    assert printed.round_rows(DESIGN) == [
        ["random", "3", "9.50", "10.00", "–", "1.5"],  # noqa: RUF001
        ["1", "2", "12.00", "12.00", "0.71", "2.5"],
    ]


def test_the_section_shows_drawings_values_and_failures() -> None:
    section = page.section(DESIGN)
    assert section.count("<td class='molecule'><svg") == 4
    assert "C[Se]C" in section
    assert not re.search(r"https?:|//\w|\bsrc\s*=|<link|<script|@import|url\(", section)


def test_the_section_is_well_formed() -> None:
    open_elements: list[str] = []

    class Nesting(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag != "br":
                open_elements.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_elements.pop() == tag

    Nesting().feed(page.section(DESIGN))
    assert open_elements == []


def test_reasons_of_failures_are_escaped() -> None:
    nasty = Simulation("C", None, "<script>alert('&')</script>")
    section = page.section(replace(DESIGN, random=[nasty]))
    assert "<script" not in section
    assert "&lt;script&gt;" in section


def test_a_loop_that_found_nothing_is_still_reported() -> None:
    lost = replace(FIRST, simulations=[Simulation(each.smiles, None) for each in FIRST.chosen])
    nothing = replace(DESIGN, rounds=[lost], random=lost.simulations)
    assert "3 molecules have no value" in printed.text(nothing)
    assert "Without a value" in page.section(nothing)


def test_the_command_runs_the_loop_and_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    options = command.arguments(["--rounds", "1", "--batch", "1"])
    section = command.designed(["CCCC", "CCCO", "CCCN", "CCC#N"], options)
    captured = capsys.readouterr()
    assert captured.err.count("\nround ") == 2
    assert "Of 3 simulations each" in captured.out
    assert section.startswith("<h2>")


def test_too_few_molecules_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.designed(["CCCC"], command.arguments([])) == ""
    assert "too few small molecules" in capsys.readouterr().err
