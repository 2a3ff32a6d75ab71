"""The kinds of sweep answer the same questions, so that nobody has to ask whether one has an answer."""

import ast

import pytest

from sweeps.any_sweep import AnySweep
from sweeps.schema import SWEEPS

OF_OTHERS = {"problem_mark", "problem", "reason", "CSafeLoader", "__dict__", "cause", "drops_obituaries"}
"""Attributes that objects of other packages, or errors, may have."""


def nodes(repository):
    for room in ("sweeps", "orchestrator"):
        for path in sorted((repository / room).rglob("*.py")):
            yield from ((path.relative_to(repository), node) for node in ast.walk(ast.parse(path.read_text())))


@pytest.mark.parametrize("kind", SWEEPS.values())
def test_every_kind_has_what_is_asked_of_a_sweep(repository, kind):
    asked = {
        node.attr for _, node in nodes(repository)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("loaded.sweep")
    }  # fmt: skip
    assert {"name", "search", "budget", "reaudit", "seeds", "accuracy_needed"} <= asked
    assert issubclass(kind, AnySweep)
    assert not [name for name in sorted(asked) if name not in kind.model_fields and not hasattr(kind, name)]


def test_a_toy_sweep_has_no_search_and_no_constraint():
    toy = SWEEPS["toy"].model_validate({"experiment": "toy", "name": "toy"})
    assert (toy.search, toy.budget, toy.reaudit, toy.accuracy_needed, toy.leak_searched) == (None,) * 5
    assert "search" not in toy.model_dump()


def test_nothing_is_asked_for_by_name_that_may_be_missing(repository):
    """`getattr(settings, "key", None)` reads a misspelt key as none: models say what they have."""
    asked = [
        f"{path}:{node.lineno} {node.args[1].value}" for path, node in nodes(repository)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and len(node.args) == 3
        and isinstance(node.args[1], ast.Constant) and node.args[1].value not in OF_OTHERS
    ]  # fmt: skip
    assert not asked
