"""The code of a TorchScript program, read by a parser: arithmetic that is listed, and the program's own classes.

TorchScript is written in Python's syntax. What is allowed is a list: of kinds of syntax, of torch's operators
(`core.outside.operators`), and of the functions, classes, fields and methods that the archive itself defines. A name is
looked at as the parser decoded it. torch is then given the text that the checked tree is written as, not the file's, so
that comments, escapes and line ends cannot mean something else to torch's own parser.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from core.errors import InputError
from core.outside.operators import ATEN, PRIM
from core.words import brief

MOST_TEXT = 8 * 2**20
"""Bytes of all code together. ResNet-152 has 300 kB; a tree takes a hundred times its text."""

_PLAIN = re.compile(r"[\x20-\x7e\n]*")  # other characters are written as escapes by torch
_NUMBERED = re.compile(r"c\d+")
_BUILTINS = frozenset(
    "int float bool str complex range annotate unchecked_cast uninitialized isinstance print len min max abs".split()
)
_TYPED_FIRST = frozenset(("annotate", "unchecked_cast", "uninitialized"))
_VALUES = frozenset(("inf", "nan", "infj", "nanj"))
_PROPERTIES = frozenset("dtype device shape layout requires_grad is_cuda T mT H ndim data itemsize names".split())
_NAMESPACES = frozenset(("torch", "ops", "__torch__", "CONSTANTS"))
_TYPES = frozenset(
    "Tensor Optional List Tuple Dict Final NoneType Any int float bool str complex number Device Scalar Layout "
    "ScalarType None Union Stream".split()
)
_BASES = frozenset(("Module", "NamedTuple", "Interface", "ModuleInterface", "Enum"))
_CLASS_VALUES = frozenset(
    ("__parameters__", "__buffers__", "__annotations__", "__forward_hooks__", "__forward_pre_hooks__")
)
_SYNTAX = (
    ast.Module, ast.ClassDef, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AnnAssign,
    ast.AugAssign, ast.For, ast.While, ast.If, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.BoolOp, ast.BinOp,
    ast.UnaryOp, ast.IfExp, ast.Dict, ast.Compare, ast.Call, ast.keyword, ast.Constant, ast.Attribute, ast.Subscript,
    ast.Name, ast.List, ast.Tuple, ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.Import,
    ast.alias,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Declared:
    """What the archive itself defines: full names of functions and classes; fields and methods of all its classes."""

    names: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    methods: set[str] = field(default_factory=set)


class _Refused(ValueError):
    """`node`: where it is; the message: what was got."""

    def __init__(self, node: ast.AST, got: str) -> None:
        super().__init__(got)
        self.node = node


def checked_code(files: Mapping[str, bytes], where: str) -> dict[str, bytes]:
    """The same files, written anew from what was understood. files: "code/__torch__/a/b.py" -> text.

    Raises InputError, one line, for whatever is not listed.
    """
    if sum(map(len, files.values())) > MOST_TEXT:
        raise InputError(f"{where}: expected code of at most {MOST_TEXT} bytes, got more")
    trees = {name: _parsed(content, f"{where}: {name}") for name, content in files.items()}
    declared = _Declared()
    for name, tree in trees.items():
        _declare(tree, name.removeprefix("code/").removesuffix(".py").replace("/", "."), declared)
    written = {}
    for name, tree in trees.items():
        try:
            for statement in tree.body:
                _check_top(statement, declared)
            written[name] = ast.unparse(tree).encode("latin-1", "backslashreplace") + b"\n"
        except _Refused as refused:
            line = getattr(refused.node, "lineno", 0)
            raise InputError(f"{where}: {name}, line {line}: expected a program that computes, got {refused}") from None
        except RecursionError:
            raise InputError(f"{where}: {name}: expected code, got some that is nested too deeply") from None
    return written


def _parsed(content: bytes, where: str) -> ast.Module:
    try:
        text = content.decode("ascii")
        if not _PLAIN.fullmatch(text):
            raise ValueError("a control character")
        tree = ast.parse(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise InputError(f"{where}: expected TorchScript, got {brief(str(error) or 'too much nesting')}") from None
    for node in ast.walk(tree):
        constant = isinstance(node, ast.Constant)
        if not isinstance(node, _SYNTAX) or (constant and isinstance(node.value, bytes | type(...))):
            raise InputError(f"{where}, line {getattr(node, 'lineno', 0)}: expected a program that computes, got "
                             f"the Python syntax {type(node).__name__}")  # fmt: skip
    return tree


def _declare(tree: ast.Module, module: str, declared: _Declared) -> None:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            declared.names.add(f"{module}.{node.name}")
        for item in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(item, ast.FunctionDef):
                declared.methods.add(item.name)
            elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                declared.fields.add(item.target.id)
            elif isinstance(item, ast.Assign):
                declared.fields.update(_field_names(item))


def _field_names(item: ast.Assign) -> Iterator[str]:
    """`__annotations__["0"] = ...` declares a field that is no identifier; `RED = 1` a value of an Enum."""
    for target in item.targets:
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            yield str(target.slice.value)
        elif isinstance(target, ast.Name) and target.id not in _CLASS_VALUES:
            yield target.id


def _check_top(node: ast.stmt, declared: _Declared) -> None:
    if isinstance(node, ast.Import):
        if not all(alias.name.split(".")[0] == "__torch__" and alias.asname is None for alias in node.names):
            raise _Refused(node, "an import")
    elif isinstance(node, ast.FunctionDef):
        _Body(node, declared).check()
    elif isinstance(node, ast.ClassDef):
        _check_class(node, declared)
    else:
        raise _Refused(node, f"{type(node).__name__} outside of functions and classes")


def _check_class(node: ast.ClassDef, declared: _Declared) -> None:
    bases = all(isinstance(base, ast.Name) and base.id in _BASES for base in node.bases)
    if not bases or node.keywords or node.decorator_list:
        raise _Refused(node, f"the class {brief(node.name)} with unusual bases or decorators")
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            _Body(item, declared).check()
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            _check_type(item.annotation, declared)
            _check_constant(item.value)
        elif isinstance(item, ast.Assign) and len(item.targets) == 1:
            _check_class_value(item.targets[0], item.value, declared)
        elif not isinstance(item, ast.Pass):
            raise _Refused(item, f"{type(item).__name__} in a class")


def _check_class_value(target: ast.expr, value: ast.expr, declared: _Declared) -> None:
    if isinstance(target, ast.Subscript):
        name = target.value.id if isinstance(target.value, ast.Name) else ""
        if name != "__annotations__" or not isinstance(target.slice, ast.Constant):
            raise _Refused(target, "an assignment to a part of something in a class")
        _check_type(value, declared)
    elif isinstance(target, ast.Name):
        _check_constant(value)
    else:
        raise _Refused(target, "an unusual assignment in a class")


def _check_constant(node: ast.expr | None) -> None:
    """Numbers, texts and containers of them."""
    for part in ast.walk(node) if node is not None else ():
        plain = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.UnaryOp, ast.unaryop, ast.expr_context)
        if not isinstance(part, plain) and not (isinstance(part, ast.Name) and part.id in _VALUES):
            raise _Refused(part, f"{type(part).__name__} as a constant")


def _check_type(node: ast.expr, declared: _Declared) -> None:
    """A type: torch's own by name, containers of types, and the archive's classes."""
    if isinstance(node, ast.Attribute):
        name = _dotted(node)
        if name not in declared.names:
            raise _Refused(node, f"the type {brief(name or 'of an expression')}")
    elif isinstance(node, ast.Subscript):
        _check_type(node.value, declared)
        _check_type(node.slice, declared)
    elif isinstance(node, ast.Tuple | ast.List):
        for part in node.elts:
            _check_type(part, declared)
    elif isinstance(node, ast.Name):
        if node.id not in _TYPES:
            raise _Refused(node, f"the type {brief(node.id)}")
    elif not (isinstance(node, ast.Constant) and node.value is None):
        raise _Refused(node, f"{type(node).__name__} as a type")


def _dotted(node: ast.expr) -> str:
    """'torch.add' of an attribute of a name; '' of what is none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


