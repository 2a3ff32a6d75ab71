"""`make nightly`: every slow test is in one group, and what came of each group is in the table, failures too."""

import re

import pytest

from tools import nightly
from tools.nightly import BEGIN, END, GROUPS, Group, Outcome, arguments_of, counts, run_group, write_row

PAGE = f"# Reliability\n\nBefore.\n\n{BEGIN}\n{END}\n\nAfter.\n"


def outcome(group, **changes):
    usual = {"date": "2031-02-03", "passed": 4, "failed": (), "skipped": 1, "seconds": 125.0, "code": 0}
    return Outcome(group=group, **{**usual, **changes})


@pytest.fixture
def page(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    return tmp_path / "page.md"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Three files of slow tests and one without; the second group fails in two ways, the third is all others."""
    root = tmp_path / "project"
    files = {
        "a/test_one.py": "@slow\ndef test_x(): pass\n@slow\ndef test_y(): pytest.skip('no')\ndef test_quick(): 1 / 0\n",
        "b/test_two.py": "@slow\ndef test_x(): assert 0\n@slow\ndef test_y(nothing): pass\n@slow\ndef test_z(): pass\n",
        "c/test_three.py": "@slow\n@pytest.mark.parametrize('n', [1, 2])\ndef test_x(n): pass\n",
        "d/test_four.py": "def test_quick(): 1 / 0\n",
    }
    for name, text in files.items():
        (root / "tests" / name).parent.mkdir(parents=True)
        (root / "tests" / name).write_text(f"import pytest\nslow = pytest.mark.slow\n{text}")
    (root / "pytest.ini").write_text("[pytest]\nmarkers = slow: s\naddopts = -m 'not slow'\n")
    (root / "docs").mkdir()
    (root / "docs" / "reliability.md").write_text(PAGE)
    groups = (
        Group(name="first", paths=("tests/a/test_*.py",)),
        Group(name="second", paths=("tests/b",)),
        Group(name=nightly.REST, paths=()),
    )
    monkeypatch.setattr(nightly, "GROUPS", groups)
    monkeypatch.setattr(nightly, "ROOT", root)
    return root


def test_a_night_runs_every_group_and_says_what_came_of_each(project, capfd):
    table = project / "docs" / "reliability.md"
    assert nightly.main(["--table", str(table)]) == 1
    before, _, rest = table.read_text().partition(BEGIN)
    assert before == PAGE.partition(BEGIN)[0] and rest.partition(END)[2] == PAGE.partition(END)[2]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in rest.splitlines() if line.startswith("| ")][2:]
    assert [(row[0], row[3], row[4], row[5]) for row in rows] == [
        ("first", "1", "0", "1"),
        ("second", "1", "2", "0"),
        (nightly.REST, "2", "0", "0"),
    ]
    assert rows[0][2] == rows[2][2] == "passed"
    assert rows[1][2].startswith("failed: ") and "test_x" in rows[1][2] and "test_y" in rows[1][2]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", row[1]) for row in rows)


def test_a_night_without_a_failure_ends_with_0_and_keeps_the_rows_of_others(project, capfd):
    table = project / "docs" / "reliability.md"
    write_row(table, outcome("second", failed=("a.b",)))
    assert nightly.main(["--table", str(table), "--only", "first"]) == 0
    text = table.read_text()
    assert "| second | 2031-02-03 | failed: `a.b` |" in text and nightly.REST not in text
    assert text.index("| first |") < text.index("| second |")


def test_a_group_whose_tests_are_gone_is_no_success(project, monkeypatch, capfd):
    empty = run_group(Group(name="x", paths=("tests/d",)), project, project / "t.md")
    assert not empty.fine and "no tests were run" in empty.row
    assert "no tests were run" in outcome("x", passed=0, code=0).row and not outcome("x", passed=0).fine
    assert "pytest ended with 3" in outcome("x", code=3).row and not outcome("x", code=3).fine


def test_no_marks_no_night(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(nightly, "run_group", lambda *_: pytest.fail("nothing may run"))
    (tmp_path / "page.md").write_text("No marks.")
    for path in (tmp_path / "page.md", tmp_path / "none.md"):
        assert nightly.main(["--table", str(path)]) == 2
        assert capsys.readouterr().err.startswith("nightly: ")
    assert (tmp_path / "page.md").read_text() == "No marks."


def test_a_row_takes_the_place_of_its_earlier_one(page):
    for one in (outcome("drills", failed=("x",)), outcome("audit"), outcome("drills", passed=9)):
        write_row(page, one)
    text = page.read_text()
    assert text.count("| drills |") == text.count("| audit |") == 1 and "| drills | 2031-02-03 | passed | 9 |" in text
    assert text.startswith("# Reliability\n\nBefore.\n\n") and text.endswith(f"{END}\n\nAfter.\n")
    assert "2 min" in text


def test_many_failures_are_counted_and_the_first_named():
    row = outcome("x", failed=tuple(f"t{i}" for i in range(14)), code=1).row
    assert "`t9` and 4 more" in row and "`t10`" not in row and "| 14 |" in row


def test_a_report_that_was_never_written_counts_nothing(tmp_path):
    assert counts(tmp_path / "none.xml") == (0, (), 0)


def test_every_slow_test_is_in_exactly_one_group(repository):
    """Of this project: the files of a group are there, and what is in none of them is among the rest."""
    slow = {
        path.relative_to(repository).as_posix()
        for path in (repository / "tests").rglob("test_*.py")
        if "mark.slow" in path.read_text() and "tools" not in path.parts
    }
    named = {group.name: arguments_of(group, repository) for group in GROUPS}
    covered = {
        name: sum(
            name == one or name.startswith(f"{one}/") for group in GROUPS if group.paths for one in named[group.name]
        )
        for name in slow
    }
    assert set(covered.values()) == {0, 1}
    rest = named[nightly.REST]
    ignored = [one.removeprefix("--ignore=") for one in rest if one.startswith("--ignore=")]
    for name, times in covered.items():
        left_out = any(name == one or name.startswith(f"{one}/") for one in ignored)
        assert left_out == (times == 1), name
    for group in GROUPS:
        if group.paths:
            assert any(name == one or name.startswith(f"{one}/") for name in slow for one in named[group.name])


def test_make_runs_it(repository):
    text = (repository / "Makefile").read_text()
    assert "nightly" in re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split()
    assert re.search(r"^nightly: env\n\t\$\(BIN\)/python -m tools\.nightly$", text, re.MULTILINE)
