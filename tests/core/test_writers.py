"""Whether a writer lives: by its process number where that means something, elsewhere by lock and lease."""

import fcntl
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from smoothsweep.core import writers
from smoothsweep.core.files import half_written, replacing, temporary_name
from smoothsweep.core.writers import hold_folder, is_gone, machine_id, writer_name

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
