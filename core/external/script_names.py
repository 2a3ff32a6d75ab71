"""What a name in TorchScript may stand for: types, torch's own words, and what the archive defines."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from smoothsweep.core.text import shortened


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NUMBERED = re.compile(r"c\d+")
BUILTINS = _words("""
int float bool str complex range annotate unchecked_cast uninitialized isinstance print len min max abs
""")
TYPED_FIRST = frozenset(("annotate", "unchecked_cast", "uninitialized"))
VALUES = frozenset(("inf", "nan", "infj", "nanj"))
PROPERTIES = _words("dtype device shape layout requires_grad is_cuda T mT H ndim data itemsize names")
NAMESPACES = frozenset(("torch", "ops", "__torch__", "CONSTANTS"))
TYPES = _words("""
Tensor Optional List Tuple Dict Final NoneType Any int float bool str complex number Device Scalar Layout ScalarType
None Union Stream
""")
BASES = frozenset(("Module", "NamedTuple", "Interface", "ModuleInterface", "Enum"))
CLASS_VALUES = frozenset(
    ("__parameters__", "__buffers__", "__annotations__", "__forward_hooks__", "__forward_pre_hooks__")
)


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What the archive itself defines: full names of functions and classes; fields and methods of all its classes."""

    names: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    methods: set[str] = field(default_factory=set)


class Refused(ValueError):
    """`node`: where it is; the message: what was got."""

    def __init__(self, node: ast.AST, got: str) -> None:
        super().__init__(got)
        self.node = node


def check_constant(node: ast.expr | None) -> None:
    """Numbers, texts and containers of them."""
    for part in ast.walk(node) if node is not None else ():
        plain = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.UnaryOp, ast.unaryop, ast.expr_context)
        if not isinstance(part, plain) and not (isinstance(part, ast.Name) and part.id in VALUES):
            raise Refused(part, f"{type(part).__name__} as a constant")


def check_type(node: ast.expr, declared: Declared) -> None:
    """A type: torch's own by name, containers of types, and the archive's classes."""
    if isinstance(node, ast.Attribute):
        name = dotted(node)
        if name not in declared.names:
            raise Refused(node, f"the type {shortened(name or 'of an expression')}")
    elif isinstance(node, ast.Subscript):
        check_type(node.value, declared)
        check_type(node.slice, declared)
    elif isinstance(node, ast.Tuple | ast.List):
        for part in node.elts:
            check_type(part, declared)
    elif isinstance(node, ast.Name):
        if node.id not in TYPES:
            raise Refused(node, f"the type {shortened(node.id)}")
    elif not (isinstance(node, ast.Constant) and node.value is None):
        raise Refused(node, f"{type(node).__name__} as a type")


def dotted(node: ast.expr) -> str:
    """'torch.add' of an attribute of a name; '' of what is none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
