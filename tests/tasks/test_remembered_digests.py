"""Digests of what is large are kept beside the user's other caches, and only while nothing has moved."""

import os
from hashlib import sha256

import pytest

from tasks import planned_files
from tasks.planned_files import content_at


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user without a cache yet, for whom a hundred bytes are large; and what digests were made of."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none" / "yet"))
    monkeypatch.setattr(planned_files, "REMEMBER_FROM_BYTES", 100)
    monkeypatch.setattr(planned_files, "_digests", {})
    read, real = [], planned_files.content_digest

    def content_digest(path):
        read.append(path)
        return real(path)

    monkeypatch.setattr(planned_files, "content_digest", content_digest)
    return tmp_path, read


def notes(folder):
    kept = folder / "none" / "yet" / "smoothsweep" / "digests"
    return sorted(kept.iterdir()) if kept.is_dir() else []


def forget():
    """As another command would: nothing is remembered within the process."""
    planned_files._digests.clear()


@pytest.mark.parametrize(("size", "kept"), [(99, False), (100, True), (101, True)])
def test_what_is_large_is_read_once_by_all_commands(home, size, kept):
    folder, read = home
    for number in (1, 2):
        (folder / f"{number}.pt").write_bytes(bytes([number]) * size)
    for _ in range(3):
        for number in (1, 2):
            assert content_at(folder / f"{number}.pt") == sha256(bytes([number]) * size).hexdigest()
        forget()
    assert len(read) == (2 if kept else 6) and len(notes(folder)) == (2 if kept else 0)
    digests = {sha256(bytes([number]) * size).hexdigest() for number in (1, 2)}
    assert {note.read_text() for note in notes(folder)} == (digests if kept else set())


def test_within_a_command_it_is_read_once_whatever_its_size(home):
    folder, read = home
    (folder / "small.pt").write_bytes(b"1")
    assert {content_at(folder / "small.pt") for _ in range(3)} == {sha256(b"1").hexdigest()} and len(read) == 1


def test_what_has_moved_is_read_again_and_a_damaged_note_is_made_anew(home):
    folder, read = home
    path = folder / "x.pt"
    path.write_bytes(b"a" * 200)
    first = content_at(path)
    path.write_bytes(b"b" * 200)
    os.utime(path, ns=(1, 1))
    forget()
    assert content_at(path) == sha256(b"b" * 200).hexdigest() != first and len(read) == 2
    for damage in (b"", b"\xff\xfe", first.encode()[:-1], first.upper().encode(), first.encode() + b"0"):
        forget()
        for note in notes(folder):
            note.write_bytes(damage)
        before = len(read)
        assert content_at(path) == sha256(b"b" * 200).hexdigest() and len(read) == before + 1
    forget()
    assert content_at(path) == sha256(b"b" * 200).hexdigest() and len(read) == 7, "the note is whole again"


def test_a_cache_that_cannot_be_written_costs_time_and_nothing_else(home):
    folder, read = home
    (folder / "none").write_text("a file where the folder would be")
    (folder / "x.pt").write_bytes(b"a" * 200)
    for _ in range(2):
        assert content_at(folder / "x.pt") == sha256(b"a" * 200).hexdigest()
        forget()
    assert len(read) == 2


def test_without_a_folder_of_its_own_the_cache_lies_in_the_home(home, monkeypatch):
    folder, _ = home
    (folder / "x.pt").write_bytes(b"a" * 200)
    for unset in ("", None):
        monkeypatch.delenv("XDG_CACHE_HOME") if unset is None else monkeypatch.setenv("XDG_CACHE_HOME", unset)
        monkeypatch.setenv("HOME", str(folder / f"home{unset}"))
        forget()
        content_at(folder / "x.pt")
        (note,) = (folder / f"home{unset}" / ".cache" / "smoothsweep" / "digests").iterdir()
        assert note.read_text() == sha256(b"a" * 200).hexdigest()
