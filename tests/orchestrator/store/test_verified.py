"""Where it is noted that files are right, and that the notes of stores that are gone go."""

import pytest

from smoothsweep.orchestrator.store import verified
from smoothsweep.orchestrator.store.manifests import Damage
from smoothsweep.orchestrator.store.verified import CACHE_VARIABLE, cache_folder, checksum, verify


@pytest.fixture
def artifact(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(verified, "_right", {})
    folder = tmp_path / "store" / "toy" / ("a" * 64)
    folder.mkdir(parents=True)
    (folder / "rows.bin").write_bytes(b"rows")
    return folder


def notes():
    return sorted((cache_folder() / "verified").glob("*/toy.*"))


def test_a_change_is_seen_whatever_the_notes_say(artifact):
    files = {"rows.bin": checksum(artifact / "rows.bin")}
    verify(artifact, files)
    (artifact / "rows.bin").write_bytes(b"ROWS")
    with pytest.raises(Damage, match=r"^rows\.bin differs from its checksum$"):
        verify(artifact, files)
    (artifact / "rows.bin").unlink()
    with pytest.raises(Damage, match=r"^rows\.bin is missing$"):
        verify(artifact, files)


def test_the_notes_of_a_store_that_is_gone_go_with_the_first_note_of_another(artifact, tmp_path):
    verify(artifact, {"rows.bin": checksum(artifact / "rows.bin")})
    [old] = notes()
    other = tmp_path / "other" / "toy" / ("b" * 64)
    other.parent.mkdir(parents=True)
    artifact.rename(other)
    artifact.parent.rmdir()
    artifact.parent.parent.rmdir()
    verify(other, {"rows.bin": checksum(other / "rows.bin")})
    assert not old.parent.exists() and [note.name for note in notes()] == [f"toy.{'b' * 64}"]
