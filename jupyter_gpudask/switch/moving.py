"""``--move``: collections from outside a cell, moved to the GPUs for the cell; which those are, by Python's scopes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from dask.base import is_dask_collection

from ..errors import MoveError
from ..inspection.placement import GPU_BACKENDS, can_move, kind_of, name_of, place_of, to_gpu

ALL = "all"
"""Selects every collection on the host that the cell names."""

_Kind = Literal["module", "class", "function", "type parameters"]
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Function = ast.FunctionDef | ast.AsyncFunctionDef
# The field of a node that belongs to a scope of its own.
_INNER = {
    ast.FunctionDef: "body",
    ast.AsyncFunctionDef: "body",
    ast.Lambda: "body",
    ast.ClassDef: "body",
    ast.comprehension: "target",
}


def host_collections(source: str, namespace: Mapping[str, Any], backends: tuple[str, str]) -> dict[str, int]:
    """Collections on the host that the code reads: name -> line of the first use.

    A variable that the code assigns before it reads it is none, nor is one of a function or class.

    `backends`: the backends for arrays and dataframes; collections that need no GPU backend are left out.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return {}
    found: dict[str, int] = {}
    for line, name in names_read(tree.body):
        if name not in namespace:
            continue
        value = namespace[name]
        # The class first: attribute access on a user's object may raise any exception.
        is_collection = hasattr(type(value), "_meta") and is_dask_collection(value)
        if name not in found and is_collection and place_of(value) == "host":
            backend = backends[0] if kind_of(value) == "array" else backends[1]
            if backend in GPU_BACKENDS:
                found[name] = line
    return found


def check_variables(names: Sequence[str], namespace: Mapping[str, Any]) -> None:
    """Raise `MoveError` if a variable is missing; for clusters without GPUs, where nothing is moved."""
    for name in names:
        if name not in (ALL, *namespace):
            raise MoveError("no-such-variable", name=name)


@contextmanager
def move_collections(
    names: Sequence[str], namespace: MutableMapping[str, Any], *, mentioned: Sequence[str]
) -> Iterator[frozenset[str]]:
    """Move the collections of these variables to the GPUs inside the ``with`` block; gives their names.

    A variable that the code reassigns keeps its new value.

    `names`: names of Dask arrays and dataframes; ``("all",)`` for those of `mentioned`. `mentioned`: names of the
    collections on the host that the code reads. Raises `MoveError` if a name is not a Dask array or DataFrame that can
    be moved; nothing was moved.
    """
    movable = [name for name in mentioned if can_move(namespace[name])]
    wanted = movable if tuple(names) == (ALL,) else list(names)
    before = {name: _movable(name, namespace) for name in wanted}
    after = {name: value if place_of(value) == "gpu" else to_gpu(value) for name, value in before.items()}
    made = {name: name_of(value) for name, value in after.items()}
    namespace.update(after)
    try:
        yield frozenset(after)
    finally:
        for name, value in after.items():
            if (
                namespace.get(name) is value and name_of(value) == made[name]
            ):  # not modified, as by x[0] = 1 or df["a"] = b
                namespace[name] = before[name]


def _movable(name: str, namespace: Mapping[str, Any]) -> Any:
    if name not in namespace:
        raise MoveError("no-such-variable", name=name)
    value = namespace[name]
    if not is_dask_collection(value) or place_of(value) is None:
        raise MoveError("not-a-collection", name=name, type=type(value).__name__)
    if not can_move(value):
        raise MoveError("dtype-not-movable", name=name, dtype=value.dtype)
    return value


def names_read(statements: Sequence[ast.stmt]) -> list[tuple[int, str]]:
    """Line and name of each variable that the code reads from outside, in the order of lines.

    What a function reads counts where it is defined. What is assigned only where it may not be executed, as in one
    branch of an ``if`` or in a loop, counts as assigned in there, and a read after it as one from outside.
    """
    reads = _OutsideReads()
    try:
        reads.visit_all(statements)
    except RecursionError:  # an expression of hundreds of operators or calls
        names = [node for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name)]
        return sorted({(node.lineno, node.id) for node in names if isinstance(node.ctx, ast.Load)})
    return sorted(reads.found)


