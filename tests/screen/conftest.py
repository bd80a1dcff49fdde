"""What the tests of the screen share: one trained model, and a skip where RDKit is missing."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from threadpoolctl import threadpool_limits

from gristmill.screen.design import lacking

from not_installed import NotInstalled

if TYPE_CHECKING:
    from gristmill.screen.data import Property
    from gristmill.screen.surrogate import Surrogate

MISSING = [name for name in ("rdkit", "numpy", "datamol") if importlib.util.find_spec(name) is None]


def reason(module_path: Path) -> str | None:
    """Why the tests of a module cannot run here."""
    if MISSING:
        return f"requirements/screen.txt: {', '.join(MISSING)} missing"
    return lacking() if module_path.name.startswith("test_design") else None


sys.path.insert(0, str(Path(__file__).parent))


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    return NotInstalled.of(module_path, parent, reason(module_path))


@pytest.fixture(autouse=True, scope="session")
def single_thread() -> Iterator[None]:
    """The quantum code with one thread, as workers have it: several sum in another order each time."""
    if lacking() is None:
        with threadpool_limits(1):
            yield
    else:
        yield


@pytest.fixture(scope="session")
def measured() -> "list[Property]":
    from gristmill.screen import data

    return [data.solubility(), data.hydration()]


@pytest.fixture(scope="session")
def surrogates(measured: "list[Property]") -> "list[Surrogate]":
    from gristmill.screen import surrogate

    return [surrogate.train(source, seed=0) for source in measured]
