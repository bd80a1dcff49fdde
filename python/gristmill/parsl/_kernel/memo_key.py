"""The key by which a call is remembered: it identifies function and arguments, and is equal in every process and run.

Two calls have the same key if they have the same function (see ``memo_functions``: its code counts, not only its name)
and the same arguments: equal in type and content, in any order of dicts and sets (see ``memo_values``). ``1``, ``1.0``
and ``True`` are different. An argument passed by position differs from the same argument passed by name. Default values
count as part of the function.

For types that are not identified by their content, register a function, as with Parsl:

    @id_for_memo.register(Molecule)
    def _(molecule, output_ref=False):
        return molecule.name.encode()
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from gristmill import _forked
from gristmill.parsl._kernel.memo_bytes import UnkeyableValue, framed, key_of
from gristmill.parsl._kernel.memo_functions import function_part, known_part
from gristmill.parsl._kernel.memo_values import SCALARS, Encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence


class MemoKeyError(ValueError):
    """An argument of a task with ``cache=True`` that cannot be identified. The message names it and a remedy."""


@functools.singledispatch
def id_for_memo(obj: Any, output_ref: bool = False) -> bytes:
    """Returns the bytes that identify a value: equal for equal values, different for different ones.

    Use ``id_for_memo.register(type)`` for types of your own. Registrations with Parsl's function of this name count as
    well where Parsl is loaded.

    :param output_ref: the value is in ``outputs=[...]`` of a call, so its content does not exist yet.

    Raises ``MemoKeyError`` for a value that cannot be identified.
    """
    encoder = _encoder(_unregistered_scalars())
    encoder.output_ref = output_ref
    try:
        return encoder.encode_unregistered(obj)
    except UnkeyableValue as unkeyable:
        raise MemoKeyError(str(unkeyable)) from unkeyable.__cause__


def make_key(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    ignore_for_cache: Collection[str] = (),
    *,
    code_in_key: bool = True,
) -> str:
    """Makes the key of a call: 32 hexadecimal digits.

    :param ignore_for_cache: names of arguments that do not count when they are passed by name; unknown names are
        allowed.
    :param code_in_key: without it a function is identified by its name alone, as with Parsl: editing it changes
        nothing.

    Raises ``MemoKeyError``, which names the argument that cannot be identified, and the exceptions of registered
    functions.
    """
    scalars = SCALARS if len(id_for_memo.registry) == 1 else _unregistered_scalars()
    name: int | str | None = None
    try:
        part = known_part(function) if code_in_key else None
        encoder = None
        if part is None:
            encoder = _encoder(scalars, code_in_key)
            part = _forked.guarded(function_part, function, encoder)
        parts = [part, b"%d;" % len(args)]
        for place, value in enumerate(args):
            name, kind = place, type(value)
            if kind in scalars:
                parts.append(scalars[kind](value))
            else:
                encoder = encoder or _encoder(scalars, code_in_key)
                parts.append(_forked.guarded(encoder.encode, value))
        for name in sorted(kwargs) if kwargs else ():
            if name not in ignore_for_cache:
                encoder = encoder or _encoder(scalars, code_in_key)
                encoder.output_ref = name == "outputs"
                encoded = _forked.guarded(encoder.encode, kwargs[name])
                parts += (framed(b"s", name.encode()), encoded)
    except (UnkeyableValue, RecursionError) as error:
        raise _unkeyable(function, name, error) from error
    return key_of(b"".join(parts))


def _encoder(scalars: Mapping[type, Any], code_in_key: bool = True) -> Encoder:
    is_any = len(id_for_memo.registry) > 1 or "parsl.dataflow.memoization" in sys.modules
    return Encoder(_find_registered if is_any else None, scalars, code_in_key)


def _unregistered_scalars() -> Mapping[type, Any]:
    registered = id_for_memo.registry.keys()
    return {kind: encode for kind, encode in SCALARS.items() if kind not in registered}


def _unkeyable(function: Any, name: int | str | None, error: Exception) -> MemoKeyError:
    """Returns the error that names the argument and the remedies."""
    what = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    if name is None:
        return MemoKeyError(f"{function!r} cannot be identified, which cache=True needs: {what}")
    where, ignore = f"argument {name!r}", f"name it in ignore_for_cache=[{name!r}]"
    if isinstance(name, int):
        where = f"argument {name + 1}"
        ignore = "pass it by name and put that name into ignore_for_cache"
    called = getattr(function, "__qualname__", function)
    return MemoKeyError(
        f"{where} of {called} cannot be identified, which cache=True needs: {what}. "
        f"Register its type with gristmill.parsl.dataflow.memoization.id_for_memo.register, or {ignore}"
    )


def _find_registered(kind: type) -> Callable[..., bytes] | None:
    """Returns the function that was registered for a type or its bases, with us or with Parsl, else ``None``."""
    registry = id_for_memo.registry
    if len(registry) > 1:
        found = id_for_memo.dispatch(kind)
        if found is not registry[object]:
            return found
    theirs = getattr(sys.modules.get("parsl.dataflow.memoization"), "id_for_memo", None)
    if theirs is None or theirs is id_for_memo:
        return None
    found = theirs.dispatch(kind)
    # Parsl's own functions distinguish less than ours do.
    return None if _home(found) == "parsl.dataflow.memoization" else found


def _home(function: Any) -> str | None:
    module: str | None = getattr(function, "__module__", None)
    return module
