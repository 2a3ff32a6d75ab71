"""Which code made an artifact: a commit, changed or not, or a digest of every source."""

import re
import shutil
import subprocess

import pytest

from smoothsweep.orchestrator.stages import code_version as module
from smoothsweep.orchestrator.stages.code_version import CODE_VERSION_VARIABLE, code_version

ROOMS = ("core", "tasks", "sweeps", "orchestrator")


def version(tree):
    module.version_of_tree.cache_clear()
    try:
        return module.version_of_tree(tree)
    finally:
        module.version_of_tree.cache_clear()


@pytest.fixture
def tree(tmp_path):
    for room in ROOMS:
        (tmp_path / room / "inner").mkdir(parents=True)
        (tmp_path / room / "inner" / "a.py").write_text(f"# {room}\n")
    return tmp_path


@pytest.mark.parametrize("room", ROOMS)
def test_without_git_every_source_of_every_room_counts(tree, room):
    plain, file = version(tree), tree / room / "inner" / "a.py"
    assert re.fullmatch("source-[0-9a-f]{12}", plain) and version(tree) == plain
    file.write_text("# changed\n")
    changed = version(tree)
    file.rename(file.with_name("b.py"))
    assert len({plain, changed, version(tree)}) == 3
    (tree / room / "inner" / "b.py").unlink()
    (tree / room / "inner" / "a.py").write_text(f"# {room}\n")
    for beside in ("notes.md", f"{room}/notes.md", "tests/test_a.py"):
        (tree / beside).parent.mkdir(exist_ok=True)
        (tree / beside).write_text("nothing that runs")
    assert version(tree) == plain


def git(tree, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(tree), *who, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_of_a_commit_it_is_twelve_digits_and_a_plus_where_files_have_changed(tree):
    git(tree, "init", "-q")
    assert version(tree).startswith("source-")  # there is no commit to name
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "All of it")
    commit = version(tree)
    assert re.fullmatch("[0-9a-f]{12}", commit) and git(tree, "rev-parse", "HEAD").startswith(commit)
    (tree / "core" / "inner" / "a.py").write_text("# changed\n")
    assert version(tree) == f"{commit}+"


def test_whoever_packs_the_code_may_say_its_version(monkeypatch):
    monkeypatch.setenv(CODE_VERSION_VARIABLE, "1.2.3")
    assert code_version() == "1.2.3"
    monkeypatch.setenv(CODE_VERSION_VARIABLE, "")
    assert code_version() == module.version_of_tree(module.TREE)
