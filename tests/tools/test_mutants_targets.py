"""Every module that is mutated has tests to ask, and they are there: a renamed one must not be left out in silence."""

import ast

import pytest

from tools.mutants.__main__ import again
from tools.mutants.targets import BESIDE, LEFT_OUT, NAMED, ROOMS, TESTS, Target, targets

ASKED = sorted({test for tests in (*TESTS.values(), *BESIDE.values()) for test in tests})


@pytest.mark.parametrize("test", ASKED)
def test_every_test_that_is_named_is_there(repository, test):
    path, _, function = test.partition("::")
    assert (repository / path).exists()
    if function:
        assert function in {
            node.name for node in ast.parse((repository / path).read_text()).body if isinstance(node, ast.FunctionDef)
        }


def test_every_module_that_is_named_is_there(repository):
    named = [*TESTS, *BESIDE, *LEFT_OUT, *(f"{room}/{name}.py" for room, names in NAMED.items() for name in names)]
    assert not [name for name in named if not (repository / name).exists()]


def test_every_module_of_a_room_is_mutated_once_and_has_tests(repository):
    found = list(targets(repository))
    modules = [target.module for target in found]
    assert len(set(modules)) == len(modules) > 100 and {target.room for target in found} == set(ROOMS)
    assert all(target.tests for target in found)
    for room in set(ROOMS) - set(NAMED):
        here = {path.relative_to(repository).as_posix() for path in (repository / room).rglob("*.py")}
        missing = here - set(modules) - set(LEFT_OUT)
        assert all(name.endswith("/__init__.py") for name in missing)
    for target in found:
        own = f"tests/{target.module.rpartition('/')[0]}/test_{target.module.rpartition('/')[2]}"
        assert own in target.tests or not (repository / own).exists()
    for room, names in NAMED.items():
        assert {target.module for target in found if target.room == room} == {f"{room}/{name}.py" for name in names}


def test_the_rooms_that_judge_and_read_are_sampled(repository):
    """What says how much leaks, and what reads files of others, are rooms of their own: an even sample reaches them."""
    rooms = {target.module: target.room for target in targets(repository)}
    rooms_of_their_own = "core/audit core/metrics core/pickles core/external core/isolation core/readers"
    rooms_of_their_own += " core/membership orchestrator/reading orchestrator/commands/batch"
    for room in rooms_of_their_own.split():
        assert room in ROOMS and sum(found == room for found in rooms.values()) >= 5
    assert rooms["orchestrator/reading/numbers/evidence.py"] == "orchestrator/reading"
    assert rooms["orchestrator/stages/graph.py"] == rooms["orchestrator/scheduling/finite.py"] == "orchestrator"
    assert rooms["core/judges/verification.py"] == "core/judges"
    assert rooms["orchestrator/store/linked.py"] == "orchestrator"
    assert rooms["core/same_code.py"] == "core" and rooms["tasks/planned_files.py"] == "tasks"


def test_of_a_module_without_a_test_of_its_name_those_that_import_it_are_asked_first(repository):
    asked = {target.module: target.tests for target in targets(repository)}
    for module, test in (("surrogate/parts", "surrogate/test_surrogate"), ("ppa/selection", "ppa/test_adaptive")):
        assert f"core/attacks/{module}.py" not in TESTS
        assert asked[f"core/attacks/{module}.py"][0] == f"tests/core/attacks/{test}.py"


def test_faults_that_nobody_noticed_are_asked_about_again_where_they_were(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "twice.py").write_text("def f(a):\n    return a + 1\n\n\ndef g(a):\n    return a + 1\n")
    target = Target(room="core/metrics", module="core/twice.py", tests=("tests/t.py",))
    survivors = [{"module": "core/twice.py", "line": line, "before": "a + 1", "after": "a - 1"} for line in (1, 7)]
    gone = {"module": "core/twice.py", "line": 1, "before": "b + 1", "after": "b - 1"}
    drawn = again(tmp_path, [target], [*survivors, gone])
    assert [place.line for _, place in drawn] == [2, 6]
    assert "return a + 1\n\n\ndef g(a):\n    return a - 1" in drawn[1][1].mutant().source
