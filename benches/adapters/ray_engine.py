"""Ray, one local node."""

import importlib
import os
import tempfile
from collections.abc import Iterable
from typing import Any

from benches.adapters.base import Engine, Function, scratch, share_paths

#: Room for a 100 MB array both ways, several times.
STORE_BYTES = 1_500_000_000

_OPENING = """
import os
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error",
    _temp_dir=os.getcwd())
ray.get(ray.remote(noop).remote(1))
"""


class RayEngine(Engine):
    """Ray with its defaults, no dashboard, no usage report, no log in our terminal."""

    key = "ray"
    name = "Ray"
    module = "ray"
    distribution = "ray"
    accepts_futures = True
    opening = _OPENING

    folder: tempfile.TemporaryDirectory[str]
    ray: Any

    def start(self) -> None:
        share_paths()
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        self.ray = importlib.import_module("ray")
        self.folder = scratch()
        self.ray.init(log_to_driver=False, logging_level="error", **self.connection())
        remotes: dict[Function, Any] = {}

        def submit(function: Function, *arguments: Any) -> Any:
            remote = remotes.get(function)
            if remote is None:
                remote = remotes[function] = self.ray.remote(function)
            return remote.remote(*arguments)

        self.submit = submit
        self.result = self.ray.get

    def connection(self) -> dict[str, Any]:
        """Says what it connects to: a node that it starts itself."""
        return {
            "num_cpus": self.workers,
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES,
            "_temp_dir": self.folder.name,
        }

    def close(self) -> None:
        self.ray.shutdown()
        self.folder.cleanup()

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        found: list[Any] = self.ray.get(list(futures))
        return found
