"""Instruments of the engine's own tools, for programs that measure engines, such as the suite ``gristmill bench``.

The names may change with each version, so such a program requires exactly the version that it was made for. A name is
loaded when it is first used, because a measured process must not import what it does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gristmill._context.declare import with_reuse
    from gristmill._descent import (
        MEMORY_FOLDER,
        TIMED_OUT,
        adopt_orphans,
        bounded_command,
        descendants,
        last_line,
        run_below,
        run_bounded,
    )
    from gristmill._images.build import build as build_image
    from gristmill._images.recipe import Recipe as ImageRecipe
    from gristmill._images.storage import LOCAL_VARIABLE as IMAGE_FOLDER
    from gristmill._machine import facts as machine_facts
    from gristmill._machine import fields as file_fields
    from gristmill._machine import text as file_text
    from gristmill._native import replay_costs, replay_graph
    from gristmill._profile.categories import CATEGORIES
    from gristmill._profile.kernel import RUNS
    from gristmill._profile.permission import CannotProfile
    from gristmill._profile.permission import sampler as find_sampler
    from gristmill._profile.submissions import Sample as FutureSample
    from gristmill._profile.timings import COMPONENTS
    from gristmill._resources import memory_of_machine
    from gristmill._worker_environment import THREAD_VARIABLES

#: The module and the name there of each name here.
_HOMES = {
    "CATEGORIES": ("_profile.categories", "CATEGORIES"),
    "COMPONENTS": ("_profile.timings", "COMPONENTS"),
    "CannotProfile": ("_profile.permission", "CannotProfile"),
    "FutureSample": ("_profile.submissions", "Sample"),
    "IMAGE_FOLDER": ("_images.storage", "LOCAL_VARIABLE"),
    "ImageRecipe": ("_images.recipe", "Recipe"),
    "MEMORY_FOLDER": ("_descent", "MEMORY_FOLDER"),
    "RUNS": ("_profile.kernel", "RUNS"),
    "THREAD_VARIABLES": ("_worker_environment", "THREAD_VARIABLES"),
    "TIMED_OUT": ("_descent", "TIMED_OUT"),
    "adopt_orphans": ("_descent", "adopt_orphans"),
    "bounded_command": ("_descent", "bounded_command"),
    "build_image": ("_images.build", "build"),
    "descendants": ("_descent", "descendants"),
    "file_fields": ("_machine", "fields"),
    "file_text": ("_machine", "text"),
    "find_sampler": ("_profile.permission", "sampler"),
    "last_line": ("_descent", "last_line"),
    "machine_facts": ("_machine", "facts"),
    "memory_of_machine": ("_resources", "memory_of_machine"),
    "replay_costs": ("_native", "replay_costs"),
    "replay_graph": ("_native", "replay_graph"),
    "run_below": ("_descent", "run_below"),
    "run_bounded": ("_descent", "run_bounded"),
    "with_reuse": ("_context.declare", "with_reuse"),
}

__all__ = [
    "CATEGORIES",
    "COMPONENTS",
    "IMAGE_FOLDER",
    "MEMORY_FOLDER",
    "RUNS",
    "THREAD_VARIABLES",
    "TIMED_OUT",
    "CannotProfile",
    "FutureSample",
    "ImageRecipe",
    "adopt_orphans",
    "bounded_command",
    "build_image",
    "descendants",
    "file_fields",
    "file_text",
    "find_sampler",
    "last_line",
    "machine_facts",
    "memory_of_machine",
    "own_command",
    "replay_costs",
    "replay_graph",
    "run_below",
    "run_bounded",
    "with_reuse",
]


def own_command(*words: str) -> list[str]:
    """Returns the command line that runs the command ``gristmill`` with this interpreter."""
    from gristmill import _starting

    return _starting.command("gristmill._cli", *words, has_flags=False)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gristmill.instruments' has no attribute {name!r}")
    module, original = _HOMES[name]
    value = getattr(import_module(f"gristmill.{module}"), original)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
