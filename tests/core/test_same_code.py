"""What makes a result repeatable: the same code, seeds from their keys, sources by their name."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib

import numpy as np
import pytest
import torch
from checkout import copy_packages
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core import same_code
from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.citations import SOFTWARE, bibliography, key_of, known_citations
from smoothsweep.core.data.kinds import DATA
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.errors import CodeChanged
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.same_code import ROOMS, code_digest, expected_code, only_this_code
from smoothsweep.core.seeds import derive_seed, generator

NAMES = [f"{room}/{name}" for room in ROOMS for name in ("__init__.py", "inner/a.py", "inner/deep/card.json")]


def plant(root, contents=None):
    for name in NAMES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((contents or {}).get(name, f"# {name}\n"))
    return root


def test_what_counts_is_what_the_files_hold_and_not_where_the_tree_lies(tmp_path):
    here, there = plant(tmp_path / "here"), plant(tmp_path / "elsewhere" / "there")
    assert code_digest(here) == code_digest(there)
    for beside in (
        "notes.md",
        "core/notes.md",
        "core/__pycache__/a.cpython-311.pyc",
        "tests/test_a.py",
        "core/inner/.a.py.swp",
        "core/inner/.#a.py",
        "sweeps/mine.yaml",
    ):
        path = there / beside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("nothing that is imported")
    assert code_digest(here) == code_digest(there)


@given(
    edits=st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["touch", "same", "other", "gone", "moved"])), max_size=4
    )
)
def test_the_digest_moves_exactly_when_a_source_does(edits, tmp_path_factory):
    root = plant(tmp_path_factory.mktemp("tree"))
    before = code_digest(root)
    for name, edit in edits:
        path = root / name
        if edit == "touch" and path.exists():
            os.utime(path)
        elif edit == "same" and path.exists():
            path.write_bytes(path.read_bytes())
        elif edit == "other":
            path.write_text("# edited")
        elif edit == "gone":
            path.unlink(missing_ok=True)
        elif edit == "moved" and path.exists():
            path.rename(path.with_name(f"moved_{path.name}"))
    held = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}
    assert (code_digest(root) == before) == (held == {name: f"# {name}\n" for name in NAMES})


def test_sources_are_read_once_as_long_as_none_moves(tmp_path, monkeypatch):
    root, read = plant(tmp_path), []
    real = same_code._digest
    monkeypatch.setattr(same_code, "_digest", lambda tree, names: read.append(tree) or real(tree, names))
    first = code_digest(root)
    assert [code_digest(root) for _ in range(3)] == [first] * 3 and len(read) == 1
    facts = (root / NAMES[1]).stat()
    (root / NAMES[1]).write_text("# CORE/inner/a.py\n"[: facts.st_size])  # of the same size, under the old time
    os.utime(root / NAMES[1], ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert code_digest(root) != first and len(read) == 2


def test_other_code_is_one_line_and_the_block_is_not_entered():
    with pytest.raises(CodeChanged) as caught, only_this_code("0" * 64):
        pytest.fail("nothing of it may run")
    line = str(caught.value)
    assert "expected the code that this run began with (source-000000000000), got source-" in line
    assert f"source-{code_digest()[:12]}" in line and "last changed: " in line and "\n" not in line


def test_the_same_code_is_let_through_and_the_watch_ends_with_the_block():
    watching = len(sys.meta_path)
    with only_this_code(code_digest()):
        assert expected_code() == code_digest() and len(sys.meta_path) == watching + 1
    assert expected_code() is None and len(sys.meta_path) == watching
    with only_this_code(None):
        assert expected_code() is None and len(sys.meta_path) == watching


PROGRAM = """
import importlib, pathlib, sys
from smoothsweep.core.errors import CodeChanged
from smoothsweep.core.same_code import code_digest, only_this_code
import smoothsweep.core.text
edited, wanted = sys.argv[1:]
with only_this_code(code_digest()):
    with pathlib.Path(edited).open("a") as file:
        file.write("\\nEDITED = True\\n")
    try:
        module = importlib.import_module(wanted)
    except CodeChanged as error:
        print("refused:", error)
    else:
        print("imported", getattr(module, "EDITED", False))
