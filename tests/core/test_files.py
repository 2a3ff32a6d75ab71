"""Files appear whole, for everybody whom the umask lets read them; who is at work in a folder, and who is gone."""

import errno
import fcntl
import multiprocessing
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import save_file

from smoothsweep.core import files, writers
from smoothsweep.core.files import half_written, making_folder, rename_folder, replacing, temporary_name, write_file
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
