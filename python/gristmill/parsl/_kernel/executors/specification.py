"""The resources that an app may ask for with ``parsl_resource_specification``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gristmill import _options, _resources

if TYPE_CHECKING:
    from typing import Any

    from gristmill._context.declare import Context

#: Maximum distance of a priority from 0.
PRIORITY_MAX = 2**30 - 1
#: Bytes of the unit in which Parsl counts memory.
_MEGABYTE = 10**6
_MEMORY_MAX = _options.SIZE_MAX // _MEGABYTE


class Specification(NamedTuple):
    """The resource request of one task; the names are Parsl's."""

    #: Lower runs earlier. Tasks without a priority run last.
    priority: int | None = None
    #: Seconds.
    walltime: float | None = None
    cores: int = 1
    gpus: float = 0
    #: Megabytes.
    memory: int = 0
    #: A ``gristmill.Context`` that the task runs in.
    context: Context | None = None

    def options(self) -> dict[str, Any]:
        """Returns the arguments of ``gristmill.Executor.options`` for this specification."""
        return {
            "timeout": self.walltime,
            # In the engine, higher priorities run earlier.
            "priority": 0 if self.priority is None else PRIORITY_MAX + 1 - self.priority,
            "cores": self.cores,
            "gpus": self.gpus,
            "memory": self.memory * _MEGABYTE or None,
            "context": self.context,
        }


_PLAIN = Specification._field_defaults


def read(specification: dict[str, Any]) -> Specification:
    """Checks a specification. Raises ``InvalidResourceSpecification``."""
    # Imported late: where Parsl is installed, its errors load much of it.
    from gristmill.parsl._kernel.errors import InvalidResourceSpecification

    unknown = specification.keys() - set(Specification._fields)
    if unknown:
        known = ", ".join(Specification._fields)
        raise InvalidResourceSpecification(set(unknown), f"known are {known}")
    one = Specification(**specification)
    if not (
        one.priority is None or (type(one.priority) is int and abs(one.priority) <= PRIORITY_MAX)
    ):
        raise InvalidResourceSpecification(
            {"priority"}, f"it must be an integer between -{PRIORITY_MAX} and {PRIORITY_MAX}"
        )
    if one.walltime is not None:
        _check_walltime(one.walltime)
    if type(one.memory) is not int or not 0 <= one.memory <= _MEMORY_MAX:
        raise InvalidResourceSpecification(
            {"memory"}, f"it must be a whole number of megabytes, at most {_MEMORY_MAX}"
        )
    if one.context is not None:
        _check_context(one)
    try:
        _resources.demand(one.cores, one.gpus, None)
    except (TypeError, ValueError) as error:
        raise InvalidResourceSpecification(
            {"cores", "gpus"} & specification.keys(), str(error)
        ) from error
    return one


def _check_context(one: Specification) -> None:
    from gristmill._context.declare import Context
    from gristmill.parsl._kernel.errors import InvalidResourceSpecification

    if not isinstance(one.context, Context):
        raise InvalidResourceSpecification({"context"}, "it must be a gristmill.Context")
    own = {name for name in ("cores", "gpus", "memory") if getattr(one, name) != _PLAIN[name]}
    if own:
        raise InvalidResourceSpecification(
            own, "a task in a context has the resources of the context's workers"
        )


def _check_walltime(value: object) -> None:
    from gristmill.parsl._kernel.errors import InvalidResourceSpecification

    try:
        _options.seconds("walltime", value, is_positive=True)
    except (TypeError, ValueError) as error:
        raise InvalidResourceSpecification({"walltime"}, str(error)) from error
