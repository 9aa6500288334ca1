"""Which small faults a source file could have: one changed node of its syntax tree for each.

Left out: texts, annotations, decorators, what a ``raise`` says (its removal is in), imports, and compiled kernels,
whose machine code does not change with their source.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

Step = tuple[str, int | None]

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_OPPOSITES = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("fmin", "fmax"),
    ("argmin", "argmax"),
    ("nanargmin", "nanargmax"),
    ("any", "all"),
    ("floor", "ceil"),
    ("ROUND_FLOOR", "ROUND_CEILING"),
    ("next_minus", "next_plus"),
)
OPPOSITE = dict(_OPPOSITES) | {right: left for left, right in _OPPOSITES}
KERNEL_DECORATORS = {"njit", "intrinsic"}
NOT_CODE = {"annotation", "returns", "decorator_list", "type_comment", "type_params", "pattern", "ctx"}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Mutant:
    """One fault: the node at ``path`` of the file's tree is replaced by ``node``.

    ``name`` says where and what, without line numbers, so that it stays the same when other lines change.
    """

    file: str
    function: str  # the outermost one around it, as a qualified name; empty for what runs at import
    line: int
    last_line: int
    path: tuple[Step, ...]
    node: ast.AST
    name: str


def find_mutants(file: str, source: str) -> list[Mutant]:
    """Return all mutants of a source file, without those that compile to the same code."""
    tree = ast.parse(source)
    plain = compile(tree, file, "exec", dont_inherit=True)
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    for mutant in _Finder(file, tree).mutants():
        try:
            code = compile_mutant(mutant, source)
        except SyntaxError:
            continue
        if code == plain:
            continue
        seen[mutant.name] = seen.get(mutant.name, 0) + 1
        nth = f" (occurrence {seen[mutant.name]})" if seen[mutant.name] > 1 else ""
        found.append(replace(mutant, name=mutant.name + nth))
    return found


def compile_mutant(mutant: Mutant, source: str) -> CodeType:
    """Return the code of the whole file with the fault in it."""
    tree = ast.parse(source)
    _put(tree, mutant.path, copy.deepcopy(mutant.node))
    return compile(ast.fix_missing_locations(tree), mutant.file, "exec", dont_inherit=True)


def kernels(source: str) -> list[str]:
    """Return the names of the compiled functions, which are not mutated."""
    return [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, FUNCTION) and _is_kernel(node)]


def _put(tree: ast.AST, path: tuple[Step, ...], new: ast.AST) -> ast.AST:
    """Put ``new`` at ``path`` and return what was there."""
    node = tree
    for field, index in path[:-1]:
        node = getattr(node, field) if index is None else getattr(node, field)[index]
    field, index = path[-1]
    if index is None:
        old = getattr(node, field)
        setattr(node, field, new)
    else:
        old = getattr(node, field)[index]
        getattr(node, field)[index] = new
    return old


def _is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    calls = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(isinstance(c, ast.Name) and c.id in KERNEL_DECORATORS for c in calls)


@dataclass(frozen=True)
class _Place:
    """Where a node is: in which class or function, in the code of which outermost function, and in which statement."""

    owner: str = ""
    function: str = ""
    statement: ast.AST | None = None

    def inside(self, name: str) -> str:
        return f"{self.owner}.{name}" if self.owner else name


class _Finder:
    """Goes through a tree and makes the mutants of each node."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self.file, self.tree = file, tree
        self.bound: set[str] = set()  # names of the function that have a value already

    def mutants(self) -> Iterator[Mutant]:
        yield from self._children(self.tree, (), _Place())

    def _visit(self, node: ast.AST, path: tuple[Step, ...], place: _Place) -> Iterator[Mutant]:
        if _is_left_out(node):
            return
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            place = replace(place, statement=node)
        for new in self._mutations(node):
            yield self._mutant(node, new, path, place)
        if isinstance(node, FUNCTION):
            yield from self._function(node, path, place)
        elif not isinstance(node, ast.Raise):
            if isinstance(node, ast.ClassDef):
                place = replace(place, owner=place.inside(node.name))
            yield from self._children(node, path, place)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            self.bound.add(node.id)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, path: tuple[Step, ...], place: _Place
    ) -> Iterator[Mutant]:
        if not place.function:
            place = replace(place, owner=place.inside(node.name))
            self.bound = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        # the defaults of an outer function are made when it is defined
        yield from self._visit(node.args, (*path, ("args", None)), place)
        place = replace(place, function=place.function or place.owner)
        for index, child in enumerate(node.body):
            yield from self._visit(child, (*path, ("body", index)), place)

    def _children(self, node: ast.AST, path: tuple[Step, ...], place: _Place) -> Iterator[Mutant]:
        for field, value in ast.iter_fields(node):
            if field in NOT_CODE:
                continue
            if isinstance(value, ast.AST):
                yield from self._visit(value, (*path, (field, None)), place)
            for index, child in enumerate(value if isinstance(value, list) else []):
                if isinstance(child, ast.AST):
                    yield from self._visit(child, (*path, (field, index)), place)

    def _mutant(self, node: ast.AST, new: ast.AST, path: tuple[Step, ...], place: _Place) -> Mutant:
        before = _shown(place.statement)
        if isinstance(new, ast.If) and _is_never(new.test):
            after = "(removed)"
        else:
            old = _put(self.tree, path, new)
            after = _shown(new if node is place.statement else place.statement)
            _put(self.tree, path, old)
        first, last = _lines(place.statement)
        name = f"{place.owner or 'module'}: {before} => {after}"
        return Mutant(self.file, place.function, first, last, path, new, name)

    def _mutations(self, node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901, PLR0912  one case per kind of node
        match node:
            case ast.stmt() | ast.excepthandler() | ast.match_case():
                yield from self._statement(node)
            case ast.Compare():
                for index, operator in enumerate(node.ops):
                    for other in COMPARISONS[type(operator)]:
                        yield _changed(node, ops=[*node.ops[:index], other(), *node.ops[index + 1 :]])
            case ast.BoolOp():
                yield _changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
                for index in range(len(node.values)):
                    rest = node.values[:index] + node.values[index + 1 :]
                    yield rest[0] if len(rest) == 1 else _changed(node, values=rest)
            case ast.BinOp() if not any(map(_is_text, (node.left, node.right))) and type(node.op) in OPERATORS:
                yield _changed(node, op=OPERATORS[type(node.op)]())
            case ast.UnaryOp():
                yield node.operand
            case ast.Constant(value=bool()):
                yield ast.Constant(not node.value)
            case ast.Constant(value=int() | float()):
                yield ast.Constant(node.value + 1)
                yield ast.Constant(node.value - 1)
            case ast.IfExp() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
                yield _changed(node, test=ast.UnaryOp(ast.Not(), node.test))
            case ast.comprehension():
                for index in range(len(node.ifs)):
                    yield _changed(node, ifs=node.ifs[:index] + node.ifs[index + 1 :])
            case ast.Call(func=ast.Attribute(attr="zeros"), args=[size, *_]) if not _is_never(size):
                yield _changed(node, func=_changed(node.func, attr="ones"))
            case ast.Attribute() if node.attr in OPPOSITE:
                yield _changed(node, attr=OPPOSITE[node.attr])
            case ast.Name(ctx=ast.Load()) if node.id in OPPOSITE:
                yield _changed(node, id=OPPOSITE[node.id])

    def _statement(self, node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901  one case per kind of statement
        match node:
            case ast.If() | ast.While() if not isinstance(node.test, ast.Compare | ast.UnaryOp | ast.Constant):
                yield _changed(node, test=ast.UnaryOp(ast.Not(), node.test))
            case ast.For():
                yield _changed(node, iter=ast.List([], ast.Load()))
            case ast.Return(value=ast.expr()) if not (
                isinstance(node.value, ast.Constant) and node.value.value is None
            ):
                yield _changed(node, value=ast.Constant(None))
                if isinstance(node.value, ast.Constant) and node.value.value == "":
                    yield _changed(node, value=ast.Constant("XX"))
            case ast.Break():
                yield ast.Continue()
                yield _never(node)
            case ast.Continue():
                yield ast.Break()
                yield _never(node)
            case ast.AugAssign():
                yield _never(node)
                yield _changed(node, op=OPERATORS[type(node.op)]())
            case ast.Assign() if self._is_bound_already(node):
                yield _never(node)
            case ast.Raise() | ast.Delete():
                yield _never(node)
            case ast.Expr(value=ast.Call()):
                yield _never(node)
            case ast.ExceptHandler(type=ast.expr()):
                yield _changed(node, type=ast.Tuple([], ast.Load()))
            case ast.match_case():
                yield _changed(node, guard=ast.Constant(False))

    def _is_bound_already(self, node: ast.Assign) -> bool:
        parts = [part for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        names = {part.id for part in parts if isinstance(part.ctx, ast.Store)}
        return not names or bool(names & self.bound)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.FunctionDef():
            return _is_kernel(node)
        case (
            ast.JoinedStr()
            | ast.Import()
            | ast.ImportFrom()
            | ast.Expr(value=ast.Constant())
            | ast.If(test=ast.Name(id="TYPE_CHECKING"))
            | ast.Assign(targets=[ast.Name(id="__all__")])
            | ast.Call(func=ast.Name(id="cast"))
            | ast.keyword(arg="strict")
        ):
            return True
    return False


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _never(node: ast.AST) -> ast.If:
    # not `pass`: a function must keep its local and free variables for its code to be put in place of the old one
    return ast.copy_location(ast.If(ast.Constant(0), [node], []), node)


def _is_never(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and test.value == 0


def _shown(node: ast.AST) -> str:  # noqa: C901, PLR0911  one case per kind of statement
    """Return a statement as one line, without its body."""
    match node:
        case ast.If() | ast.While():
            return f"{type(node).__name__.lower()} {ast.unparse(node.test)}"
        case ast.For():
            return f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
        case ast.With():
            return f"with {', '.join(map(ast.unparse, node.items))}"
        case ast.FunctionDef():
            bare = copy.deepcopy(node.args)
            for argument in ast.walk(bare):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
            return f"def {node.name}({ast.unparse(bare)})"
        case ast.ClassDef():
            return f"class {node.name}"
        case ast.ExceptHandler():
            return f"except {ast.unparse(node.type) if node.type else ''}"
        case ast.match_case():
            return f"case {ast.unparse(node.pattern)}" + (f" if {ast.unparse(node.guard)}" if node.guard else "")
        case ast.Try() | ast.Match():
            return type(node).__name__.lower()
    return ast.unparse(node).replace("\n", " ")


def _lines(node: ast.AST) -> tuple[int, int]:
    """Return the lines that run when a statement itself does, without its body."""
    first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
    body = getattr(node, "body", None)
    if isinstance(node, ast.match_case | ast.ExceptHandler):
        return first, body[-1].end_lineno
    last = body[0].lineno - 1 if body else node.end_lineno
    return first, max(first, last)
