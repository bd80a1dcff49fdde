"""Applications of chemistry with real molecules: each accepts its own result, and detects a wrong one."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pydantic import ValidationError

from gristmill._cli import main
from gristmill_bench import App, BenchError, Engine, WrongResult
from gristmill_bench.apps.docking import receptor, tasks
from gristmill_bench.apps.docking.campaign import Docking
from gristmill_bench.apps.examol import ExaMol, molecules
from gristmill_bench.apps.lnni import Lnni
from gristmill_bench.apps.moldesign import MolDesign
from gristmill_bench.apps.molscreen import MolScreen
from gristmill_bench.executors.here import Inline

APPS: dict[str, App] = {
    "docking": Docking(ligands=20, initial=2, iterations=1, batch=2, share=10, atoms=12, edge=15),
    "examol": ExaMol(rounds=2, batch=3, shares=2),
    "lnni": Lnni(calls=3, inferences=1, pixels=64),
    "moldesign": MolDesign(candidates=40, initial=4, simulations=9, batch=3, committee=3, share=15),
    "molscreen": MolScreen(molecules=200, batch=30),
}


#: Applications that compute for seconds.
SLOW = {"docking", "examol", "lnni", "moldesign", "molscreen"}


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Returns the marks for the test of an application."""
    return [pytest.mark.slow] if name in SLOW else []


def needed(name: str) -> App:
    """Returns the application; skips the test where the application cannot run."""
    reason = APPS[name].missing()
    if reason is not None:
        pytest.skip(f"{name}: {reason}")
    return APPS[name]


@cache
def result_of(name: str) -> Any:
    """Returns the result of the application in this process, without an executor."""
    with TemporaryDirectory(prefix="gb-") as folder:
        return APPS[name].run(Engine(Inline().open()), Path(folder))


@pytest.mark.parametrize("name", [pytest.param(one, marks=marks(one)) for one in APPS])
def test_each_application_finds_its_own_result_right(name: str) -> None:
    app = needed(name)
    found = result_of(name)
    assert app.check(found)
    assert all(value > 0 for value in app.figures(found).values())


@dataclass
class Wrong:
    """A result after a change that makes it wrong."""

    name: str
    spoil: Callable[[Any], Any]
    seen: str


def in_round(number: int, **changes: Any) -> Callable[[Any], Any]:
    """Replaces fields of a round by what a function makes of them."""

    def spoil(rounds: Any) -> Any:
        one = rounds[number]
        made = {field: change(getattr(one, field)) for field, change in changes.items()}
        return [*rounds[:number], one._replace(**made), *rounds[number + 1 :]]

    return spoil


