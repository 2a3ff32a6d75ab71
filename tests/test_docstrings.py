"""What a class holds, and what a function of many arguments takes, is described a line each."""

import ast
import builtins
import re

import pytest

ROOMS = ("core", "tasks", "sweeps", "orchestrator", "smoothsweep", "examples")  # the last is there to be copied
MOST_RUN_ON = {ast.ClassDef: 1, ast.FunctionDef: 2}
"""How many fields or arguments a docstring may describe one after the other, in a sentence."""


def names_of(node):
    """The fields of a class, the arguments of a function."""
    if isinstance(node, ast.ClassDef):
        return [
            one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        ]
    given = node.args
    return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def run_on(node):
    """The names that the docstring describes as `name: text; name: text`, not a line each."""
    text, names = ast.get_docstring(node) or "", [re.escape(name) for name in names_of(node)]
    if not names or re.search(r"^(Attributes|Args):$", text, re.MULTILINE):
        return []
    one = "|".join(names)
    return re.findall(rf"(?:^|(?<=[.;] ))((?:{one})(?:, (?:{one}))*): ", " ".join(text.split()))


@pytest.mark.parametrize("room", ROOMS)
def test_fields_and_arguments_are_described_a_line_each(repository, room):
    found, looked_at = [], 0
    for path in (repository / room).rglob("*.py"):
        if not path.is_relative_to(repository / "smoothsweep") or path.parent.name == "smoothsweep":
            for node in ast.walk(ast.parse(path.read_text())):
                if type(node) in MOST_RUN_ON:
                    looked_at += 1
                    if len(names := run_on(node)) > MOST_RUN_ON[type(node)]:
                        found.append(f"{path.relative_to(repository)}:{node.lineno} {node.name}: {', '.join(names)}")
    assert looked_at and not found


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('class A:\n    """It.\n\n    a: one; b: two.\n    """\n    a: int\n    b: int', ["a", "b"]),
        (
            'class A:\n    """It.\n\n    Attributes:\n        a: 1.\n        b: 2.\n    """\n    a: int\n    b: int',
            [],
        ),
        ('def f(a, *, b, c):\n    """It. a, b: these. c: that."""', ["a, b", "c"]),
        ('def f(a):\n    """It says: a: no."""', []),
    ],
)
def test_what_runs_on_is_found(code, names):
    assert run_on(ast.parse(code).body[0]) == names


def raised_in(text):
    """The exceptions that docstrings and comments of a file say are raised."""
    return re.findall(r"[Rr]aises ([A-Z]\w+)", text)


def test_what_is_said_to_be_raised_exists(repository):
    texts = [
        path.read_text()
        for room in ROOMS
        for path in (repository / room).rglob("*.py")
        if not path.is_relative_to(repository / "smoothsweep") or path.parent.name == "smoothsweep"
    ]
    classes = {name for text in texts for name in re.findall(r"^ *class (\w+)", text, re.MULTILINE)}
    named = {name for text in texts for name in raised_in(text)}
    imported = {name for text in texts for name in re.findall(r"import .*?\b([A-Z]\w+)", text)}
    assert {"InputError", "ValueError"} <= named
    assert named <= classes | imported | set(dir(builtins))
