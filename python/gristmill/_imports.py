"""The import statements of compiled code, and the loaded modules that they name."""

from __future__ import annotations

import opcode
import sys
import types

from gristmill import _modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_IMPORT_NAME = opcode.opmap["IMPORT_NAME"]
_EXTENDED_ARG = opcode.opmap["EXTENDED_ARG"]
_LOAD_CONST = opcode.opmap["LOAD_CONST"]
#: Instruction that loads the level from Python 3.14 on.
_LOAD_SMALL_INT = opcode.opmap.get("LOAD_SMALL_INT")
#: ``inspect.CO_OPTIMIZED``: marks the body of a function, not that of a module or of a class.
_FUNCTION = 1

#: A module that a statement names, with the names that it takes from there, which may be modules too.
Import = tuple[str, tuple[str, ...]]


def of_module(code: types.CodeType, package: str) -> tuple[tuple[Import, ...], tuple[Import, ...]]:
    """Returns the imports that a module's code runs when it is loaded, and those that its functions run when called."""
    at_load: dict[Import, None] = {}
    in_calls: dict[Import, None] = {}
    waiting = [(code, at_load)]
    while waiting:
        current, found = waiting.pop()
        found.update(dict.fromkeys(of_code(current, package)))
        for constant in current.co_consts:
            if isinstance(constant, types.CodeType):
                is_function = constant.co_flags & _FUNCTION
                waiting.append((constant, in_calls if is_function else found))
    return tuple(at_load), tuple(in_calls)


def present(imports: Iterable[Import], missing: set[str], own: dict[str, bool]) -> Iterator[str]:
    """Yields the named modules that are loaded and the program's own. Adds those that are not loaded to ``missing``.

    ``own`` caches whether a module is the program's own.
    """
    modules = sys.modules
    for name, parts in imports:
        module = modules.get(name)
        if module is None:
            missing.add(name)
            continue
        is_own = own.get(name)
        if is_own is None:
            is_own = own[name] = _modules.is_own(name)
        if not is_own:
            continue
        yield name
        if not hasattr(module, "__path__"):
            continue
        for part in parts:
            full = f"{name}.{part}"
            if full not in modules:
                if part not in vars(module):
                    missing.add(full)
            elif _modules.is_own(full):
                yield full


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yields code and all code nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def of_code(code: types.CodeType, package: str) -> Iterator[Import]:
    """Yields the imports of code, without those of nested code."""
    if not code.co_names:
        return
    instructions = code.co_code
    operations = instructions[::2]
    index = operations.find(_IMPORT_NAME)
    while index >= 0:
        name, before = _argument(instructions, index)
        names, before = _constant(code, instructions, before)
        level, _ = _constant(code, instructions, before)
        yield from _modules_of(code.co_names[name], names, level, package)
        index = operations.find(_IMPORT_NAME, index + 1)


def _argument(instructions: bytes, index: int) -> tuple[int, int]:
    """Returns the argument of an instruction, and the index of the instruction before it."""
    argument, shift = instructions[2 * index + 1], 8
    index -= 1
    while index >= 0 and instructions[2 * index] == _EXTENDED_ARG:
        argument |= instructions[2 * index + 1] << shift
        shift += 8
        index -= 1
    return argument, index


def _constant(code: types.CodeType, instructions: bytes, index: int) -> tuple[object, int]:
    """Returns the constant that an instruction loads, if any, and the index of the instruction before it."""
    argument, before = _argument(instructions, index)
    if instructions[2 * index] == _LOAD_CONST:
        return code.co_consts[argument], before
    return (argument if instructions[2 * index] == _LOAD_SMALL_INT else None), before


def _modules_of(name: str, names: object, level: object, package: str) -> Iterator[Import]:
    if isinstance(level, int) and level > 0:
        parts = package.rsplit(".", level - 1) if package else []
        if len(parts) < level:
            return  # beyond the package: an error when it runs
        name = f"{parts[0]}.{name}" if name else parts[0]
    if isinstance(names, tuple):
        yield name, tuple(one for one in names if isinstance(one, str) and one != "*")
        return
    # The statement binds the first name, and the others are its attributes.
    while name:
        yield name, ()
        name = name.rpartition(".")[0]
