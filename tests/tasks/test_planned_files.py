"""Files from outside are read as what they were when they were planned, and no task reads one otherwise."""

from __future__ import annotations

import ast
import hashlib
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputChanged
from smoothsweep.orchestrator.stages import fingerprints
from smoothsweep.tasks.planned_files import PlannedFile, content_at
from tests.planned_cases import CASES, SAYS, Case


@pytest.fixture(autouse=True)
def fresh():
    fingerprints._digest.cache_clear()
    yield
    fingerprints._digest.cache_clear()


def independent(root):
    """A second way of saying what a folder holds."""
    return tuple(
        sorted((str(p.relative_to(root)), hashlib.md5(p.read_bytes()).hexdigest()) for p in root.rglob("*.png"))
    )


STEPS = ("touch", "same", "swap", "other", "add", "remove", "rename", "keeps_time", "replace")


def step(root, name, pick):
    files = sorted(root.rglob("*.png"))
    file, other = files[pick % len(files)], files[(pick + 1) % len(files)]
    if name == "touch":
        os.utime(file)
    elif name == "same":
        file.write_bytes(file.read_bytes())
    elif name == "swap":
        one, two = file.read_bytes(), other.read_bytes()
        file.write_bytes(two)
        other.write_bytes(one)
    elif name == "other":
        file.write_bytes(b"x" * (pick + 1))
    elif name == "add":
        (root / f"new{pick}.png").write_bytes(b"new")
    elif name == "remove" and len(files) > 1:
        file.unlink()
    elif name == "rename":
        file.rename(file.with_name(f"r{pick}.png"))
    elif name == "keeps_time":  # of the same size, under the old time
        facts = file.stat()
        file.write_bytes(b"y" * facts.st_size)
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    elif name == "replace":
        beside = file.with_name("beside")
        beside.write_bytes(file.read_bytes())
        os.replace(beside, file)


@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), max_size=4), any_files=st.booleans())
def test_a_folder_is_refused_exactly_when_it_holds_something_else(steps, any_files, tmp_path_factory):
    root = tmp_path_factory.mktemp("set")
    for number in range(4):
        (root / f"{number}.png").write_bytes(bytes([number]) * 3)
    planned, held = PlannedFile(root, content_at(root, any_files=any_files), any_files), independent(root)
    for name, pick in steps:
        step(root, name, pick)
    if independent(root) == held:
        assert planned.read(independent) == held
    else:
        with pytest.raises(InputChanged, match=SAYS):
            planned.read(independent)


def test_what_moves_all_the_time_with_one_content_is_read_twice_at_most(tmp_path):
    file = tmp_path / "a.bin"
    file.write_bytes(b"as planned")
    reads = []

    def moving(path):
        reads.append(path)
        os.utime(path)
        return path.read_bytes()

    assert PlannedFile(file, content_at(file)).read(moving) == b"as planned" and len(reads) == 2


def test_no_task_reads_a_configured_path_but_through_the_one_function(repository):
    """Neither `config["path"]`, `config.get("path")`, nor a prior's files, anywhere else below tasks/."""
    found = []
    for path in sorted((repository / "tasks").rglob("*.py")):
        if path.name == "planned_files.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            key = node.slice if isinstance(node, ast.Subscript) else None
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".get", ".pop")) and node.args:
                key = node.args[0]
            if isinstance(key, ast.Constant) and key.value == "path":
                found.append(f"{path.name}:{node.lineno}")
            if (
                isinstance(node, ast.Attribute)
                and node.attr in ("weights", "discriminator")
                and ast.unparse(node.value).endswith("files")
            ):
                found.append(f"{path.name}:{node.lineno}")
    assert not found


def test_whatever_a_stage_reads_from_outside_was_planned_with_its_content(tmp_path):
    """A stage that knows where a file lies counts what the file holds; with the kind of digest that its reader asks."""
    for number, kind in enumerate(CASES):
        (tmp_path / str(number)).mkdir()
        case = Case(tmp_path / str(number), kind)
        named = [stage for stage in case.stages if "path" in stage.hints]
        assert named and all(re.fullmatch("[0-9a-f]{64}", stage.config["content"]) for stage in named)
