"""What an app may ask for with ``parsl_resource_specification``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from gristmill import _resources

if TYPE_CHECKING:
    from typing import Any

    from gristmill._context.declare import Context

#: Priorities are within this distance of 0.
PRIORITY_MAX = 2**30 - 1
#: Parsl counts memory in these, bytes.
_MEGABYTE = 10**6


class Specification(NamedTuple):
    """What one task asks for; the names are Parsl's."""

    #: Lower runs earlier, and tasks without one run last.
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
        """The same in the words of ``gristmill.Executor.options``."""
        return {
            "timeout": self.walltime,
            # Higher runs earlier there.
            "priority": 0 if self.priority is None else PRIORITY_MAX + 1 - self.priority,
            "cores": self.cores,
            "gpus": self.gpus,
            "memory": self.memory * _MEGABYTE or None,
            "context": self.context,
        }


_PLAIN = Specification._field_defaults


def read(specification: dict[str, Any]) -> Specification:
    """Checks a specification. Raises ``InvalidResourceSpecification``."""
    # Not before it is needed: where Parsl is installed its errors load much of it.
    from gristmill.parsl.errors import InvalidResourceSpecification

    unknown = specification.keys() - set(Specification._fields)
    if unknown:
        known = ", ".join(Specification._fields)
        raise InvalidResourceSpecification(set(unknown), f"known are {known}")
    one = Specification(**specification)
    if not (
        one.priority is None or (type(one.priority) is int and abs(one.priority) <= PRIORITY_MAX)
    ):
        raise InvalidResourceSpecification(
            {"priority"}, f"it is an integer of at most {PRIORITY_MAX} either side of 0"
        )
    if not (one.walltime is None or _is_duration(one.walltime)):
        raise InvalidResourceSpecification({"walltime"}, "it is a positive number of seconds")
    if type(one.memory) is not int or one.memory < 0:
        raise InvalidResourceSpecification({"memory"}, "it is a whole number of megabytes")
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
    from gristmill.parsl.errors import InvalidResourceSpecification

    if not isinstance(one.context, Context):
        raise InvalidResourceSpecification({"context"}, "it is a gristmill.Context")
    own = {name for name in ("cores", "gpus", "memory") if getattr(one, name) != _PLAIN[name]}
    if own:
        raise InvalidResourceSpecification(
            own, "a task in a context has what its context's workers have"
        )


def _is_duration(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value > 0
