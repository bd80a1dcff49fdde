"""TaPS itself, unmodified, on Gristmill: ``python -m gristmill_bench.taps --app cholesky ... --executor gristmill``.

TaPS (Pauloski et al., *TaPS: A Performance Evaluation Suite for Task-based Execution Frameworks*, 2024) runs from a
checkout of its sources: an installed one (``pip install -e PATH``), or the one that ``--taps PATH`` or
``GRISTMILL_TAPS`` names. The package ``taps`` on PyPI is another program. All other arguments are TaPS's own.

An executor ``gristmill`` is added to TaPS's registry before its command line is read, so that its options, its help and
its TOML files know it. Nothing of TaPS is replaced.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal

import gristmill

#: The variable that names a checkout, as ``--taps`` does.
VARIABLE = "GRISTMILL_TAPS"
#: The name of the executor in TaPS.
NAME: Final = "gristmill"
_WHERE = (
    "clone it from github.com/proxystore/taps, pip install -e the checkout for its requirements, and name it with "
    f"--taps PATH or {VARIABLE}"
)


class TapsError(Exception):
    """Failure to run TaPS here. The text gives the reason."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs TaPS's own command with our executor. Returns its exit status, or 2 if there is no TaPS."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        checkout, words = _checkout(words)
        register(checkout)
    except TapsError as error:
        print(f"gristmill_bench.taps: {error}", file=sys.stderr)
        return 2
    run: Callable[[list[str]], int] = importlib.import_module("taps.run.main").main
    return run(words)


def register(checkout: Path | None = None) -> type[Any]:
    """Adds the executor to TaPS's registry, and a checkout to ``sys.path``. Returns its configuration class."""
    if checkout is not None:
        _look_in(checkout)
    elif not _is_taps():
        raise TapsError(f"{_other()}: {_WHERE}")
    try:
        base = importlib.import_module("taps.executor").ExecutorConfig
        registered = importlib.import_module("taps.plugins").register
    except ModuleNotFoundError as error:
        # TaPS's own modules are all there, so the missing module is a dependency.
        raise TapsError(f"TaPS needs {error.name}, which is not installed: {_WHERE}") from error
    made: type[Any] = registered("executor")(_configuration(base))
    return made


def _checkout(words: list[str]) -> tuple[Path | None, list[str]]:
    """Returns the checkout that ``--taps`` or the environment names, and the arguments without that option."""
    named = os.environ.get(VARIABLE) or None
    rest: list[str] = []
    left = iter(words)
    for word in left:
        name, has_value, value = word.partition("=")
        if name != "--taps":
            rest.append(word)
            continue
        named = value if has_value else next(left, "")
        if not named:
            raise TapsError("--taps has no path")
    return (None if named is None else Path(named).absolute()), rest


def _look_in(checkout: Path) -> None:
    if not (checkout / "taps" / "plugins.py").is_file():
        raise TapsError(f"{checkout} is not a checkout of TaPS: it has no taps/plugins.py")
    # First on the path: the package of that name on PyPI may be installed.
    sys.path.insert(0, str(checkout))
    loaded = sys.modules.get("taps")
    if loaded is not None and not (loaded.__file__ or "").startswith(str(checkout)):
        raise TapsError(f"taps is imported already, from {loaded.__file__}")


def _is_taps() -> bool:
    """Returns whether the package ``taps`` is TaPS. A folder of that name is a package too, and empty."""
    try:
        return importlib.util.find_spec("taps.plugins") is not None
    except (ImportError, ValueError):
        return False


def _other() -> str:
    """Describes what is found in place of TaPS."""
    spec = importlib.util.find_spec("taps")
    if spec is None:
        return "TaPS is not installed, and no checkout is named"
    places = spec.submodule_search_locations
    found = spec.origin or (next(iter(places), "?") if places else "?")
    try:
        of_distribution = f", of the distribution taps {version('taps')}"
    except PackageNotFoundError:
        of_distribution = ""
    return (
        f"the package taps that is installed here ({found}{of_distribution}) is not TaPS, "
        "which is not on PyPI under that name"
    )


class _Repeating(gristmill.Executor):
    """An executor that runs tasks again when their workers are lost."""

    def __init__(self, loss_retries: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._repeated = self.options(loss_retries=loss_retries)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return self._repeated.submit(fn, *args, **kwargs)


def _configuration(base: Any) -> type[Any]:
    """Returns the class that TaPS requires of an executor: a pydantic model with a name, which makes the executor."""
    from pydantic import Field

    class GristmillConfig(base):  # type: ignore[misc]
        """Gristmill's executor: worker processes of this machine."""

        name: Literal["gristmill"] = Field(NAME, description="Executor name.")
        workers: int | None = Field(
            None, ge=1, description="Number of worker processes; default: the number of cores."
        )
        start: Literal["fork", "spawn"] = Field("fork", description="Start method of workers.")
        spin_seconds: float | None = Field(
            None, ge=0, description="Seconds of polling before a sleep; default: learned."
        )
        loss_retries: int = Field(
            0, ge=0, le=65_535, description="Repetitions of a task whose worker was lost."
        )

        def get_executor(self) -> gristmill.Executor:
            """Makes an executor. Its futures are those of ``concurrent.futures``, and may be arguments of its tasks."""
            options: dict[str, Any] = {"start": self.start, "spin_seconds": self.spin_seconds}
            if self.loss_retries:
                return _Repeating(self.loss_retries, self.workers, **options)
            return gristmill.Executor(self.workers, **options)

    return GristmillConfig


if __name__ == "__main__":
    # Run as ``gristmill_bench.taps``, the module that its importers have.
    sys.exit(importlib.import_module("gristmill_bench.taps").main())