"""


@pytest.fixture(scope="module")
def copied(repository, tmp_path_factory):
    """The sources in another place, without the weights."""
    root = tmp_path_factory.mktemp("copied")
    ignored = shutil.ignore_patterns("__pycache__", "*.safetensors", "*.csv", "*.yaml", "*.html")
    return copy_packages(repository, root, ignore=ignored)


@pytest.mark.parametrize(
    ("edited", "wanted", "said"),
    [
        ("core/held.py", "smoothsweep.core.held", "refused"),  # the module itself
        ("core/uris.py", "smoothsweep.core.held", "imported False"),  # loaded long ago: what runs is what was meant
        ("core/cards.py", "smoothsweep.core.priors.settings", "refused"),  # one that the module imports
        ("core/brand_new.py", "smoothsweep.core.brand_new", "refused"),  # there was none when the run began
    ],
)
def test_a_module_that_was_edited_is_never_imported_and_what_was_loaded_goes_on(copied, tmp_path, edited, wanted, said):
    root = tmp_path / "tree"
    shutil.copytree(copied, root, symlinks=True)
    command = [sys.executable, "-c", PROGRAM, edited, wanted]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(said), done.stdout + done.stderr
    if said == "refused":
        assert f"last changed: {edited}" in done.stdout and done.stdout.count("\n") == 1


KEYS = st.lists(st.integers(0, 2**40) | st.text(max_size=5), max_size=4)


def test_the_derivation_does_not_change():
    assert derive_seed(42, 3, "optimise", 0) == 6137726443759718973


@given(KEYS, KEYS)
def test_a_seed_is_a_function_of_its_key_and_fits_63_bits(first, second):
    assert 0 <= derive_seed(*first) < 2**63
    assert (derive_seed(*first) == derive_seed(*second)) == (first == second)


def test_types_and_borders_of_the_key_count():
    assert len({derive_seed(1, 23), derive_seed(12, 3), derive_seed("1", "23"), derive_seed(123)}) == 4


def test_a_generator_is_fresh_each_time():
    first = torch.rand(5, generator=generator(1, "a"))
    assert torch.equal(first, torch.rand(5, generator=generator(1, "a")))
    assert not torch.equal(first, torch.rand(5, generator=generator(1, "b")))


def test_kinds_of_integers_count_as_one():
    assert derive_seed(np.int64(3), "a") == derive_seed(3, "a") == derive_seed(torch.tensor(3), "a")
    with pytest.raises(TypeError):
        derive_seed(0.5)


CLASSES = {
    **{f"attack {name}": kind for name, kind in ATTACKS.items()},
    **{f"membership attack {name}": kind for name, kind in MEMBERSHIP_ATTACKS.items()},
    **{f"defense {name}": kind for name, kind in DEFENSES.items()},
    **{f"judge {name}": kind for name, kind in JUDGES.items()},
    **{f"kind of data {name}": kind for name, kind in DATA.items()},
}
FAMILIES = {
    **{member: kind.cites for member, kind in CLASSES.items()},
    **{f"prior {name}": kind.cites for name, kind in PRIORS.items()},
    **{f"network {name}": kind.cites for name, kind in KINDS.items()},
    **{f"data {name}": row.cites for name, row in PUBLISHED_NAMES.items()},
}


@pytest.mark.parametrize("member", FAMILIES)
def test_every_member_names_sources_that_are_in_the_file(member):
    assert not set(FAMILIES[member]) - set(known_citations())


def test_the_softwares_entry_is_of_this_version(repository):
    version = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["version"]
    entry = known_citations()[SOFTWARE]
    assert f"version = {{{version}}}" in entry and f"note = {{Software, version {version}}}" in entry


def test_entries_come_out_once_by_key_and_those_of_plugins_as_they_are():
    own = "@misc{zz2030,\n  title = {A plug-in}\n}"
    text = bibliography(["ng2014data", own, "liu2015deep", "ng2014data", own])
    assert re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE) == ["liu2015deep", "ng2014data", "zz2030"]
    assert text.endswith(f"{own}\n") and key_of(own) == "zz2030"
