"""Shared fixtures of the tests of the screen: one trained model, and a skip where RDKit is missing."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from threadpoolctl import threadpool_limits

from molecular_screen.design import lacking

from not_installed import NotInstalled

if TYPE_CHECKING:
    from molecular_screen.data import Property
    from molecular_screen.surrogate import Surrogate

MISSING = [name for name in ("rdkit", "numpy", "datamol") if importlib.util.find_spec(name) is None]


def reason(module_path: Path) -> str | None:
    """Returns why the tests of a module cannot run here, or ``None``."""
    if MISSING:
        return f"examples/molecular_screen/requirements.txt: {', '.join(MISSING)} missing"
    return lacking() if module_path.name.startswith("test_design") else None


sys.path.insert(0, str(Path(__file__).parent))


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    return NotInstalled.of(module_path, parent, reason(module_path))


@pytest.fixture(autouse=True, scope="session")
def single_thread() -> Iterator[None]:
    """Runs the quantum code with one thread, as workers do: several threads would sum in another order each time."""
    if lacking() is None:
        with threadpool_limits(1):
            yield
    else:
        yield


@pytest.fixture(scope="session")
def measured() -> "list[Property]":
    from molecular_screen import data

    return [data.solubility(), data.hydration()]


@pytest.fixture(scope="session")
def surrogates(measured: "list[Property]") -> "list[Surrogate]":
    from molecular_screen import surrogate

    return [surrogate.train(source, seed=0) for source in measured]
