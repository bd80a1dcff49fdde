"""Conditions in source code whose value is known without running it, such as tests of the platform or the version."""

from __future__ import annotations

import ast
import operator
import os
import platform
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
#: Values of these names. The scan assumes that no program rebinds them.
_KNOWN: dict[str, Any] = {
    "TYPE_CHECKING": False,
    "typing.TYPE_CHECKING": False,
    "sys.platform": sys.platform,
    "os.name": os.name,
    "sys.version_info": tuple(sys.version_info),
    "sys.version_info.major": sys.version_info.major,
    "sys.version_info.minor": sys.version_info.minor,
    "sys.implementation.name": sys.implementation.name,
}
#: Functions that are known when they are called without arguments.
_KNOWN_CALLS = {
    "platform.system": platform.system,
    "platform.machine": platform.machine,
    "platform.python_implementation": platform.python_implementation,
}


class _Unknown(Exception):
    """Signal that only a run can decide the condition."""


def truth(test: ast.expr) -> bool | None:
    """Returns whether the condition holds on this machine; ``None`` if only a run can tell."""
    if isinstance(test, ast.BoolOp):
        known = [truth(value) for value in test.values]
        decisive = isinstance(test.op, ast.Or)
        if decisive in known:
            return decisive
        return None if None in known else not decisive
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = truth(test.operand)
        return None if inner is None else not inner
    try:
        return bool(_value(test))
    except (_Unknown, TypeError, LookupError):
        return None


def dotted_name(node: ast.AST) -> str:
    """Returns a chain of names as written, such as ``a.b.c``; an empty string for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted_name(node.value)
        return before and f"{before}.{node.attr}"
    return ""


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return tuple(map(_value, node.elts))
    if isinstance(node, ast.Compare):
        return _comparison(node)
    if isinstance(node, ast.Subscript):
        return _value(node.value)[_index(node.slice)]
    if isinstance(node, ast.Call):
        return _call(node)
    name = dotted_name(node)
    if name in _KNOWN:
        return _KNOWN[name]
    raise _Unknown


def _index(node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        return slice(*(part and _value(part) for part in (node.lower, node.upper, node.step)))
    return _value(node)


def _comparison(node: ast.Compare) -> bool:
    left = _value(node.left)
    for sign, right_node in zip(node.ops, node.comparators, strict=True):
        right, compare = _value(right_node), _OPERATORS.get(type(sign))
        if compare is None:
            raise _Unknown
        if not compare(left, right):
            return False
        left = right
    return True


def _call(node: ast.Call) -> Any:
    """Evaluates the known calls without arguments, and ``sys.platform.startswith("...")``."""
    name = dotted_name(node.func)
    if name in _KNOWN_CALLS and not node.args:
        return _KNOWN_CALLS[name]()
    if name == "sys.platform.startswith" and len(node.args) == 1 and not node.keywords:
        return sys.platform.startswith(_value(node.args[0]))
    raise _Unknown