def last(**changes: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda ones: [*ones[:-1], ones[-1]._replace(**changes)]


def flipped(ones: list[Any]) -> list[Any]:
    return [ones[1], ones[0], *ones[2:]]


def shifted(predicted: dict[str, float]) -> dict[str, float]:
    return {smiles: value + 1 for smiles, value in predicted.items()}


def moved(docked: list[Any]) -> list[Any]:
    """Moves the first atom of the last pose."""
    before, atom, after = docked[-1].pose.partition("ATOM")
    far = f"{before}{atom}{after[:26]}{99.0:8.3f}{after[34:]}"
    return last(pose=far)(docked)


def swapped(known: dict[str, float]) -> dict[str, float]:
    """Swaps the last two simulated molecules."""
    *head, left, right = known.items()
    return dict([*head, right, left])


WRONG = [
    Wrong("docking", in_round(1, docked=last(score=-1.0)), "scores .* now"),
    Wrong("docking", in_round(1, docked=last(score=float("nan"))), "cannot be"),
    Wrong("docking", in_round(1, docked=last(score=None)), "no reason"),
    Wrong("docking", in_round(1, docked=moved), "outside of the box"),
    Wrong("docking", in_round(1, docked=flipped), "should have docked"),
    Wrong("docking", in_round(1, predicted=shifted), "off by"),
    Wrong("docking", lambda rounds: rounds[:1], "0 iterations"),
    Wrong("examol", lambda one: one._replace(known=swapped(one.known)), "should have simulated"),
    Wrong("examol", lambda one: one._replace(following=one.following[:-1]), "predicts"),
    Wrong("lnni", lambda one: one._replace(calls=one.calls[1:]), "2 calls"),
    Wrong(
        "lnni",
        lambda one: one._replace(calls=[one.calls[0], [(0, 0.0)], one.calls[2]]),
        "picture 1 is of class",
    ),
    Wrong("moldesign", in_round(1, simulations=flipped), "predicted best"),
    Wrong("moldesign", lambda rounds: rounds[:-1], "simulations of"),
    Wrong("moldesign", in_round(1, predicted=lambda one: dict(list(one.items())[1:])), "chosen"),
    Wrong("moldesign", in_round(2, simulations=last(ionisation_ev=20.0)), "has .* not 20"),
    Wrong("molscreen", lambda one: one._replace(scores=one.scores[1:]), "199 scores"),
    Wrong("molscreen", lambda one: one._replace(scores=one.scores[::-1]), "scores .*, not"),
]


@pytest.mark.parametrize(
    "wrong",
    [pytest.param(one, marks=marks(one.name), id=f"{one.name}: {one.seen}") for one in WRONG],
)
def test_a_wrong_result_is_seen(wrong: Wrong) -> None:
    app = needed(wrong.name)
    with pytest.raises(WrongResult, match=wrong.seen):
        app.check(wrong.spoil(result_of(wrong.name)))


@pytest.mark.slow
def test_molecules_are_screened_again_by_other_numbers_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed("molscreen")
    app = MolScreen(molecules=60, batch=30, further=(1, 20))
    engine = Engine(Inline().open())
    found = app.run(engine, tmp_path)
    assert engine.submitted == 2 + 60 + 3
    assert app.figures(found).keys() == {"screening_s", "screening_by_1_s", "screening_by_20_s"}
    monkeypatch.setattr("gristmill_bench.apps.molscreen.score_batch", lambda _, batch: [len(batch)])
    with pytest.raises(WrongResult, match="1 molecules a task score other than 30"):
        app.run(Engine(Inline().open()), tmp_path)


@pytest.mark.slow
def test_predictions_of_another_committee_are_seen() -> None:
    app = needed("moldesign")
    rounds = result_of("moldesign")
    wider = {
        smiles: one._replace(mean_ev=one.mean_ev + 1) for smiles, one in rounds[1].predicted.items()
    }
    with pytest.raises(WrongResult, match="is predicted"):
        app.check([rounds[0], rounds[1]._replace(predicted=wider), *rounds[2:]])


@pytest.mark.parametrize(
    ("app", "fields", "reason"),
    [
        (Docking, {"ligands": 10, "initial": 8, "iterations": 1, "batch": 3}, "11 dockings"),
        (Docking, {"seed": 0}, "greater than or equal to 1"),
        (ExaMol, {"candidates": 10, "rounds": 2, "batch": 6}, "more than 10 candidates"),
        (MolDesign, {"candidates": 10, "simulations": 20}, "at most"),
        (MolDesign, {"initial": 70}, "at most"),
        (Lnni, {"reuse": "disk"}, "'memory' or 'none'"),
        (Lnni, {"pixels": 31}, "greater than or equal to 32"),
    ],
)
def test_sizes_that_cannot_be_are_refused(
    app: type[App], fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValidationError, match=reason):
        app.model_validate(fields)


@pytest.mark.slow
def test_the_upper_confidence_bound_prefers_what_the_model_is_unsure_of() -> None:
    needed("moldesign")
    small = {"candidates": 40, "initial": 3, "simulations": 4, "batch": 1, "committee": 3}

    def second_round(**choice: Any) -> Any:
        rounds = MolDesign(**small, **choice).run(Engine(Inline().open()), Path())
        return rounds[1].predicted, rounds[1].simulations[0].smiles

    predicted, greedy = second_round(choice="greedy", kappa=1e6)
    assert greedy == max(predicted, key=lambda smiles: predicted[smiles].mean_ev)
    predicted, unsure = second_round(choice="ucb", kappa=1e6)
    assert unsure == max(predicted, key=lambda smiles: predicted[smiles].std_ev)
    assert unsure != greedy


def test_candidates_of_the_search_are_different_molecules_that_can_be_read() -> None:
    chem = pytest.importorskip("rdkit.Chem")
    read = [chem.MolFromSmiles(smiles) for smiles in molecules()]
    assert len({chem.MolToSmiles(molecule) for molecule in read}) == len(read) == 720


def test_the_receptor_is_a_protein_with_what_binds(tmp_path: Path) -> None:
    needed("docking")
    receptor.write_receptor(path := tmp_path / "receptor.pdbqt")
    lines = path.read_text().splitlines()
    kinds = [line[77:].strip() for line in lines]
    assert {line[17:20] for line in lines} >= {"ASP", "HSD", "HSE", "LEU", "TRP"}
    assert set(kinds) == {"C", "N", "NA", "OA", "SA", "HD"}
    histidines = {line[17:26] for line in lines if line[17:20] in ("HSD", "HSE")}
    assert kinds.count("NA") == len(histidines), "one nitrogen of each accepts"
    assert kinds.count("C") == 1623
    with pytest.raises(BenchError, match="an atom of Zn"):
        receptor.atom_type(importlib.import_module("rdkit.Chem").Atom("Zn"))


def test_a_molecule_that_cannot_be_placed_is_told_with_the_reason() -> None:
    needed("docking")
    ligand = tasks.prepare("C1#CC1")
    assert "cannot be embedded" in ligand.failure
    docked = tasks.dock(None, ligand, 1)
    assert (docked.score, docked.failure) == (None, ligand.failure)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "executor", "reuse"),
    [
        *((name, executor, "memory") for name in APPS for executor in ("gristmill", "processes")),
        *((name, "processes", "none") for name in ("docking", "lnni")),
        ("lnni", "gristmill", "none"),
    ],
)
def test_each_application_runs_on_executors(
    name: str, executor: str, reuse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {"name": name} | needed(name).model_dump(mode="json")
    if "reuse" in fields:
        fields["reuse"] = reuse
    words = [f"--app.{field}={value}" for field, value in fields.items()]
    assert main(["bench", "run", "--executor", executor, f"--run.folder={tmp_path}", *words]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    assert json.loads((folder / "summary.json").read_text())["tasks"] > 0
    assert not list(folder.glob("*.onnx"))
