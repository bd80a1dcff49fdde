"""Executors whose workers are behind node agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gristmill import Executor
from gristmill._nodes.local import LocalNodes

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]


#: Modules whose tests lose no node: a machine that is busy with other things may be silent for longer than usual.
PATIENT = (
    "test_blobs",
    "test_large_results",
    "test_results_that_stay",
    "test_nodes",
    "test_draining",
    "test_nested_across",
    "test_standing_nodes",
    "test_top",
)


@pytest.fixture(scope="module", autouse=True)
def _patience(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ in PATIENT:
            patch.setattr("gristmill._nodes.opening.EXPIRY_S", 20.0)
        yield


@pytest.fixture
def make_nodes() -> Iterator[MakeNodes]:
    """Makes executors with agents on this machine; they are shut down when the test ends."""
    made: list[Executor] = []

    def make(
        count: int = 2, workers: int = 1, kind: type[LocalNodes] = LocalNodes, **options: object
    ) -> tuple[Executor, LocalNodes]:
        placement = kind(count, workers)
        made.append(Executor(nodes=placement, **options))  # type: ignore[arg-type]
        return made[-1], placement

    yield make
    for executor in made:
        executor.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Executor]:
    """An executor with two nodes of one worker each, for the tests of a module that do it no harm."""
    with Executor(nodes=LocalNodes(2, 1)) as executor:
        executor.submit(int).result()
        yield executor
