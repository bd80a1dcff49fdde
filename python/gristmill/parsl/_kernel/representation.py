"""A ``repr`` that can rebuild the object: configurations are printed, compared and pasted."""

from __future__ import annotations

import inspect

#: Longer representations have one argument per line.
_WIDTH_MAX = 80


class RepresentationMixin:
    """A mixin whose ``repr`` is the call that makes the object, defaults included.

    Each argument of ``__init__`` must be an attribute of the same name, else ``repr`` raises ``AttributeError``.
    """

    def __repr__(self) -> str:
        parameters = list(inspect.signature(type(self).__init__).parameters.values())[1:]
        arguments = [self._argument(one) for one in parameters if _is_named(one)]
        name = type(self).__name__
        line = f"{name}({', '.join(arguments)})"
        if len(line) <= _WIDTH_MAX or not arguments:
            return line
        indented = (argument.replace("\n", "\n    ") for argument in arguments)
        return f"{name}(\n    " + ",\n    ".join(indented) + "\n)"

    def _argument(self, parameter: inspect.Parameter) -> str:
        try:
            value = getattr(self, parameter.name)
        except AttributeError:
            raise AttributeError(
                f"{type(self).__name__} has the parameter {parameter.name} and no attribute of that name"
            ) from None
        is_required = (
            parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY
        )
        return repr(value) if is_required else f"{parameter.name}={value!r}"


def _is_named(parameter: inspect.Parameter) -> bool:
    return parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
