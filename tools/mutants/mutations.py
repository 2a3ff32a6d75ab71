"""The faults: mutmut's operators on the syntax tree of a module, each as a whole changed source.

Left out are faults that no test of ours could or should notice: type annotations, doc strings, decorators, what names
a module exports, and the words of an error (that one is raised, and of which kind, is not left out).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import deep_replace
from mutmut.mutation.mutators import mutation_operators


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One fault. module: path from the root; line: where it begins; statement: first and last line of the statement
    that it is in, or of its head; before, after: the code in question in one line."""

    module: str
    line: int
    statement: tuple[int, int]
    before: str
    after: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a fault can be put; the changed source, which costs a copy of the module's tree, is made when asked for."""

    module: str
    line: int
    statement: tuple[int, int]
    tree: cst.Module
    original: cst.CSTNode
    changed: cst.CSTNode

    def mutant(self) -> Mutant:
        return Mutant(
            module=self.module,
            line=self.line,
            statement=self.statement,
            before=_words(self.tree, self.original),
            after=_words(self.tree, self.changed),
            source=deep_replace(self.tree, self.original, self.changed).code,
        )


def places_of(root: Path, module: str) -> list[Place]:
    """Every fault that the operators know for a module, in the order of its lines."""
    wrapper = MetadataWrapper(cst.parse_module((root / module).read_text()))
    finder = _Finder()
    wrapper.visit(finder)
    return [
        Place(module=module, line=line, statement=statement, tree=wrapper.module, original=original, changed=changed)
        for line, statement, original, changed in finder.found
    ]


class _Finder(cst.CSTVisitor):
    """Collects (line, statement, node, changed node)."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, tuple[int, int], cst.CSTNode, cst.CSTNode]] = []
        self._raising = 0
        self._statements: list[tuple[int, int]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Annotation | cst.Decorator | cst.Import | cst.ImportFrom) or _is_bare_text(node):
            return False
        if isinstance(node, cst.Assign) and any(_is_export(target.target) for target in node.targets):
            return False
        self._raising += isinstance(node, cst.Raise)
        if isinstance(node, cst.BaseStatement):
            self._statements.append(self._lines_of(node))
        statement = self._statements[-1] if self._statements else (1, 1)
        self.found += [(line, statement, node, changed) for line, changed in self._changes(node)]
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        self._raising -= isinstance(original_node, cst.Raise)
        if isinstance(original_node, cst.BaseStatement):
            self._statements.pop()

    def _lines_of(self, node: cst.CSTNode) -> tuple[int, int]:
        """First and last line of a statement; of one with a body, of its head."""
        whole = self.get_metadata(PositionProvider, node)
        body = getattr(node, "body", None)
        last = whole.end.line
        if isinstance(body, cst.IndentedBlock):
            last = max(whole.start.line, self.get_metadata(PositionProvider, body.body[0]).start.line - 1)
        return whole.start.line, last

    def _changes(self, node: cst.CSTNode) -> Iterator[tuple[int, cst.CSTNode]]:
        if self._raising:  # its words, and what is put into them
            return
        line = self.get_metadata(PositionProvider, node, None)
        for kind, operator in mutation_operators:
            if line is not None and isinstance(node, kind):
                for changed in operator(node):
                    yield line.start.line, changed


def _is_bare_text(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString | cst.ConcatenatedString)


def _is_export(target: cst.BaseExpression) -> bool:
    return isinstance(target, cst.Name) and target.value == "__all__"


def _words(tree: cst.Module, node: cst.CSTNode) -> str:
    return " ".join(tree.code_for_node(node).split())
