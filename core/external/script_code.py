"""The code of a TorchScript program, read by a parser: arithmetic that is listed, and the program's own classes.

TorchScript is written in Python's syntax. What is allowed is a list: of kinds of syntax, of torch's operators
(`core.external.operators`), and of the functions, classes, fields and methods that the archive defines. A name is
looked at as the parser decoded it. torch is then given the text that the checked tree is written as, not the file's, so
that comments, escapes and line ends cannot mean something else to torch's own parser.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.script_body import Body
from smoothsweep.core.external.script_names import BASES, CLASS_VALUES, Declared, Refused, check_constant, check_type
from smoothsweep.core.text import shortened

MOST_TEXT = 8 * 2**20
"""Bytes of all code together. ResNet-152 has 300 kB; a tree takes a hundred times its text."""

_TEXT = "__text_"  # of names that stand for texts while a tree is written
_PLAIN = re.compile(r"[\x20-\x7e\n]*")  # other characters are written as escapes by torch
_SYNTAX = (
    ast.Module,
    ast.ClassDef,
    ast.FunctionDef,
    ast.arguments,
    ast.arg,
    ast.Return,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.For,
    ast.While,
    ast.If,
    ast.Expr,
    ast.Pass,
    ast.Break,
    ast.Continue,
    ast.BoolOp,
    ast.BinOp,
    ast.UnaryOp,
    ast.IfExp,
    ast.Dict,
    ast.Compare,
    ast.Call,
    ast.keyword,
    ast.Constant,
    ast.Attribute,
    ast.Subscript,
    ast.Name,
    ast.List,
    ast.Tuple,
    ast.expr_context,
    ast.boolop,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
    ast.Import,
    ast.alias,
)


def checked_code(files: Mapping[str, bytes], where: str) -> dict[str, bytes]:
    """Rewrite files from their parsed form. files: "code/__torch__/a/b.py" -> text.

    Raises InputError, one line, for whatever is not listed.
    """
    if sum(map(len, files.values())) > MOST_TEXT:
        raise InputError(f"{where}: expected code of at most {MOST_TEXT} bytes, got more")
    trees = {name: _parsed(content, f"{where}: {name}") for name, content in files.items()}
    declared = Declared()
    for name, tree in trees.items():
        _declare(tree, name.removeprefix("code/").removesuffix(".py").replace("/", "."), declared)
    written = {}
    for name, tree in trees.items():
        try:
            for statement in tree.body:
                _check_top(statement, declared)
            written[name] = _written(tree).encode("ascii") + b"\n"
        except Refused as refused:
            line = getattr(refused.node, "lineno", 0)
            raise InputError(f"{where}: {name}, line {line}: expected a program that computes, got {refused}") from None
        except RecursionError:
            raise InputError(f"{where}: {name}: expected code, got some that is nested too deeply") from None
    return written


def _parsed(content: bytes, where: str) -> ast.Module:
    try:
        text = content.decode("ascii")
        if not _PLAIN.fullmatch(text) or _TEXT in text:
            raise ValueError("a control character, or a name that begins with __text_")
        tree = ast.parse(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise InputError(f"{where}: expected TorchScript, got {shortened(str(error) or 'too much nesting')}") from None
    for node in ast.walk(tree):
        constant = isinstance(node, ast.Constant)
        wide = constant and isinstance(node.value, str) and any(ord(value) > 255 for value in node.value)
        other = wide or (constant and isinstance(node.value, bytes | type(...)))
        if not isinstance(node, _SYNTAX) or other:
            raise InputError(
                f"{where}, line {getattr(node, 'lineno', 0)}: expected a program that computes, got "
                f"the Python syntax {type(node).__name__}"
            )
    return tree


class _Texts(ast.NodeTransformer):
    """Puts a name in the place of each text."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """Called by the walk."""
        if not isinstance(node.value, str):
            return node
        self.found.append(node.value)
        return ast.Name(f"{_TEXT}{len(self.found) - 1}__", ast.Load())


def _written(tree: ast.Module) -> str:
    """The tree as text, whose texts are written as torch's parser reads them: with octal escapes, and no others."""
    texts = _Texts()
    plain = ast.unparse(texts.visit(tree))
    return re.sub(rf"{_TEXT}(\d+)__", lambda match: _quoted(texts.found[int(match[1])]), plain)


def _quoted(text: str) -> str:
    plain = (
        character if " " <= character <= "~" and character not in '"\\' else f"\\{ord(character):03o}"
        for character in text
    )
    return '"' + "".join(plain) + '"'


def _declare(tree: ast.Module, module: str, declared: Declared) -> None:
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
        elif isinstance(target, ast.Name) and target.id not in CLASS_VALUES:
            yield target.id


def _check_top(node: ast.stmt, declared: Declared) -> None:
    if isinstance(node, ast.Import):
        if not all(alias.name.split(".")[0] == "__torch__" and alias.asname is None for alias in node.names):
            raise Refused(node, "an import")
    elif isinstance(node, ast.FunctionDef):
        Body(node, declared).check()
    elif isinstance(node, ast.ClassDef):
        _check_class(node, declared)
    else:
        raise Refused(node, f"{type(node).__name__} outside of functions and classes")


def _check_class(node: ast.ClassDef, declared: Declared) -> None:
    bases = all(isinstance(base, ast.Name) and base.id in BASES for base in node.bases)
    if not bases or node.keywords or node.decorator_list:
        raise Refused(node, f"the class {shortened(node.name)} with unusual bases or decorators")
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            Body(item, declared).check()
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            check_type(item.annotation, declared)
            check_constant(item.value)
        elif isinstance(item, ast.Assign) and len(item.targets) == 1:
            _check_class_value(item.targets[0], item.value, declared)
        elif not isinstance(item, ast.Pass):
            raise Refused(item, f"{type(item).__name__} in a class")


def _check_class_value(target: ast.expr, value: ast.expr, declared: Declared) -> None:
    if isinstance(target, ast.Subscript):
        name = target.value.id if isinstance(target.value, ast.Name) else ""
        if name != "__annotations__" or not isinstance(target.slice, ast.Constant):
            raise Refused(target, "an assignment to a part of something in a class")
        check_type(value, declared)
    elif isinstance(target, ast.Name):
        check_constant(value)
    else:
        raise Refused(target, "an unusual assignment in a class")
