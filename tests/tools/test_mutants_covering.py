"""Which tests are asked about a line first: those that execute it, the quick ones before the others; then all."""

from pathlib import Path

import pytest

from tools.mutants.covering import Chosen, Executed, Sorter, choose, digest_of, read_executed, write_executed
from tools.mutants.mutations import places_of
from tools.mutants.running import NOTICED, UNNOTICED, Copy

MODULE = '''"""A module."""

LIMIT = 3


def first(a):
    if a > LIMIT:
        return a + 1
    return a


def second(a):
    return first(
        a
    ) - 2
'''
# A made-up project, which no test runs for its own sake. Two of its tests ask nothing on purpose: they execute no
# line of the module, so that the tool must put them after those that do.
PACKAGE = """from pathlib import Path
__path__ = [str(Path(__file__).parents[1])]
"""
TESTS = """
import pytest
from smoothsweep.core.small import first, second


@pytest.fixture(scope="module")
def made():
    return second(1)


def test_low():
    assert first(1) == 1


def test_high():
    assert first(5) == 6


def test_made(made):
    assert made == -1


def test_beside():
    assert True
"""


@pytest.fixture
def tree(tmp_path):
    for name, text in {
        "core/small.py": MODULE,
        "tests/test_small.py": TESTS,
        "smoothsweep/__init__.py": PACKAGE,
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n",
        "tests/test_other.py": "def test_other():\n    assert True\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def lines_of(text):
    """The number of the line that begins so."""
    return [number for number, line in enumerate(MODULE.splitlines(), 1) if line.strip().startswith(text)]


def names(*tests):
    return {f"tests/test_small.py::{test}" for test in tests}


@pytest.mark.slow
def test_faults_are_asked_of_the_tests_that_execute_their_statement(tree):
    """A fixture that several tests share counts for each of its file's tests: which of them look at it is not known."""
    every = names("test_low", "test_high", "test_made", "test_beside")
    with Copy(tree) as copy:
        answer, found = copy.watch("tests/test_small.py", 60)
        _, other = copy.watch("tests/test_other.py", 60)
        assert answer.said == UNNOTICED and set(found.seconds) == every
        assert found.executing("core/small.py", lines_of("return a + 1")) == names("test_high")
        assert found.executing("core/small.py", lines_of("return first(")) == every
        assert found.executing("core/small.py", lines_of("LIMIT")) == set() and found.is_current(tree)
        executed = {"tests/test_small.py": found, "tests/test_other.py": other}
        said = {}
        for place in places_of(tree, "core/small.py"):
            mutant, (begin, end) = place.mutant(), place.statement
            chosen = choose(executed, executed, "core/small.py", range(begin, end + 1))
            assert set(chosen.seconds) == every | {"tests/test_other.py::test_other"} and len(chosen.tests) == 2
            of_limit = MODULE.splitlines()[begin - 1].startswith("LIMIT")
            if of_limit or (mutant.before, mutant.after) == ("a + 1", "a - 1"):
                said[mutant.before, mutant.after] = copy.ask(mutant.module, mutant.source, chosen, 60).said
            wanted = {"return a + 1": names("test_high"), "LIMIT = 3": set()}
            assert chosen.first == wanted.get(MODULE.splitlines()[begin - 1].strip(), chosen.first)
        assert said["a + 1", "a - 1"] == NOTICED and UNNOTICED in said.values(), "LIMIT may be 4 for all that is tested"
        assert (copy.root / "core/small.py").read_text() == MODULE
    (tree / "core/small.py").write_text(MODULE + "\n")
    assert not found.is_current(tree)


def test_the_span_of_a_statement_is_its_own(tree):
    spans = {place.line: place.statement for place in places_of(tree, "core/small.py")}
    (begin,) = lines_of("return first(")
    assert spans[begin + 2 if begin + 2 in spans else begin] == (begin, begin + 2)
    (head,) = lines_of("if a > LIMIT")
    assert spans[head] == (head, head), "the body of an `if` is a statement of its own"


def executed(**lines):
    """Four tests of .1, 2, .2 and .3 seconds, and the lines that they execute."""
    return Executed(
        seconds={"a::x": 0.1, "a::slow": 2.0, "a::y": 0.2, "a::w": 0.3},
        whole_s=3.0,
        digests={},
        lines={"m.py": {number[1:]: tests for number, tests in lines.items()}},
    )


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        ([3], {"a::slow"}),
        ([3, 4], {"a::x", "a::slow"}),
        ([4], {"a::x"}),
        ([9], set()),
        ([77], set()),
        ([5], {"a::slow", "a::y"}),
    ],
)
def test_who_executes_one_of_the_lines_is_asked_first(lines, first):
    mine = executed(_3=[1], _4=[0], _5=[2, 1], _9=[])
    other = Executed(seconds={"b::z": 1.0}, whole_s=1.0, lines={}, digests={})
    chosen = choose({"a": mine, "b": other, "c": mine}, ["b", "a"], "m.py", lines)
    assert (chosen.tests, chosen.first) == (("b", "a"), first) and set(chosen.seconds) == {*mine.seconds, "b::z"}


class Item:
    def __init__(self, nodeid):
        self.nodeid = nodeid


def test_executing_tests_come_first_and_quick_ones_and_those_of_a_file_stand_together():
    chosen = Chosen(
        tests=("a", "b"),
        first=frozenset(("a::slow", "a::y", "b::z")),
        seconds={"a::slow": 2.0, "a::y": 0.2, "a::x": 0.1, "b::z": 0.3, "b::v": 0.05, "b::long": 1.0},
    )
    items = [Item(name) for name in ("a::slow", "a::x", "b::long", "a::y", "b::z", "b::v", "b::made_by_the_fault")]
    Sorter(chosen).pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == [
        "b::z",
        "a::y",
        "a::slow",
        "b::made_by_the_fault",
        "b::v",
        "a::x",
        "b::long",
    ]


def test_what_was_measured_is_kept_while_its_files_stay(tmp_path):
    (tmp_path / "m.py").write_text("1")
    held = {
        name: Executed(seconds={"t": 1.0}, whole_s=1.0, lines={"m.py": {"1": [0]}}, digests={"m.py": digest})
        for name, digest in (("fresh", digest_of(tmp_path / "m.py")), ("old", "0"))
    }
    held["lost"] = Executed(seconds={}, whole_s=1.0, lines={}, digests={"gone.py": "0"})
    kept = Path(tmp_path / "kept.json")
    assert read_executed(kept, tmp_path) == {}
    write_executed(kept, held)
    assert read_executed(kept, tmp_path) == {"fresh": held["fresh"]}
