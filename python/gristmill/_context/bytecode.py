"""Imports and global lookups in compiled code, for functions that have no source.

An import whose exception is caught counts as optional, even if the handler raises again. An import inside
``contextlib.suppress`` counts as required.
"""

from __future__ import annotations

import dis
import types

from gristmill._context.imports import OPTIONAL, REQUIRED, Import, Scan, absolute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from dis import Instruction
    from typing import Any

_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_GLOBAL_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_ATTRIBUTE_LOADS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_DYNAMIC = frozenset({"import_module", "__import__"})


def of_code(code: types.CodeType, label: str, package: str = "") -> Scan:
    """Returns the imports of a code object and of the code objects nested in it."""
    scan = Scan()
    for one in _nested(code):
        instructions = _instructions(one)
        tries = _Tries(one, instructions)
        for place, instruction in enumerate(instructions):
            if instruction.opname == "IMPORT_NAME":
                level, names = (before.argval for before in instructions[place - 2 : place])
                module = absolute(instruction.argval, level, package)
            elif instruction.argval in _DYNAMIC and instruction.opname.startswith("LOAD_"):
                module, names = _literal_after(instructions[place + 1 :]), None
            else:
                continue
            if module is not None and module != "__future__":
                need, unless = tries.circumstances(instruction.offset, module)
                names = tuple(name for name in names or () if name != "*")
                why = f"imported by {label}, line {_line(instruction, one)}"
                scan.imports.append(Import(module, why, names, need, unless))
    return scan


def global_chains(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    """Yields each global that the code loads, with the attributes that follow: ``np.linalg.norm`` as three names."""
    seen = set()
    for one in _nested(code):
        instructions = _instructions(one)
        for place, instruction in enumerate(instructions):
            if instruction.opname not in _GLOBAL_LOADS:
                continue
            names = [instruction.argval]
            for after in instructions[place + 1 :]:
                if after.opname not in _ATTRIBUTE_LOADS:
                    break
                names.append(after.argval)
            if tuple(names) not in seen:
                seen.add(tuple(names))
                yield tuple(names)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _instructions(code: types.CodeType) -> list[Instruction]:
    return [one for one in dis.get_instructions(code) if one.opname != "EXTENDED_ARG"]


def _literal_after(instructions: Sequence[Instruction]) -> str | None:
    """Returns the absolute module name that the next call gets as its first constant; ``None`` if there is none."""
    for instruction in instructions:
        if instruction.opname in ("PUSH_NULL", "PRECALL"):
            continue
        value = instruction.argval
        is_absolute = isinstance(value, str) and bool(value) and not value.startswith(".")
        return value if instruction.opname == "LOAD_CONST" and is_absolute else None
    return None


class _Tries:
    """Exception table of one code object: the imports whose failure it catches, and the imports that replace them."""

    def __init__(self, code: types.CodeType, instructions: list[Instruction]) -> None:
        self._entries: list[Any] = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
        places = {one.offset: place for place, one in enumerate(instructions)}
        #: Modules whose import is tried, by the offset of the handler that catches the failure.
        self._tried: dict[int, list[str]] = {
            entry.target: []
            for entry in self._entries
            if entry.target in places and _catches(instructions[places[entry.target] :])
        }

    def circumstances(self, offset: int, module: str) -> tuple[str, tuple[str, ...]]:
        """Returns how much the module imported at this offset is needed, and the modules that it stands in for."""
        ways = self._ways(offset)
        around = [self._tried[target] for target in ways if target in self._tried]
        for tried in around:
            tried.append(module)
        if around:
            return OPTIONAL, ()
        # An exception raised inside a handler first goes to a cleanup target that belongs to this handler alone.
        failed = [tried for target, tried in self._tried.items() if self._next(target) in ways]
        return REQUIRED, tuple(name for tried in failed for name in tried)

    def _ways(self, offset: int) -> list[int]:
        """Returns the chain of targets that an exception raised at this offset passes through."""
        found: list[int] = []
        target = self._next(offset)
        while target is not None and target not in found:
            found.append(target)
            target = self._next(target)
        return found

    def _next(self, offset: int) -> int | None:
        return next((one.target for one in self._entries if one.start <= offset < one.end), None)


def _catches(handler: list[Instruction]) -> bool:
    """Returns whether the first clause of a handler catches failed imports."""
    if handler[0].opname != "PUSH_EXC_INFO":
        return False
    for instruction in handler[1:]:
        if instruction.opname in _GLOBAL_LOADS and instruction.argval in _CATCHES:
            return True
        if instruction.opname not in {*_GLOBAL_LOADS, "BUILD_TUPLE"}:
            # A handler without a class catches every exception.
            return instruction.opname == "POP_TOP" and handler[1] is instruction
    return False


def _line(instruction: Instruction, code: types.CodeType) -> int:
    lines = instruction.positions
    return (lines.lineno if lines is not None else None) or code.co_firstlineno
