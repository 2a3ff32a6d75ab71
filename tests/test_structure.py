"""The structure of the house: rooms above one another, no circles, places that one can take in."""

import ast
import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter

import pytest

TOP = ("core", "tasks", "sweeps", "orchestrator")
PACKAGE = "smoothsweep."
ROOMS = (
    "stages",
    "cluster",
    "store",
    "planning",
    "reading",
    "search",
    "page",
    "tracking",
    "scheduling",
    "running",
    "commands",
)
"""Of the orchestrator, each importing from those before it alone; cli.py and __main__.py stand above them all."""

MAP = "docs/architecture.md"
MOST_LINES, MOST_FUNCTION, MOST_FILES = 300, 50, 12  # of a function: after its parameters and its docstring

AROUND_IT = ("tests", "tools", "benchmarks")
"""What is held to the same length of files as the product."""


@pytest.fixture(scope="module")
def trees(repository):
    """Module name -> its syntax tree."""
    found = {}
    for room in TOP:
        for path in sorted((repository / room).rglob("*.py")):
            name = ".".join(path.relative_to(repository).with_suffix("").parts).removesuffix(".__init__")
            found[name] = ast.parse(path.read_text())
    return found


@pytest.fixture(scope="module")
def edges(trees):
    """Module -> the modules it imports, those inside functions included, those for annotations alone left out."""
    found = defaultdict(set)
    for name, tree in trees.items():
        for node in imports_at_run_time(tree):
            if isinstance(node, ast.Import):
                named = [alias.name.removeprefix(PACKAGE) for alias in node.names]
            else:
                base = node.module.removeprefix(PACKAGE)
                inner = [f"{base}.{alias.name}" for alias in node.names]
                named = [module if module in trees else base for module in inner]
            found[name] |= {module for module in named if module in trees and module != name}
    return found


def imports_at_run_time(tree):
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module and not node.level):
            yield node
        pending += ast.iter_child_nodes(node)


def circle(graph):
    """One circle as 'a -> b -> a', or None."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " <- ".join(error.args[1])
    return None


def test_no_circle_between_files(edges):
    assert sum(map(len, edges.values())) > 2000 and circle(edges) is None


def test_no_circle_between_folders(edges, repository):
    """No two folders use each other, also not a folder and one inside it."""

    def folder(module):
        is_package = (repository / module.replace(".", "/")).is_dir()  # its __init__.py lies in it
        return module if is_package else module.rpartition(".")[0]

    graph = defaultdict(set)
    for module, used in edges.items():
        graph[folder(module)] |= {folder(other) for other in used} - {folder(module)}
    assert sum(map(len, graph.values())) > 200 and circle(graph) is None


def test_rooms_of_the_orchestrator_stand_above_one_another(edges):
    wrong = []
    for module, used in edges.items():
        here = module.split(".")
        for there in (other.split(".") for other in used):
            if here[0] == there[0] == "orchestrator" and len(here) > 2 and len(there) > 1:
                assert there[1] in ROOMS, f"{module} imports {'.'.join(there)}, which stands above all rooms"
                if ROOMS.index(there[1]) > ROOMS.index(here[1]):
                    wrong.append(f"{module} imports {'.'.join(there)}")
    assert not wrong


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None and circle({"a": {"b"}, "b": {"c"}}) is None


def body_lines(function):
    """Lines of what a function does."""
    body = function.body[1:] if ast.get_docstring(function) is not None and len(function.body) > 1 else function.body
    return function.end_lineno - body[0].lineno + 1


def test_files_and_functions_can_be_taken_in(repository, trees):
    long = []
    for room in TOP:
        for path in sorted((repository / room).rglob("*.py")):
            lines = len(path.read_text().splitlines())
            if lines > MOST_LINES:
                long.append(f"{path.relative_to(repository)}: {lines} lines")
    for name, tree in trees.items():
        for node in ast.walk(tree):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and (lines := body_lines(node)) > MOST_FUNCTION:
                long.append(f"{name}.{node.name}: {lines} lines")
    assert not long


def test_files_around_the_product_can_be_taken_in_too(repository):
    lines = {
        path.relative_to(repository).as_posix(): len(path.read_text().splitlines())
        for room in AROUND_IT
        for path in (repository / room).rglob("*.py")
    }
    long = [f"{name}: {count} lines" for name, count in lines.items() if count > MOST_LINES]
    assert len(lines) > 500 and not long


def test_no_room_of_the_orchestrator_shows_more_than_a_dozen_files(repository):
    crowded = []
    for place in [repository / "orchestrator", *(repository / "orchestrator").rglob("*/")]:
        files = [path for path in place.glob("*.py") if path.name not in ("__init__.py", "__main__.py")]
        rooms = [path for path in place.iterdir() if (path / "__init__.py").is_file()]
        if len(files) + len(rooms) > MOST_FILES:
            crowded.append(f"{place.relative_to(repository)}: {len(files)} files, {len(rooms)} rooms")
    assert not crowded


def test_every_annotation_is_there(trees):
    bare = []
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                bare += [
                    f"{name}.{node.name}({argument.arg})"
                    for argument in given
                    if argument.annotation is None and argument.arg not in ("self", "cls")
                ]
    assert not bare


def test_every_file_that_the_map_names_is_there(repository):
    text = (repository / MAP).read_text()
    named = set(re.findall(r"`((?:core|tasks|sweeps|orchestrator|tests|docs)/[\w/.]+)`", text))
    assert len(named) > 30 and not [name for name in sorted(named) if not (repository / name).exists()]
    for room in ROOMS:
        assert f"\n  {room}/ " in text, f"{room} is not in the picture"


def test_every_file_that_a_page_names_is_there(repository):
    pages = [
        repository / "README.md",
        *(repository / "docs").glob("*.md"),
        *(repository / "core").rglob("*.md"),
        *(repository / "sweeps").rglob("*.md"),
        *(repository / "deploy").rglob("*.md"),
    ]
    folders = "core|tasks|sweeps|orchestrator|tests|docs|benchmarks|tools"
    place = re.compile(rf"\b((?:{folders})/[\w/.-]+\.(?:py|md|yaml|csv))\b")
    lost = [
        f"{page.name}: {name}"
        for page in pages
        for name in place.findall(page.read_text())
        if not (repository / name).exists()
    ]
    assert len(pages) > 10 and not lost