class _Body:
    """One function. A name in it stands for a value, or for one of the archive's functions, never for another thing."""

    def __init__(self, node: ast.FunctionDef, declared: _Declared) -> None:
        self._node, self._declared = node, declared
        assigned = list(_assignments(node))
        self._functions = {name for name, value in assigned if value is not None and self._is_function(value)}
        others = {name for name, value in assigned if value is None or not self._is_function(value)}
        both = self._functions & others
        taken = (others | self._functions) & (_NAMESPACES | _BUILTINS | {"getattr"})
        if both or taken:
            raise _Refused(node, f"another meaning for the name {brief(min(both | taken))}")
        self._values = others | _VALUES

    def check(self) -> None:
        """Raises _Refused."""
        node = self._node
        if node.decorator_list or node.args.vararg or node.args.kwarg or node.args.posonlyargs:
            raise _Refused(node, "a function with decorators or unusual arguments")
        for argument in (*node.args.args, *node.args.kwonlyargs):
            if argument.annotation is not None:
                _check_type(argument.annotation, self._declared)
        for default in (*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)):
            _check_constant(default)
        if node.returns is not None:
            _check_type(node.returns, self._declared)
        self._statements(node.body)

    def _is_function(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Attribute) and _dotted(value) in self._declared.names

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
                raise _Refused(node, f"{type(node).__name__} in a function")

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self._target(target)
        if isinstance(node, ast.AnnAssign):
            _check_type(node.annotation, self._declared)
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
            raise _Refused(node, f"an assignment to {type(node).__name__}")

    def _value(self, node: ast.expr) -> None:
        if isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.Attribute):
            name = _dotted(node)
            root, _, rest = name.partition(".")
            if root == "CONSTANTS":
                if not _NUMBERED.fullmatch(rest):
                    raise _Refused(node, brief(name))
            elif name in self._declared.names:
                raise _Refused(node, f"the function or class {brief(name)} as a value")
            elif name.rpartition(".")[0] not in self._declared.names or node.attr not in self._declared.fields:
                self._field(node, node.value, node.attr)
        elif isinstance(node, ast.Name):
            if node.id not in self._values:
                raise _Refused(node, f"the name {brief(node.id)}")
        elif not isinstance(node, ast.Constant):
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    self._value(part)

    def _field(self, node: ast.expr, of: ast.expr, name: str) -> None:
        self._value(of)
        if name not in self._declared.fields and name not in _PROPERTIES:
            raise _Refused(node, f"the attribute {brief(name)}")

    def _call(self, node: ast.Call) -> None:
        typed = 0
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            return self._getattr(node)
        if isinstance(node.func, ast.Name):
            typed = self._named_call(node, node.func.id)
        elif isinstance(node.func, ast.Attribute):
            self._dotted_call(node.func)
        else:
            raise _Refused(node, "a call of what an expression gives")
        for index, argument in enumerate(node.args):
            if index == typed - 1:
                _check_type(argument, self._declared)
            else:
                self._value(argument)
        for keyword in node.keywords:
            if keyword.arg is None:
                raise _Refused(node, "arguments from a dictionary")
            self._value(keyword.value)

    def _named_call(self, node: ast.Call, name: str) -> int:
        """Which argument is a type, counted from 1; 0 for none."""
        if name not in _BUILTINS and name not in self._functions:
            raise _Refused(node, f"a call of {brief(name)}")
        return 1 if name in _TYPED_FIRST else 2 if name == "isinstance" else 0

    def _getattr(self, node: ast.Call) -> None:
        """`getattr(self, "0")`, which is how a field is written whose name is a number."""
        literal = node.args[1].value if len(node.args) == 2 and isinstance(node.args[1], ast.Constant) else None
        if not isinstance(literal, str) or node.keywords:
            raise _Refused(node, "getattr of anything but a name")
        self._field(node, node.args[0], literal)

    def _dotted_call(self, called: ast.Attribute) -> None:
        name = _dotted(called)
        parts = name.split(".")
        if parts[0] in _NAMESPACES:
            listed = (
                (parts[0] == "torch" and len(parts) == 2 and parts[1] in ATEN)
                or (parts[:2] == ["ops", "aten"] and len(parts) == 3 and parts[2] in ATEN)
                or (parts[:2] == ["ops", "prim"] and len(parts) == 3 and parts[2] in PRIM)
                or name in self._declared.names
            )
            if not listed:
                raise _Refused(called, f"the operation {brief(name)}, which is not listed as arithmetic")
            return
        self._value(called.value)
        # A method of the archive's own, unless torch has an operator of that name: which one is meant depends on types.
        own = called.attr in self._declared.methods and not _is_operator(called.attr)
        if called.attr not in ATEN and not own:
            raise _Refused(called, f"the method {brief(called.attr)}, which is not listed as arithmetic")


def _is_operator(name: str) -> bool:
    import torch

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
            raise _Refused(part, "a function in a function")
        if isinstance(part, ast.Assign) and len(part.targets) == 1 and isinstance(part.targets[0], ast.Name):
            alone.add(id(part.targets[0]))
            yield part.targets[0].id, part.value
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and id(part) not in alone:
            yield part.id, None
