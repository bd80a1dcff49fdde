"""Parsl's ``parsl.dataflow.dependency_resolvers``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.dependencies import (
    DEEP_DEPENDENCY_RESOLVER as DEEP_DEPENDENCY_RESOLVER,
)
from gristmill.parsl._kernel.dependencies import (
    SHALLOW_DEPENDENCY_RESOLVER as SHALLOW_DEPENDENCY_RESOLVER,
)
from gristmill.parsl._kernel.dependencies import DependencyResolver as DependencyResolver
from gristmill.parsl._kernel.dependencies import deep_traverse_to_gather as deep_traverse_to_gather
from gristmill.parsl._kernel.dependencies import deep_traverse_to_unwrap as deep_traverse_to_unwrap
from gristmill.parsl._kernel.dependencies import (
    shallow_traverse_to_gather as shallow_traverse_to_gather,
)
from gristmill.parsl._kernel.dependencies import (
    shallow_traverse_to_unwrap as shallow_traverse_to_unwrap,
)

__getattr__, __dir__ = _fallback.lookups(__name__)
