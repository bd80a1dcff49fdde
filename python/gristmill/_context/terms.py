"""Groups of options of ``gristmill.Context``: what its workers hold, how they live, and how they run calls."""

from __future__ import annotations

import dataclasses

from gristmill import _options, _resources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    K = TypeVar("K")

#: Default number of seconds for which an unused context is kept.
KEEP_SECONDS = 600.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContextResources:
    """Resources that each worker of a context holds for as long as it has the context, even while it is idle."""

    #: CPU slots that a worker occupies, so that its calls may use as many cores.
    cores: int = 1
    #: GPUs that a worker has for itself, or a share of one, such as 0.5. Setup and calls see no other GPUs. Each worker
    #: is then an interpreter of its own and calls the setup itself, as with ``fork=False``.
    gpus: float = 0
    #: Memory that is reserved for a worker: bytes, or a text such as ``"4GB"``.
    memory: int | str | None = None

    def __post_init__(self) -> None:
        _resources.demand(self.cores, self.gpus, self.memory)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContextWorkers:
    """Number of workers that have a context, their preparation, and the time for which they keep the context."""

    #: The maximum number of workers that have the context at the same time; by default as many as there are calls. On
    #: nodes this limit applies to each node.
    max_workers: int | None = None
    #: Names of modules that are imported before the setup is called.
    preload: Sequence[str] = ()
    #: ``False`` if processes must not be forked from one in which the setup has run, as with CUDA. Each worker is then
    #: an interpreter of its own and calls the setup itself. A setup that leaves threads behind is detected and treated
    #: in the same way.
    fork: bool = True
    #: The maximum duration of the setup, seconds; by default 600, and no limit if ``None``.
    timeout: float | None = _options.START_SECONDS
    #: Seconds for which an unused context is kept; by default 600, and forever if ``None``. If contexts exceed their
    #: memory limit, the least recently used context is removed first.
    keep: float | None = KEEP_SECONDS

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the fields are frozen for users
        most = _options.SHORT_MAX
        limit = _options.optional_count("max_workers", self.max_workers, 1, most)
        set_field(self, "max_workers", limit)
        set_field(self, "preload", _options.texts("preload", self.preload, "module names"))
        set_field(self, "fork", _options.flag("fork", self.fork))
        timeout = _options.optional_seconds("timeout", self.timeout, is_positive=True)
        set_field(self, "timeout", timeout)
        set_field(self, "keep", _options.optional_seconds("keep", self.keep))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContextCalls:
    """Treatment of the calls in a worker that has a context."""

    #: ``"direct"`` runs calls one after the other in the worker itself. ``"fork"`` runs each call in a forked child of
    #: the worker: this takes some milliseconds longer, and changes that a call makes to the objects of the context are
    #: lost after the call.
    mode: str = "direct"
    #: True to give each call an empty working directory of its own, which is removed after the call.
    own_folder: bool = False

    def __post_init__(self) -> None:
        _options.one_of("mode", self.mode, ("direct", "fork"))
        object.__setattr__(self, "own_folder", _options.flag("own_folder", self.own_folder))


def group(name: str, value: object, kind: type[K]) -> K:
    """Returns a group of options, which must be of a kind; the default one for ``None``. Raises ``TypeError``."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a gristmill.{kind.__name__}, not {_options.shown(value)}")
    return value
