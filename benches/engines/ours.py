"""Our engine with its defaults."""

import importlib.util
from typing import Any

from benches.engines.base import Engine
from gristmill_bench.executors.bare import Bare
from gristmill_bench.executors.ours import Gristmill


class GristmillEngine(Engine):
    """`gristmill.Executor(max_workers=N)` without tuning."""

    key = "gristmill"
    name = "gristmill"
    module = "gristmill"
    distribution = "gristmill"
    accepts_futures = True
    size_share = 1.0
    opening = (
        "import gristmill\n"
        "executor = gristmill.Executor(max_workers=2)\nexecutor.submit(noop, 1).result()"
    )

    def open(self) -> Bare:
        return Gristmill(workers=self.workers, threads="unset").open_bare()

    @classmethod
    def version(cls) -> str | None:
        """Returns version and build profile, or None for a source tree without a build."""
        if importlib.util.find_spec(cls.module) is None:
            return None
        info = build_info()
        return f"{info.get('version', '?')} {info.get('profile', '?')}"


def build_info() -> dict[str, Any]:
    """Returns the build information of our engine; empty without a build."""
    try:
        import gristmill

        return dict(gristmill.build_info())
    except (ImportError, AttributeError):
        return {}
