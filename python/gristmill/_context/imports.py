"""Imports in source code, each with its reason.

The scan runs no code. What only a run can tell, such as a computed module name, becomes a note instead of a guess.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses

from gristmill._context.conditions import dotted_name, truth

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The code cannot run without the module; can run without it; never imports it on this machine.
REQUIRED, OPTIONAL, NEVER = "required", "optional", "never"
#: Exception classes whose handlers catch a failed import.
_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_EXITS = ("sys.exit", "exit", "quit", "os._exit")
_DYNAMIC = ("importlib.import_module", "import_module", "__import__", "importlib.__import__")


@dataclasses.dataclass(frozen=True)
class Import:
    """One import of one module."""

    #: Absolute name of the module.
    module: str
    #: Location of the import, or other evidence that the module is needed.
    why: str
    #: Names that are imported from the module. Each may be a module itself.
    names: tuple[str, ...] = ()
    need: str = REQUIRED
    #: Modules that this one replaces. If one of them is available, this one is not needed.
    unless: tuple[str, ...] = ()


@dataclasses.dataclass
class Scan:
    """Result of scanning a piece of code."""

    imports: list[Import] = dataclasses.field(default_factory=list)
    #: Remarks about imports that could not be determined, one per line.
    notes: list[str] = dataclasses.field(default_factory=list)

    def extend(self, other: Scan) -> None:
        """Adds the result of another scan."""
        self.imports += other.imports
        self.notes += other.notes


def of_source(source: str | bytes, name: str, package: str = "") -> Scan:
    """Scans source code; raises ``SyntaxError``. ``package`` is the package that relative imports start from."""
    return of_statements(ast.parse(source, name).body, name, package)


def of_statements(statements: Iterable[ast.stmt], name: str, package: str = "") -> Scan:
    """Scans some statements of the file with this name."""
    visitor = _Visitor(name, package)
    visitor.visit_all(statements)
    return visitor.scan


def absolute(module: str, level: int, package: str) -> str | None:
    """Returns the absolute name of a relative import; ``None`` if it leads out of the outermost package."""
    if level == 0:
        return module or None
    parents = package.split(".") if package else []
    if level > len(parents):
        return None
    return ".".join([*parents[: len(parents) - level + 1], *filter(None, [module])])


class _Visitor(ast.NodeVisitor):
    """A visitor that tracks the conditions under which each statement runs."""

    def __init__(self, name: str, package: str) -> None:
        self.scan = Scan()
        self._name = name
        self._package = package
        self._function = ""
        self._need = REQUIRED
        self._unless: tuple[str, ...] = ()

    def visit_all(self, nodes: Iterable[ast.AST]) -> None:
        """Visits nodes one after the other."""
        for node in nodes:
            self.visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = absolute(node.module or "", node.level, self._package)
        if module is None:
            written = "." * node.level + (node.module or "")
            self._note(node, f"from {written} import ... leads outside all packages")
        elif module != "__future__":
            names = tuple(alias.name for alias in node.names if alias.name != "*")
            self._add(node, module, names)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer = self._function
        self._function = outer or node.name
        self.generic_visit(node)
        self._function = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_If(self, node: ast.If) -> None:
        holds = truth(node.test)
        self.visit(node.test)
        with self._under(_need_of(holds, node.test)):
            self.visit_all(node.body)
        with self._under(NEVER if holds else REQUIRED):
            self.visit_all(node.orelse)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        self.visit_all(item.context_expr for item in node.items)
        with self._under(OPTIONAL if any(map(_suppresses, node.items)) else REQUIRED):
            self.visit_all(node.body)

    visit_AsyncWith = visit_With

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        catching = [handler for handler in node.handlers if _catches(handler.type)]
        goes_on = any(not _gives_up(handler.body) for handler in catching)
        count = len(self.scan.imports)
        with self._under(OPTIONAL if goes_on else REQUIRED):
            self.visit_all(node.body)
        tried = tuple(found.module for found in self.scan.imports[count:])
        for handler in node.handlers:
            outer = self._unless
            if handler in catching:
                self._unless += tried
            self.visit_all(handler.body)
            self._unless = outer
        self.visit_all([*node.orelse, *node.finalbody])

    visit_TryStar = visit_Try

    def visit_Call(self, node: ast.Call) -> None:
        if dotted_name(node.func) in _DYNAMIC:
            self._add_dynamic(node)
        self.generic_visit(node)

    def _add_dynamic(self, node: ast.Call) -> None:
        written = node.args[0] if node.args else None
        if not isinstance(written, ast.Constant) or not isinstance(written.value, str):
            self._note(node, f"{ast.unparse(node)[:60]}: only a run can show which module that is")
            return
        text = written.value
        module = absolute(text.lstrip("."), len(text) - len(text.lstrip(".")), self._base(node))
        if module is None:
            self._note(node, f"{ast.unparse(node)[:60]}: relative to an unknown package")
        else:
            self._add(node, module)

    def _base(self, node: ast.Call) -> str:
        """Returns the package that a dynamic import is relative to."""
        given = [*node.args[1:2], *(one.value for one in node.keywords if one.arg == "package")]
        if given and isinstance(given[0], ast.Constant):
            return str(given[0].value)
        return self._package if given and dotted_name(given[0]) == "__package__" else ""

    def _add(self, node: ast.AST, module: str, names: tuple[str, ...] = ()) -> None:
        self.scan.imports.append(Import(module, self._place(node), names, self._need, self._unless))

    def _note(self, node: ast.AST, text: str) -> None:
        if self._need != NEVER:
            self.scan.notes.append(f"{self._place(node)}: {text}")

    def _place(self, node: ast.AST) -> str:
        where = f"line {getattr(node, 'lineno', 0)} of {self._name}"
        return f"{where}, in {self._function}" if self._function else where

    @contextlib.contextmanager
    def _under(self, need: str) -> Iterator[None]:
        """Limits the need of imports within the block to ``need``."""
        outer = self._need
        if NEVER in (outer, need):
            self._need = NEVER
        elif OPTIONAL in (outer, need):
            self._need = OPTIONAL
        yield
        self._need = outer


def _need_of(holds: bool | None, test: ast.expr) -> str:
    """Returns how much the body of an ``if`` is needed."""
    if holds is False:
        return NEVER
    calls = (node.func for node in ast.walk(test) if isinstance(node, ast.Call))
    asks = any(dotted_name(call).rpartition(".")[2] == "find_spec" for call in calls)
    return OPTIONAL if asks else REQUIRED


def _catches(caught: ast.expr | None) -> bool:
    """Returns whether a handler catches failed imports."""
    if caught is None:
        return True
    each = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(dotted_name(one).rpartition(".")[2] in _CATCHES for one in each)


def _suppresses(item: ast.withitem) -> bool:
    call = item.context_expr
    if not isinstance(call, ast.Call):
        return False
    return dotted_name(call.func).endswith("suppress") and any(map(_catches, call.args))


def _gives_up(body: list[ast.stmt]) -> bool:
    """Returns whether a handler raises or exits, so that the import is required after all."""
    for statement in body:
        if isinstance(statement, ast.Raise):
            return True
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and dotted_name(call.func) in _EXITS:
            return True
    return False
