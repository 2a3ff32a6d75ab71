"""One function of a TorchScript program: statements and expressions that are listed, and names that mean one thing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import torch

from smoothsweep.core.external.operators import ATEN, PRIM
from smoothsweep.core.external.script_names import (
    BUILTINS,
    NAMESPACES,
    NUMBERED,
    PROPERTIES,
    TYPED_FIRST,
    VALUES,
    Declared,
    Refused,
    check_constant,
    check_type,
    dotted,
)
from smoothsweep.core.text import shortened


class Body:
    """One function. A name in it stands for a value, or for one of the archive's functions, never for another thing."""

    def __init__(self, node: ast.FunctionDef, declared: Declared) -> None:
        self._node, self._declared = node, declared
        assigned = list(_assignments(node))
        self._functions = {name for name, value in assigned if value is not None and self._is_function(value)}
        others = {name for name, value in assigned if value is None or not self._is_function(value)}
        both = self._functions & others
        taken = (others | self._functions) & (NAMESPACES | BUILTINS | {"getattr"})
        if both or taken:
            raise Refused(node, f"another meaning for the name {shortened(min(both | taken))}")
        self._values = others | VALUES

    def check(self) -> None:
        """Raises Refused."""
        node = self._node
        if node.decorator_list or node.args.vararg or node.args.kwarg or node.args.posonlyargs:
            raise Refused(node, "a function with decorators or unusual arguments")
        for argument in (*node.args.args, *node.args.kwonlyargs):
            if argument.annotation is not None:
                check_type(argument.annotation, self._declared)
        for default in (*node.args.defaults, *(default for default in node.args.kw_defaults if default is not None)):
            check_constant(default)
        if node.returns is not None:
            check_type(node.returns, self._declared)
        self._statements(node.body)

    def _is_function(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Attribute) and dotted(value) in self._declared.names

    def _statements(self, nodes: Iterable[ast.stmt]) -> None:
        for node in nodes:
            if isinstance(node, ast.If | ast.While):
                self._value(node.test)
                self._statements([*node.body, *node.orelse])
            elif isinstance(node, ast.For):
                self._target(node.target)
                self._value(node.iter)
                self._statements([*node.body, *node.orelse])
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                self._assignment(node)
            elif isinstance(node, ast.Return | ast.Expr):
                if node.value is not None:
                    self._value(node.value)
            elif not isinstance(node, ast.Pass | ast.Break | ast.Continue):
                raise Refused(node, f"{type(node).__name__} in a function")

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self._target(target)
        if isinstance(node, ast.AnnAssign):
            check_type(node.annotation, self._declared)
        if node.value is not None and not self._is_function(node.value):
            self._value(node.value)

    def _target(self, node: ast.expr) -> None:
        """What is assigned to: names, fields and parts of values."""
        if isinstance(node, ast.Tuple | ast.List):
            for part in node.elts:
                self._target(part)
        elif isinstance(node, ast.Attribute):
            self._field(node, node.value, node.attr)
        elif isinstance(node, ast.Subscript):
            self._value(node.value)
            self._value(node.slice)
        elif not isinstance(node, ast.Name):
            raise Refused(node, f"an assignment to {type(node).__name__}")

    def _value(self, node: ast.expr) -> None:
        if isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.Attribute):
            name = dotted(node)
            root, _, rest = name.partition(".")
            if root == "CONSTANTS":
                if not NUMBERED.fullmatch(rest):
                    raise Refused(node, shortened(name))
            elif name in self._declared.names:
                raise Refused(node, f"the function or class {shortened(name)} as a value")
            elif name.rpartition(".")[0] not in self._declared.names or node.attr not in self._declared.fields:
                self._field(node, node.value, node.attr)
        elif isinstance(node, ast.Name):
            if node.id not in self._values:
                raise Refused(node, f"the name {shortened(node.id)}")
        elif not isinstance(node, ast.Constant):
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    self._value(part)

    def _field(self, node: ast.expr, of: ast.expr, name: str) -> None:
        self._value(of)
        if name not in self._declared.fields and name not in PROPERTIES:
            raise Refused(node, f"the attribute {shortened(name)}")

    def _call(self, node: ast.Call) -> None:
        typed = 0
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            return self._getattr(node)
        if isinstance(node.func, ast.Name):
            typed = self._named_call(node, node.func.id)
        elif isinstance(node.func, ast.Attribute):
            self._dotted_call(node.func)
        else:
            raise Refused(node, "a call of what an expression gives")
        for index, argument in enumerate(node.args):
            if index == typed - 1:
                check_type(argument, self._declared)
            else:
                self._value(argument)
        for keyword in node.keywords:
            if keyword.arg is None:
                raise Refused(node, "arguments from a dictionary")
            self._value(keyword.value)

    def _named_call(self, node: ast.Call, name: str) -> int:
        """Which argument is a type, counted from 1; 0 for none."""
        if name not in BUILTINS and name not in self._functions:
            raise Refused(node, f"a call of {shortened(name)}")
        return 1 if name in TYPED_FIRST else 2 if name == "isinstance" else 0

    def _getattr(self, node: ast.Call) -> None:
        """`getattr(self, "0")`, which is how a field is written whose name is a number."""
        literal = node.args[1].value if len(node.args) == 2 and isinstance(node.args[1], ast.Constant) else None
        if not isinstance(literal, str) or node.keywords:
            raise Refused(node, "getattr of anything but a name")
        self._field(node, node.args[0], literal)

    def _dotted_call(self, called: ast.Attribute) -> None:
        name = dotted(called)
        parts = name.split(".")
        if parts[0] in NAMESPACES:
            listed = (
                (parts[0] == "torch" and len(parts) == 2 and parts[1] in ATEN)
                or (parts[:2] == ["ops", "aten"] and len(parts) == 3 and parts[2] in ATEN)
                or (parts[:2] == ["ops", "prim"] and len(parts) == 3 and parts[2] in PRIM)
                or name in self._declared.names
            )
            if not listed:
                raise Refused(called, f"the operation {shortened(name)}, which is not listed as arithmetic")
            return
        self._value(called.value)
        # A method of the archive's own, unless torch has an operator of that name: which one is meant depends on types.
        is_own_method = called.attr in self._declared.methods and not _is_operator(called.attr)
        if called.attr not in ATEN and not is_own_method:
            raise Refused(called, f"the method {shortened(called.attr)}, which is not listed as arithmetic")


def _is_operator(name: str) -> bool:
    return bool(torch._C._jit_get_schemas_for_operator(f"aten::{name}")) or bool(
        torch._C._jit_get_schemas_for_operator(f"prim::{name}")
    )


def _assignments(node: ast.FunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Names that get a value in a function, with the value where it is one expression for one name."""
    for argument in (*node.args.args, *node.args.kwonlyargs):
        yield argument.arg, None
    alone: set[int] = set()
    for part in ast.walk(node):  # a statement comes before its parts
        if isinstance(part, ast.FunctionDef) and part is not node:
            raise Refused(part, "a function in a function")
        if isinstance(part, ast.Assign) and len(part.targets) == 1 and isinstance(part.targets[0], ast.Name):
            alone.add(id(part.targets[0]))
            yield part.targets[0].id, part.value
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and id(part) not in alone:
            yield part.id, None
