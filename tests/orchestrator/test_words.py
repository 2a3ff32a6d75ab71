"""Words of verdicts that were given up do not come back: one word per recipe needs one vocabulary."""

import ast
import re

import pytest

GIVEN_UP = re.compile(
    r"cannot tell|cannot be told|can be told|(?<!\w)told (apart|from)|tells nothing|\bremoves\b|removes? (and|or) hides"
    r"|too small to tell|clear difference|difference is clear|leaks? clearly|clearly (leak|less|more)|one seed tells"
)
SHOWN = ("orchestrator", "core/audit", "core/metrics", "smoothsweep/library.py", "smoothsweep/progress.py")
PEOPLE_ANSWER = "study.html"  # a person who is asked may say: I cannot tell


def modules(repository):
    places = [repository / name for name in SHOWN]
    return sorted(path for place in places for path in ([place] if place.is_file() else place.rglob("*.py")))


def said(tree):
    """String constants of a module, its docstrings and other bare strings left out."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare
    ]


def test_no_string_of_the_product_has_a_word_that_was_given_up(repository):
    found = {
        f"{path.relative_to(repository)}: {text}"
        for path in modules(repository)
        for text in said(ast.parse(path.read_text(encoding="utf-8")))
        if GIVEN_UP.search(" ".join(text.split()))
    }
    assert not found


def test_no_template_has_one_either(repository):
    templates = sorted((repository / "orchestrator" / "page" / "templates").rglob("*.html"))
    assert len(templates) > 15
    found = {
        f"{path.name}: {match.group()}"
        for path in templates
        if path.name != PEOPLE_ANSWER and (match := GIVEN_UP.search(" ".join(path.read_text(encoding="utf-8").split())))
    }
    assert not found


@pytest.mark.parametrize("text", ["n too small to tell", "alpha 0.1 removes and hides", "cannot be told from chance"])
def test_the_words_looked_for_are_found(text):
    assert GIVEN_UP.search(text)
    assert said(ast.parse(f'"a docstring: cannot tell"\nx = f"{{y}} {text}"')) == [f" {text}"]
