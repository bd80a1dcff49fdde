"""What the tests of the screen share: one trained model, and a skip where RDKit is missing."""

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gristmill.screen.data import Property
    from gristmill.screen.surrogate import Surrogate

MISSING = [name for name in ("rdkit", "numpy", "datamol") if importlib.util.find_spec(name) is None]

sys.path.insert(0, str(Path(__file__).parent))


class NotInstalled(pytest.Module):
    """A test module that cannot be imported here and says what it lacks."""

    def collect(self) -> list[pytest.Item]:
        lacking = ", ".join(MISSING)
        pytest.skip(f"requirements/screen.txt: {lacking} missing", allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    return NotInstalled.from_parent(parent, path=module_path) if MISSING else None


@pytest.fixture(scope="session")
def measured() -> "list[Property]":
    from gristmill.screen import data

    return [data.solubility(), data.hydration()]


@pytest.fixture(scope="session")
def surrogates(measured: "list[Property]") -> "list[Surrogate]":
    from gristmill.screen import surrogate

    return [surrogate.train(source, seed=0) for source in measured]
