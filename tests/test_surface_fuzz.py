"""The fuzzer of the public calls, with fixed seeds; ``./dev thorough`` draws more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import surface_fuzz

_MORE = int(os.environ.get("GRISTMILL_FAULT_SEEDS", "1"))
#: Number of batches of each kind.
COUNTS = {"executor": 3, "lease": 1, "nodes": 1, "parsl": 2}
BATCHES = [
    (kind, 2026 + number) for kind, count in COUNTS.items() for number in range(count * _MORE)
]


@pytest.mark.parametrize(("kind", "seed"), BATCHES)
def test_no_public_call_crashes_hangs_or_raises_what_is_not_documented(
    kind: str, seed: int
) -> None:
    wrong = surface_fuzz.run(kind, seed)
    assert wrong is None, wrong


@pytest.mark.parametrize(
    ("kind", "mutant", "symptom"),
    [
        (
            "executor",
            "gristmill.Executor.map = lambda *a, **k: (_ for _ in ()).throw(OverflowError('large'))",
            "OverflowError",
        ),
        (
            "executor",
            "gristmill._option_values.check = lambda *a: (_ for _ in ()).throw(ValueError('large'))",
            "is not named",
        ),
        ("executor", "gristmill.Executor.submit = lambda *a, **k: os.abort()", "-6"),
        (
            "executor",
            "gristmill.Executor.submit = lambda *a, **k: threading.Event().wait(None)",
            "no end",
        ),
        (
            "executor",
            "gristmill.Executor.submit = lambda *a, **k: (_ for _ in ()).throw(RuntimeError('Already borrowed'))",
            "borrowed",
        ),
        (
            "executor",
            "submit = gristmill.Executor.submit; gristmill.Executor.submit = lambda self, *a, **k: "
            "submit(self, *((len, 3) if a and getattr(a[0], '__name__', '') == 'raise_odd' else a), **k)",
            "became",
        ),
        (
            "lease",
            "gristmill.Lease.extend = lambda *a, **k: (_ for _ in ()).throw(OverflowError('large'))",
            "OverflowError",
        ),
        (
            "nodes",
            "gristmill.Executor.submit = lambda *a, **k: (_ for _ in ()).throw(OverflowError('large'))",
            "OverflowError",
        ),
        (
            "parsl",
            "gristmill.parsl.DataFlowKernel.explain = lambda *a: (_ for _ in ()).throw(KeyError('x'))",
            "KeyError",
        ),
        (
            "parsl",
            "gristmill.parsl.Config._check = lambda self: (_ for _ in ()).throw(TypeError('wrong'))",
            "wrong",
        ),
    ],
)
def test_the_fuzzer_finds_what_is_wrong(
    kind: str, mutant: str, symptom: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if symptom == "no end":
        monkeypatch.setattr(surface_fuzz, "BATCH_S", 5.0)
    monkeypatch.setenv("GRISTMILL_FUZZ_MUTANT", mutant)
    # Interrupts come by the clock, so a batch of one seed does not always make the same calls.
    batches = (surface_fuzz.run(kind, seed, 160) for seed in range(1, 9))
    wrong = next(filter(None, batches), None)
    assert wrong is not None
    assert symptom in wrong


@pytest.mark.slow
@pytest.mark.parametrize("kind", COUNTS)
def test_each_option_takes_or_names_each_value_that_it_may_not_have(
    kind: str, tmp_path: Path
) -> None:
    program = str(Path(surface_fuzz.__file__))
    command = [sys.executable, program, "--options", kind]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr[-3000:]
