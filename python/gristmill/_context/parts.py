"""Part of a program that one of its functions needs: its statement, and those that define the names it uses."""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Import = ast.Import | ast.ImportFrom
#: Compound statements that contain other statements at module level.
_BLOCKS = (ast.If, ast.Try, ast.TryStar, ast.With, ast.For, ast.While)


def part_of(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Returns the module-level statements that a function needs, in source order; raises ``LookupError``.

    ``name`` is the name of a function, a class or another object of the module. ``Class.method`` selects the whole
    class.
    The selection compares names only, so it may contain more than the function needs, but never less.
    """
    binding: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for bound in _bound(statement):
            binding.setdefault(bound, []).append(statement)
    wanted = name.partition(".")[0]
    if wanted not in binding:
        raise LookupError(name)
    taken: set[int] = set()
    waiting, seen = [wanted], {wanted}
    while waiting:
        for statement in binding.get(waiting.pop(), ()):
            if id(statement) in taken:
                continue
            taken.add(id(statement))
            new = _used(statement) - seen
            seen |= new
            waiting += new
    stars = [statement for statement in tree.body if _has_star(statement)]
    return [one for one in tree.body if id(one) in taken or one in stars]


def functions_of(tree: ast.Module) -> list[str]:
    """Returns the names of the functions and classes that a module defines, for messages about an unknown name."""
    return [statement.name for statement in tree.body if isinstance(statement, _Definition)]


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yields the names that a statement binds, including names that it declares ``global``."""
    if isinstance(statement, _Definition):
        yield statement.name
    elif isinstance(statement, _Import):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(statement, _BLOCKS):
        for inner in ast.iter_child_nodes(statement):
            yield from _bound_within(inner)
    else:
        yield from _stored(statement)
    for node in ast.walk(statement):
        if isinstance(node, ast.Global):
            yield from node.names


def _bound_within(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.stmt):
        yield from _bound(node)
    elif isinstance(node, ast.ExceptHandler):
        for statement in node.body:
            yield from _bound(statement)
    else:
        yield from _stored(node)


def _stored(node: ast.AST) -> Iterator[str]:
    """Yields the names that a node assigns, and those of objects that it changes: ``table[key] = value``."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Store, ast.Del)):
            yield inner.id
        elif isinstance(inner, (ast.Attribute, ast.Subscript)) and isinstance(inner.ctx, ast.Store):
            root: ast.expr = inner
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if isinstance(root, ast.Name):
                yield root.id


def _used(statement: ast.stmt) -> set[str]:
    """Returns the names that a statement may look up."""
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _has_star(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"
