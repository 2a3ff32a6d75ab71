"""Files as they are written, locked and swept; the code that a run began with."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import time
import tomllib

import numpy as np
import pytest
import torch
from checkout import copy_packages
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from smoothsweep.core import files, writers
from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.citations import SOFTWARE, bibliography, key_of, known_citations
from smoothsweep.core.data.kinds import DATA
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.errors import CodeChanged
from smoothsweep.core.files import half_written, making_folder, rename_folder, replacing, temporary_name, write_file
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.same_code import ROOMS, code_digest, expected_code, only_this_code
from smoothsweep.core.seeds import derive_seed
from smoothsweep.core.writers import hold_folder, is_gone, machine_id, writer_name


@pytest.fixture
def umask():
    """Sets the process's umask for one test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_file_is_replaced_as_a_whole_and_a_failure_leaves_the_old_one(tmp_path):
    path = tmp_path / "a" / "x.json"
    with pytest.raises(FileNotFoundError):
        write_file(path, "1")  # a folder that has gone is not made again
    write_file(path, b"1", parents=True)
    write_file(path, "zwö")
    assert path.read_bytes() == "zwö".encode() and names(tmp_path) == ["a", "a/x.json"]
    with pytest.raises(RuntimeError, match="stop"), replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("stop")
    assert path.read_text() == "zwö" and names(tmp_path) == ["a", "a/x.json"]


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o027, 0o077])
def test_the_umask_decides_who_may_read_whatever_wrote_the_file(tmp_path, umask, mask):
    umask(mask)
    with replacing(tmp_path / "weights") as temporary:
        save_file({"a": torch.zeros(2)}, temporary)  # makes its own file, mode 0600
    write_file(tmp_path / "note", b"")
    with making_folder(tmp_path / "folder") as draft:
        write_file(draft / "note", b"")
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names(tmp_path)}
    assert modes == {
        "weights": 0o666 & ~mask,
        "note": 0o666 & ~mask,
        "folder": 0o777 & ~mask,
        "folder/note": 0o666 & ~mask,
    }


def test_content_is_flushed_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    told, real = [], (os.fsync, os.replace)

    def fsync(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        name = os.path.relpath(path, tmp_path)
        told.append(("flush", name.split(".")[1] if name.startswith(".x") else name))
        real[0](descriptor)

    def replace(old, new):
        told.append(("rename", new.name))
        real[1](old, new)

    monkeypatch.setattr(files.os, "fsync", fsync)
    monkeypatch.setattr(files.os, "replace", replace)
    write_file(tmp_path / "x", b"1")
    assert told == [("flush", "x"), ("rename", "x"), ("flush", ".")]
    told.clear()
    (tmp_path / "draft" / "in").mkdir(parents=True)
    (tmp_path / "draft" / "in" / "y").write_bytes(b"1")
    rename_folder(tmp_path / "draft", tmp_path / "final")
    assert told == [
        ("flush", "draft/in/y"),
        ("flush", "draft/in"),
        ("flush", "draft"),
        ("rename", "final"),
        ("flush", "."),
    ]
    told.clear()
    write_file(tmp_path / "mark", b"1", flush=False)
    assert told == [("rename", "mark")]


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "x", b"1")
    with pytest.raises(OSError, match="No space"), making_folder(tmp_path / "folder") as draft:
        (draft / "y").write_bytes(b"1")
    assert names(tmp_path) == []


def test_a_folder_appears_whole_and_never_over_another(tmp_path):
    with making_folder(tmp_path / "deep" / "final") as draft:
        write_file(draft / "a", b"1")
        assert not (tmp_path / "deep" / "final").exists()
    with pytest.raises(OSError) as caught, making_folder(tmp_path / "deep" / "final") as draft:
        write_file(draft / "b", b"2")
    assert caught.value.errno in (errno.ENOTEMPTY, errno.EEXIST)
    assert names(tmp_path) == ["deep", "deep/final", "deep/final/a"]


class QuotingError(Exception):
    """What a library that writes in another language raises."""


@pytest.mark.parametrize(
    "error",
    [
        QuotingError("Error while serializing: I/O error: No space left on device (os error 28)"),
        QuotingError("Error writing bytes to file. Detail: [errno 28] No space left on device"),
        OSError(28, "No space left on device"),
    ],
)
def test_a_full_disk_is_told_alike_whoever_wrote(tmp_path, error):
    with pytest.raises(OSError, match=r"No space left on device: .*out'$") as told, replacing(tmp_path / "out"):
        raise error
    assert (told.value.errno, told.value.filename) == (28, str(tmp_path / "out")) and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [QuotingError("of 28 rows"), FileNotFoundError(2, "No such file", "/the/source")])
def test_other_errors_in_between_stay_as_they_are(tmp_path, error):
    with pytest.raises(type(error)) as told, replacing(tmp_path / "out"):
        raise error
    assert told.value is error


LONG_AGO = time.time() - 2 * writers.LEASE_S


def dead_process():
    gone = multiprocessing.get_context("fork").Process(target=int)
    gone.start()
    gone.join()
    return gone.pid