@dataclass(frozen=True, eq=False)
class _Scope:
    """The names that a module, class, function or comprehension binds, and those it declares to be of another scope."""

    kind: _Kind
    bound: frozenset[str] = frozenset()
    global_names: frozenset[str] = frozenset()
    nonlocal_names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, kind: _Kind, body: Iterable[ast.AST], parameters: Iterable[str] = ()) -> _Scope:
        nodes = list(_nodes_of_scope(body))
        bound = {name for node in nodes if (name := _bound_by(node)) is not None}
        global_names = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        nonlocal_names = {name for node in nodes if isinstance(node, ast.Nonlocal) for name in node.names}
        return cls(kind, frozenset({*bound, *parameters}), frozenset(global_names), frozenset(nonlocal_names))


class _OutsideReads(ast.NodeVisitor):
    """Visits nodes in the order in which they are evaluated, and collects the reads of names that nothing assigned."""

    def __init__(self) -> None:
        self.found: set[tuple[int, str]] = set()
        self._module = _Scope("module")
        self._scopes = [self._module]
        self._assigned: frozenset[tuple[_Scope, str]] = frozenset()  # what has been executed by now

    def visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        """Visit the parts, then bind the name that the node binds, if any: the order of most nodes."""
        super().generic_visit(node)
        self._bind(_bound_by(node))

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node)
        else:
            self._bind(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit_all([node.value, *node.targets])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit_all([node.value, node.target])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        is_assignment = node.value is not None or not isinstance(node.target, ast.Name)
        is_evaluated = self._scopes[-1].kind != "function"
        self.visit_all([node.value, node.target if is_assignment else None, node.annotation if is_evaluated else None])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read(node.target)
            self.visit_all([node.value, node.target])
        else:
            self.visit_all([node.target, node.value])

    def visit_Dict(self, node: ast.Dict) -> None:
        self.visit_all(part for item in zip(node.keys, node.values, strict=True) for part in item)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._visit_one_of(node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self._visit_one_of([node.body], [node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self._visit_perhaps(node.values[1:])

    def visit_Compare(self, node: ast.Compare) -> None:
        self.visit_all([node.left, node.comparators[0]])
        self._visit_perhaps(node.comparators[1:])

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        self._visit_perhaps([node.msg])

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._visit_perhaps([node.target, *node.body])
        self._visit_perhaps(node.orelse)

    visit_AsyncFor = visit_For  # noqa: N815 - as ast.NodeVisitor calls it

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._visit_perhaps(node.body)
        self._visit_perhaps(node.orelse)

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        before = self._assigned
        self._visit_one_of([*node.body, *node.orelse], *([handler] for handler in node.handlers))
        after = self._assigned
        self._assigned = before
        self.visit_all(node.finalbody)
        self._assigned |= after

    visit_TryStar = visit_Try  # noqa: N815 - as ast.NodeVisitor calls it

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.visit_all([node.type])
        self._bind(node.name)
        self.visit_all(node.body)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        self._visit_one_of((), *([case] for case in node.cases))

    def visit_FunctionDef(self, node: _Function) -> None:
        self.visit_all(node.decorator_list)
        self._visit_defaults(node.args)
        type_parameters = _type_parameters(node)
        with self._inside(_Scope("type parameters", frozenset(type_parameters))):
            self.visit_all(type_parameters.values())
            self.visit_all([*(argument.annotation for argument in _arguments(node.args)), node.returns])
        self._bind(node.name)
        self._visit_function(node.args, node.body, type_parameters)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - as ast.NodeVisitor calls it

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_defaults(node.args)
        self._visit_function(node.args, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.visit_all(node.decorator_list)
        type_parameters = _type_parameters(node)
        with self._inside(_Scope("type parameters", frozenset(type_parameters))):
            self.visit_all([*type_parameters.values(), *node.bases, *node.keywords])
            with self._inside(_Scope.of("class", node.body)):
                self.visit_all(node.body)
        self._bind(node.name)

    def _visit_comprehension(self, node: _Comprehension) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        parts = [first.target, *first.ifs]
        for other in others:
            parts += [other.iter, other.target, *other.ifs]
        elements = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.comprehension)]
        with self._inside(_Scope.of("function", [generator.target for generator in node.generators])):
            self._visit_perhaps([*parts, *elements])

    visit_ListComp = _visit_comprehension  # noqa: N815 - as ast.NodeVisitor calls it
    visit_SetComp = _visit_comprehension  # noqa: N815 - as ast.NodeVisitor calls it
    visit_DictComp = _visit_comprehension  # noqa: N815 - as ast.NodeVisitor calls it
    visit_GeneratorExp = _visit_comprehension  # noqa: N815 - as ast.NodeVisitor calls it

    def _visit_defaults(self, arguments: ast.arguments) -> None:
        self.visit_all([*arguments.defaults, *arguments.kw_defaults])

    def _visit_function(self, arguments: ast.arguments, body: Sequence[ast.AST], others: Iterable[str] = ()) -> None:
        parameters = [argument.arg for argument in _arguments(arguments)]
        with self._inside(_Scope.of("function", body, [*parameters, *others])):
            self._visit_perhaps(body)

    def _visit_one_of(self, *blocks: Sequence[ast.AST | None]) -> None:
        """Visit blocks of which one is executed: what each of them assigns is assigned afterwards."""
        before, after = self._assigned, []
        for block in blocks:
            self._assigned = before
            self.visit_all(block)
            after.append(self._assigned)
        self._assigned = frozenset.intersection(*after)

    def _visit_perhaps(self, block: Sequence[ast.AST | None]) -> None:
        self._visit_one_of(block, ())

    @contextmanager
    def _inside(self, scope: _Scope) -> Iterator[None]:
        self._scopes.append(scope)
        yield
        self._scopes.pop()

    def _read(self, node: ast.Name) -> None:
        owner = self._owner(node.id)
        # What a class has not assigned yet is looked up in the module.
        is_assigned = not self._assigned.isdisjoint({(owner, node.id), (self._module, node.id)})
        if owner.kind in ("module", "class") and not is_assigned:
            self.found.add((node.lineno, node.id))

    def _bind(self, name: str | None) -> None:
        if name is not None:
            self._assigned |= {(self._owner(name), name)}

    def _owner(self, name: str) -> _Scope:
        """The scope whose variable the name is in the innermost scope."""
        innermost = next(scope for scope in reversed(self._scopes) if scope.kind != "type parameters")
        for scope in reversed(self._scopes):
            if scope.kind == "class" and scope is not innermost:
                continue  # names of a class are not visible in its functions
            if name in scope.global_names:
                break
            if name in scope.bound - scope.nonlocal_names:
                return scope
        return self._module


def _nodes_of_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and their parts, without those of scopes within this one."""
    waiting: list[Any] = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, ast.AST):
            yield node
            waiting += [part for field, part in ast.iter_fields(node) if field != _INNER.get(type(node))]


def _bound_by(node: ast.AST) -> str | None:
    """The name that this node, not a part of it, binds or deletes."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return name
        case ast.alias(name=module, asname=name):
            return name or module.split(".")[0]
        case ast.MatchMapping(rest=name):
            return name
        case ast.MatchAs() | ast.MatchStar() | ast.ExceptHandler() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name
        case ast.ClassDef(name=name):
            return name
    return None


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [*named, *(argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None)]


def _type_parameters(node: _Function | ast.ClassDef) -> dict[str, ast.AST]:
    """Name -> node of each of the ``[T]``, which Python 3.12 and newer parse."""
    return {parameter.name: parameter for parameter in getattr(node, "type_params", ())}
