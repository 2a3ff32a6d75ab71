"""What of a setting goes into a fingerprint; the notes that spare reading large files again."""

import hashlib
import shutil

import pytest
from labelled_files import people, regular_folders
from tiny import write_tiny

from smoothsweep.core.data.sources import content_digest, tree_digest
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.by_features import Embedder
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages import stage as fingerprints
from smoothsweep.orchestrator.stages.stage import content_of, normalised
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.parts import PRIOR_MODELS, judge_model
from smoothsweep.tasks import planned_files

OTHER = hashlib.sha256(b"other").hexdigest()


class Forgetful(dict):
    """What one process has read already, for tests that stand for many."""

    def __setitem__(self, key, value):
        pass


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Where notes are left; every question is asked anew, and every file is large."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(planned_files, "REMEMBER_FROM_BYTES", 5)
    monkeypatch.setattr(planned_files, "_digests", Forgetful())
    monkeypatch.setattr(fingerprints, "_digest", fingerprints._digest.__wrapped__)
    return tmp_path / "cache" / "smoothsweep" / "digests"


def digest_of(path, **options):
    return content_of(path, "data.path", **options)["content"]


def test_the_digest_of_a_large_file_is_kept_and_believed(tmp_path, cache):
    file = tmp_path / "a.bin"
    file.write_bytes(b"large")
    assert digest_of(file) == content_digest(file)
    [note] = cache.iterdir()
    assert note.read_text() == content_digest(file) and note.name.startswith("content_digest-")
    note.write_text(OTHER)
    assert digest_of(file) == OTHER
    file.write_bytes(b"larger")
    assert digest_of(file) == content_digest(file) != OTHER


@pytest.mark.parametrize("damaged", ["", OTHER[:-1], OTHER + "0", OTHER.upper(), OTHER[:-1] + "g", b"\xff" * 64])
def test_a_damaged_note_is_not_believed_and_written_anew(tmp_path, cache, damaged):
    file = tmp_path / "a.bin"
    file.write_bytes(b"large")
    expected = digest_of(file)
    [note] = cache.iterdir()
    note.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    assert digest_of(file) == expected and note.read_text() == expected


def test_a_folder_of_any_files_has_another_digest_than_one_of_pictures(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(planned_files, "REMEMBER_FROM_BYTES", 0)
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "list.txt").write_text("a 1")
    assert digest_of(folder, any_files=True) == tree_digest(folder)
    with pytest.raises(InputError):
        digest_of(folder)  # pictures alone
    assert [note.name.split("-")[0] for note in cache.iterdir()] == ["tree_digest"]


def test_no_file_has_no_content_and_one_that_is_not_there_is_named(tmp_path):
    assert content_of(None, "data.path") == {}
    with pytest.raises(InputError, match=r"^data\.path: expected a file or folder, got nothing at .*/nowhere$"):
        content_of(tmp_path / "nowhere", "data.path")


def test_settings_count_without_nulls_and_without_what_is_left_out():
    settings = PRIOR_MODELS["eigenfaces"](kind="eigenfaces", components=3)
    assert normalised(settings) == {"kind": "eigenfaces", "components": 3, "seed": 0}
    assert normalised(settings, without={"seed"}) == {"kind": "eigenfaces", "components": 3}
    assert "weights" not in normalised(judge_model(Embedder)(name="synthetic"))  # null


def test_pictures_that_are_not_there_have_a_content_for_a_plan_alone(tmp_path):
    place = tmp_path / "faces"
    with fingerprints.files_may_be_absent() as absent:
        assert content_of(place, "data.path") == {"content": f"nothing at {place}"}
        with pytest.raises(InputError, match=r"^judges\.embedder\.weights: expected a file or folder"):
            content_of(place, "judges.embedder.weights")
    assert absent == {"data.path": str(place)}
    with pytest.raises(InputError, match=r"^data\.path: expected a file or folder"):
        content_of(place, "data.path")


def load(tmp_path, private, public):
    data, other = {"kind": "labelled", "path": str(private)}, {"kind": "unlabelled", "path": str(public)}
    return trials_of(load_sweep(write_tiny(tmp_path, data=data, public=other, judges={})))[0].stages


@pytest.mark.parametrize("way", ["the same", "a link", "a hard link", "a copy", "by way of .."])
def test_the_private_file_under_any_name_is_refused(tmp_path, way):
    private, public = people(tmp_path / "faces.parquet"), tmp_path / "other.parquet"
    if way == "a link":
        public.symlink_to(private)
    elif way == "a hard link":
        public.hardlink_to(private)
    elif way == "a copy":
        shutil.copy(private, public)
    else:
        public = private if way == "the same" else tmp_path / "x" / ".." / "faces.parquet"
        (tmp_path / "x").mkdir(exist_ok=True)
    with pytest.raises(InputError, match=r"public\.path: expected images of other people than data\.path"):
        load(tmp_path, private, public)


def test_a_folder_inside_the_other_is_refused(tmp_path):
    private = regular_folders(tmp_path / "faces")
    with pytest.raises(InputError, match="expected images of other people"):
        load(tmp_path, private, private / "ann")


def test_other_files_are_taken(tmp_path):
    assert load(tmp_path, people(tmp_path / "faces.parquet"), people(tmp_path / "other.parquet", per_class=5))