def other_place():
    """A container that shares our host name."""
    host, _, digest = machine_id().rpartition("-")
    return f"{host}-{'0' * len(digest)}"


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("lapsed", [True, False])
@pytest.mark.parametrize("lives", [True, False])
@pytest.mark.parametrize("place", ["here", "a container of our host name", "another host"])
def test_who_is_gone(tmp_path, place, lives, lapsed, locked):
    where = {"here": machine_id(), "another host": "other.host-01234567"}.get(place) or other_place()
    writer = f"{where}.{os.getpid() if lives else dead_process()}.0123abcd"
    folder = tmp_path / f".{'a' * 64}.{writer}"
    folder.mkdir()
    if lapsed:
        os.utime(folder, (LONG_AGO, LONG_AGO))
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if locked:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        expected = lapsed and not locked
        if place == "here" and not lives:
            expected = True
        assert is_gone(writer, folder) == expected
    finally:
        os.close(descriptor)


def test_what_is_in_a_folder_counts_for_its_lease(tmp_path):
    (tmp_path / "fresh").write_text("just now")
    os.utime(tmp_path, (LONG_AGO, LONG_AGO))
    assert not writers.has_lapsed(tmp_path)
    os.utime(tmp_path / "fresh", (LONG_AGO, LONG_AGO))
    os.utime(tmp_path, (LONG_AGO, LONG_AGO))
    assert writers.has_lapsed(tmp_path) and not writers.has_lapsed(tmp_path / "never there")


@pytest.mark.parametrize("name", ["", "x", "a.b", "host.word.0123abcd", "..", "host.-1.0", "a.b.c.d"])
def test_names_of_others_are_no_writers(name):
    assert not is_gone(name)


def test_a_writers_name_is_its_own_and_says_where():
    mine = writer_name()
    where, pid, random = mine.rsplit(".", 2)
    assert (
        (where, int(pid), len(random)) == (machine_id(), os.getpid(), 8) and writer_name() != mine and not is_gone(mine)
    )


def test_a_folder_at_work_is_touched_and_locked_until_it_is_renamed(tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "BEAT_S", 0.05)
    monkeypatch.setattr(writers, "_beating", [])
    draft = tmp_path / "draft"
    draft.mkdir()
    hold_folder(draft)
    os.utime(draft, (LONG_AGO, LONG_AGO))
    late = time.monotonic() + 60
    while writers.has_lapsed(draft) and time.monotonic() < late:
        time.sleep(0.02)
    assert not writers.has_lapsed(draft) and writers._is_locked(draft)
    draft.rename(tmp_path / "final")
    assert writers._is_locked(tmp_path / "final")
    other = tmp_path / "another"
    other.mkdir()
    hold_folder(other)
    assert draft not in writers._held and not writers._is_locked(tmp_path / "final")
    writers.release_folder(other)
    assert not writers._is_locked(other) and other not in writers._held


IN_A_CONTAINER = """
import sys, time
from pathlib import Path
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
print(Store(root=Path(sys.argv[1])).draft(Stage(name="toy", config={})), flush=True)
sys.stdin.read()
"""


def test_a_container_of_our_host_name_keeps_its_live_draft(tmp_path):
    """A process namespace of its own, as a container has: its process 1 is not ours."""
    from smoothsweep.orchestrator.store.base import Store

    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", IN_A_CONTAINER]
    if shutil.which("unshare") is None or subprocess.run([*command[:4], "true"], capture_output=True).returncode:
        pytest.skip("no process namespaces here")
    store = Store(root=tmp_path)
    with subprocess.Popen([*command, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as there:
        draft = pathlib.Path(there.stdout.readline().strip())
        assert store.sweep_away_drafts() == 0 and draft.is_dir()
        os.utime(draft, (LONG_AGO, LONG_AGO))
        assert store.sweep_away_drafts() == 0 and draft.is_dir(), "its lock reaches us"
        there.stdin.close()
    os.utime(draft, (LONG_AGO, LONG_AGO))
    assert store.sweep_away_drafts() == 1 and not draft.exists(), "of a node that is lost, once its lease is over"


def test_half_written_files_of_lost_machines_go_after_a_day(tmp_path):
    fresh, old = (tmp_path / f".notes.json.elsewhere-01234567.17.{n:08x}" for n in range(2))
    earlier = tmp_path / ".notes.json.host.of.old.17.0123abcd"  # of a version that named no place
    for path in (fresh, old, earlier):
        path.write_text("half")
    for path in (old, earlier):
        os.utime(path, (LONG_AGO, LONG_AGO))
    with replacing(tmp_path / "notes.json") as mine:
        assert set(half_written(tmp_path)) == {old, earlier} and mine.exists()
    gone = temporary_name(tmp_path / "a.b.c")
    gone = gone.with_name(gone.name.replace(f".{os.getpid()}.", f".{dead_process()}."))
    gone.write_text("half")
    assert gone in half_written(tmp_path)


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


def test_a_source_of_the_same_size_under_its_old_time_is_noticed(tmp_path):
    root = plant(tmp_path)
    first, facts = code_digest(root), (root / NAMES[1]).stat()
    assert code_digest(root) == first
    (root / NAMES[1]).write_text("# CORE/inner/a.py\n"[: facts.st_size])
    os.utime(root / NAMES[1], ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert code_digest(root) != first


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
